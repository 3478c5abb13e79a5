"""A made-up experiment `quick`: four implementations, two devices, three interleaved repeats."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from rnnbench.records.plan_file import Experiment
from rnnbench.records.record import Record
from rnnbench.report.tables import ReportInputs, Tables
from rnnbench.tables.certificates import Certificates
from tests.factory import BEGINNING, make_record, replace

EXPERIMENT = Experiment(
    "quick",
    "Which LSTM trains fastest here? (made-up numbers)",
    "Four implementations of one LSTM on scikit-learn's handwritten digits.",
    {"rnn": "keras"},
)
SECONDS = {"keras": 0.52, "cell": 0.53, "unrolled": 0.43, "block": 0.47}
SKIPPED = [{"name": "digits_rnn-lstm-cudnn-cpu_1-current", "why": "cuDNN runs on NVIDIA GPUs only"}]
CERTIFIED = {"status": "certified", "why": None, "applied": {}}
UNEQUAL = {
    "schema": 2, "model": "digits_rnn", "cell": "lstm", "build": "current", "overrides": {},
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
            kernel = {"op": "BlockLSTMV2" if rnn == "block" else "While", "calls": 1}
            records.append(replace(record, measured={**record.measured, "kernel": kernel}))
    return records
