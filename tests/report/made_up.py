"""Made-up experiments: `quick`, four implementations on two devices, and `six`, which fills every
section of a report. Nothing was measured."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import combinations
from pathlib import Path
from typing import Any

from rnnbench.records.keys import certificate_key
from rnnbench.records.plan_file import Experiment, Skipped
from rnnbench.records.record import Record
from rnnbench.report.content import Content
from rnnbench.report.page import write_report
from rnnbench.report.tables import ReportInputs, Tables
from rnnbench.sources.certificates import Certificate, certificate_of
from rnnbench.sources.prices import Price, PriceList
from rnnbench.sources.published import read_published
from rnnbench.tables.certificates import Certificates
from tests.conftest import ROOT
from tests.factory import BEGINNING, make_record, put, replace

EXPERIMENT = Experiment(
    "quick",
    "Which LSTM trains fastest here? (made-up numbers)",
    "Four implementations of one LSTM on scikit-learn's handwritten digits.",
    {"rnn": "keras"},
)
SECONDS = {"keras": 0.52, "cell": 0.53, "unrolled": 0.43, "block": 0.47}
SKIPPED = [{"name": "digits_rnn-lstm-cudnn-cpu_1-current", "why": "cuDNN runs on NVIDIA GPUs only"}]
QUICK = replace(EXPERIMENT, skipped=tuple(Skipped(**each) for each in SKIPPED))
CERTIFIED = {"status": "certified", "why": None, "applied": {}}
A_RUN = make_record().run
UNEQUAL = {
    "schema": 3, "key": certificate_key(A_RUN.choices, A_RUN.config, 3), "model": "digits_rnn",
    "cell": "lstm", "build": "current", "overrides": {},
    "tolerance": {"gradients": 1e-4},
    "implementations": {"keras": CERTIFIED, "unrolled": CERTIFIED},
    "pairs": [{"a": "keras", "b": "unrolled", "gradients": 0.03, "equal": False}],
}  # fmt: skip
MISSING = ["digits_rnn-lstm-block-cpu_2-current-s0-r2"]


def measurements(
    records: Sequence[Record], reference: Mapping[str, str] = EXPERIMENT.reference, **inputs: Any
) -> Tables:
    experiment = replace(EXPERIMENT, reference=dict(reference))
    return Tables(records, experiment, ReportInputs(**inputs))


class WrongSteps(Certificates):
    """Certificates according to which the implementation `cell` applies wrong gradients."""

    def why_not_learning(self, configuration):
        is_wrong = configuration["rnn"] == "cell"
        return "applies wrong gradients: worst 210 %" if is_wrong else None


def store(records: Iterable[Record], results: Path) -> None:
    """Writes the records with their rounds."""
    for record in records:
        put(results, record)


def quick() -> list[Record]:
    """23 of 24 runs, one of them suspect and one void; one is missing."""
    generator, records, order = random.Random(7), [], 0
    verdicts = {("cell", "cpu_2", 1): "suspect", ("keras", "cpu_2", 0): "void"}
    for repeat in range(3):
        cells = [(rnn, device) for rnn in SECONDS for device in ("cpu_1", "cpu_2")]
        generator.shuffle(cells)
        for rnn, device in cells:
            order += 1
            if (rnn, device, repeat) == ("block", "cpu_2", 2):
                continue
            level = SECONDS[rnn] * (0.8 if device == "cpu_2" else 1) * generator.gauss(1, 0.012)
            record = make_record(
                rnn=rnn,
                device=device,
                repeat=repeat,
                order=order,
                acc=0.967,
                epoch_seconds=[level * generator.gauss(1, 0.008) for _ in range(8)],
                verdict=verdicts.get((rnn, device, repeat), "clean"),
                started=BEGINNING + timedelta(seconds=9 * order),
            )
            kernel = {"found": ["BlockLSTMV2" if rnn == "block" else "while"], "expected": None}
            records.append(replace(record, facts={**record.facts, "kernel": kernel}))
    return records


# Seconds per epoch of keras, and USD per hour.
DEVICES = {
    "k80": (9.1, 0.45), "p100": (4.6, 1.46), "rtx_2070": (3.9, 0.35), "h200": (1.3, 4.0),
    "cpu_1": (61.0, 0.05), "cpu_4": (19.0, 0.19), "cpu_16": (8.2, 0.76), "cpu_64": (6.9, 3.0),
}  # fmt: skip
SIX = Experiment(
    "six",
    "Six devices (made-up numbers, for tests only)",
    "Four implementations of `mnist_rnn` on six devices and two builds. Nothing was measured.",
    {"rnn": "keras"},
    # The step of digits_rnn is tiny, so the peaks are too.
    peak_tflops={
        device: {"float32": 0.018 / seconds}
        for device, (seconds, _) in DEVICES.items()
        if device != "k80"
    },
    skipped=tuple(
        Skipped(f"mnist_rnn-lstm-cudnn-{device}-tf_2_21", "cuDNN runs on NVIDIA GPUs only")
        for device in ("cpu_16", "cpu_64")
    ),
)
SHARE = {"keras": 1.0, "unrolled": 0.82, "block": 0.9, "cudnn": 0.11, "cell": 1.04}
BUILDS = {"tf_2_21": 1.0, "tf_1_15": 2.4}
# Those of `make_record`: 1438 and 359 samples in batches of 32.
SIZES = ((32, True), (30, True), (32, False), (7, False))
PRICES = PriceList(
    "made_up", "Made-up prices", "2026-11", "nobody: for tests only",
    tuple(Price(device, "on_demand", usd) for device, (_, usd) in DEVICES.items()),
    note="The numbers are invented.", reference="k80",
)  # fmt: skip


def steps(off: int = 0, worst: float = 2e-7) -> dict:
    """The entry of a certificate on the training steps of an implementation on one device."""
    return {"threads": 1, "steps": 30, "off": off, "worst": worst, "why": None}


def layers(sizes: Iterable[tuple[int, bool]] = SIZES) -> dict:
    """The entry of a certificate on the layers of an implementation on one device."""
    batches = [
        {"rows": rows, "training": training, "outputs": 3e-7, "gradients": 2e-6}
        for rows, training in sizes
    ]
    return {"batches": batches, "wrong": None, "why": None}


def certificate(build: str, model: str = "mnist_rnn", **overrides: Any) -> dict:
    """A certificate as its file has it. The gradients of `cell` differ in tf_1_15; all others are
    equal."""
    choices = {"model": model, "cell": "lstm", "build": build}
    config = make_record(model=model, build=build, overrides=overrides).run.config
    fails = build == "tf_1_15"
    names = ["keras", "unrolled", "block", "cudnn", "cell"]
    return {
        "schema": 3, "key": certificate_key(choices, config, 3), **choices,
        "overrides": overrides, "machine": "gpu-box", "precision": "float32",
        "tolerance": {"outputs": 1e-5, "gradients": 1e-4, "loss_curve": 1e-3},
        "implementations": {
            name: {"status": "certified", "why": None, "kernel": ["while"], "outputs": 3e-7,
                   "gradients": 2e-6, "loss_curve": [2.3] * 20, "round_trip": True,
                   "function": None, "function_why": None,
                   "probed": {device: layers() for device in DEVICES},
                   "applied": {device: steps() for device in DEVICES}}
            for name in names
        },
        "pairs": [
            {"a": a, "b": b, "outputs": 2e-7, "loss_curve": 1e-6,
             "gradients": 3e-2 if b == "cell" and fails else 3e-6,
             "equal": not (b == "cell" and fails)}
            for a, b in combinations(names, 2)
        ],
    }  # fmt: skip


def as_read(*made: dict) -> tuple[Certificate, ...]:
    """As they are read from files with this content."""
    return tuple(certificate_of(each, "here") for each in made)


def six() -> list[Record]:
    """Three interleaved repeats of every configuration that can exist; one run is suspect, one is
    void."""
    generator, records, order = random.Random(11), [], 0
    cells = [
        (rnn, device, build)
        for build in BUILDS
        for device in DEVICES
        for rnn in SHARE
        if rnn != "cudnn" or not device.startswith("cpu")
    ]
    for repeat in range(3):
        generator.shuffle(cells)
        for rnn, device, build in cells:
            order += 1
            cpu, is_old = device.startswith("cpu"), build == "tf_1_15"
            level = DEVICES[device][0] * SHARE[rnn] * BUILDS[build] * generator.gauss(1, 0.012)
            if rnn == "unrolled" and is_old:
                level *= 1.5
            seconds = [level * generator.gauss(1, 0.006) for _ in range(6)]
            seconds[0] *= 1.2 if is_old else 1
            record = make_record(
                experiment="six",
                model="mnist_rnn",
                rnn=rnn,
                device=device,
                build=build,
                repeat=repeat,
                order=order,
                acc=0.971,
                machine="cpu-box" if cpu else f"{device}-box",
                verdict={50: "suspect", 90: "void"}.get(order, "clean"),
                epoch_seconds=seconds,
                started=BEGINNING + timedelta(seconds=30 * order),
            )
            kernel = {"found": ["CudnnRNNV3"] if rnn == "cudnn" else ["while"], "expected": None}
            kernel["why_not_cudnn"] = ["the device is a CPU"] if cpu else []
            records.append(replace(record, facts={**record.facts, "kernel": kernel}))
    return records


def inputs() -> ReportInputs:
    """Certificates of both builds, made-up prices, the actual published rows, both limits."""
    return ReportInputs(
        Certificates(as_read(*map(certificate, BUILDS)), tuple(six())),
        PRICES,
        tuple(read_published(Path(ROOT) / "reports" / "published")), deadline=60.0, budget=0.01,
    )  # fmt: skip


def write_site(folder: Path) -> Path:
    """The report, below `folder`."""
    write_report(Content(six(), SIX, beside=inputs()), folder / "six")
    return folder
