"""Synthetic records for tests: plausible digits_rnn runs with consistent times."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from rnnbench.grid.point import digest_of, full_identity
from rnnbench.records import bounds
from rnnbench.records.measured import Measured
from rnnbench.records.record import Epoch, Phase, Reason, Record, RoundFacts, Run, Verdict
from rnnbench.records.rounds import Result, read_results, write_results
from rnnbench.records.store import write_record
from rnnbench.records.timestamps import written
from rnnbench.tables.estimates import Measurements
from rnnbench.tables.frame import tidy

DIGITS_MD5 = "7f6f2c1f4b3a5c0e9d8b7a6958473625"
KERAS = {"rnn": "keras"}
BEGINNING = datetime(2026, 11, 21, 7, 50, 0, 123456, tzinfo=UTC)
SAMPLES, STEPS, TEST_SAMPLES = 1438, 45, 359
# Seconds of all phases except `train`, whose duration follows from its epochs.
PHASE_SECONDS = {
    "import": 4.9,
    "data": 0.02,
    "build": 0.3,
    "first_step": 1.1,
    "warmup": 0.4,
    "evaluate": 0.5,
    "predict": 0.5,
}
NOT_FINITE = Reason("loss_not_finite", "the loss is not finite from epoch 2.", "lower the rate.")
LOAD = Reason("foreign_load", "0.4 CPU seconds a second of others.", "measure it again.")
VOID = Verdict("void", (NOT_FINITE,))
VERDICTS = {"clean": Verdict("clean"), "suspect": Verdict("suspect", (LOAD,)), "void": VOID}
# What a build and a machine report about themselves.
ENVIRONMENT = {
    "python": "3.11.2",
    "tensorflow": "2.21.0",
    "keras": "3.12.0",
    "numpy": "2.3.5",
    "backend": "tensorflow",
    "packages": ["keras==3.12.0", "numpy==2.3.5", "tensorflow-cpu==2.21.0"],
}
HARDWARE = {
    "cpu": "Imaginary CPU @ 2.00GHz",
    "cores": 2,
    "memory_bytes": 8 * 2**30,
    "system": "Linux-6.1-x86_64",
    "gpus": [],
}

# FLOPs of one sample of digits_rnn with an LSTM: 8 timesteps of (1, 8) × (8, 256) and (1, 64) ×
# (64, 256), then (1, 64) × (64, 10).
FORWARD = 2 * (8 * (8 * 256 + 64 * 256) + 64 * 10)


def make_record(
    *,
    model: str = "digits_rnn",
    cell: str = "lstm",
    rnn: str = "keras",
    device: str = "cpu_1",
    build: str = "current",
    seed: int = 0,
    repeat: int = 0,
    machine: str = "testbox-0123abcd",
    epoch_seconds: float | Sequence[float] = 0.5,
    epochs: int = 5,
    acc: float | None = 0.97,
    verdict: Verdict | str = "clean",
    overrides: Mapping[str, Any] | None = None,
    boot: float = 1000.0,
    started: datetime = BEGINNING,
    **changes: Any,
) -> Record:
    """A record of digits_rnn with an LSTM, by default.

    **Arguments:**

    - `model` to `build`, `seed`, `repeat`, `machine`: the run and its machine.
    - `epoch_seconds`: a number for all epochs, or a sequence with one number per epoch.
    - `epochs`: number of epochs, if `epoch_seconds` is a number.
    - `acc`: the last validation accuracy; None for a loss that is not finite.
    - `verdict`: a `Verdict`, or its status.
    - `boot`: monotonic seconds at which the run starts.
    - `started`: wall time (UTC) at which the run starts.
    - `changes`: fields of `Record` that replace the synthetic ones.
    """
    if isinstance(epoch_seconds, int | float):
        epoch_seconds = [epoch_seconds] * epochs
    if isinstance(verdict, str):
        verdict = VERDICTS[verdict]
    overrides = dict(overrides or {})
    choices = {"model": model, "cell": cell, "rnn": rnn, "device": device, "build": build}
    suffix = "".join(f"-{k.rpartition('.')[2]}{v}" for k, v in sorted(overrides.items()))
    suffix = suffix.replace("/", "_")  # as a plan's names have none
    config = make_config(choices, overrides, seed, repeat, len(epoch_seconds))
    identity = {"dataset_md5": DIGITS_MD5, "build_lock": "b" * 64, "worker": "w"}
    phases, timed = _phases(boot, epoch_seconds, acc)
    wall = phases[-1].end - boot
    run = Run(
        name=f"{'-'.join(choices.values())}{suffix}-s{seed}-r{repeat}",
        choices=choices,
        overrides=overrides,
        seed=seed,
        repeat=repeat,
        alias=None,
        block=seed + repeat,
        order=0,
        round=f"round-s{seed}-r{repeat}",
        digest=digest_of(full_identity(config, identity)),
        identity=identity,
        config=config,
    )
    record = Record(
        run=run,
        experiment="quick",
        site=machine,
        machine=machine,
        started=written(started),
        finished=written(started + timedelta(seconds=wall)),
        environment=copy.deepcopy(ENVIRONMENT),
        hardware={"machine": machine, "host": machine.partition("-")[0], **copy.deepcopy(HARDWARE)},
        phases=phases,
        epochs=timed,
        facts={
            "peak_memory_bytes": 612_345_678,
            "parameters": 19_402,
            "flops_per_sample": 3 * FORWARD,
            "timesteps": 8,
            "weights_sha256": "a" * 64,
            "threads": {"asked": int(device.removeprefix("cpu_"))} if "cpu_" in device else None,
            "wall_seconds": wall,
            "closure": 0.001,
        },
        verdict=verdict,
        round=RoundFacts(
            id=f"{machine}/alone/{written(started)}", members=(run.name,), companion=False
        ),
        turns={},
    )
    return replace(record, **changes)


def measured_of(facts: Mapping[str, object]) -> Measured:
    return bounds.decoded("measured", facts, Measured)


def make_runs(
    levels: Mapping[str, float], repeats: int = 3, noise: float = 0.001, **changes: Any
) -> list[Record]:
    """Repeats at `levels` (rnn → seconds per epoch), with noise that differs by rnn and repeat.
    `changes`: arguments of `make_record`."""
    pattern = [1 + noise * each for each in (0, 1, -1, 2, -2, 0.5, -0.5)]
    return [
        make_record(rnn=rnn, repeat=r, epoch_seconds=level * pattern[(r + 2 * i) % 7], **changes)
        for r in range(repeats)
        for i, (rnn, level) in enumerate(levels.items())
    ]


def make_seeds(accuracies: Mapping[str, Iterable[float]], **changes: Any) -> list[Record]:
    """Runs of several seeds; `accuracies`: rnn → the last validation accuracy by seed. `changes`:
    arguments of `make_record`."""
    return [
        make_record(rnn=rnn, seed=seed, acc=acc, **changes)
        for rnn, by_seed in accuracies.items()
        for seed, acc in enumerate(by_seed)
    ]


def put(
    results: Path,
    record: Record,
    companions: Sequence[Record] = (),
    site: str = "here",
    experiment: str = "quick",
) -> Path:
    """Writes the record and its companions, and adds its result to the file of its round. Returns
    this file."""
    for each in (record, *companions):
        write_record(results, each)
    file = results / site / experiment / "rounds" / f"{record.run.round}.json"
    known = read_results(file) if file.exists() else {}
    result = Result.of(record, [companion.path for companion in companions])
    write_results(file, {**known, record.name: result})
    return file


def forget(file: Path, name: str) -> None:
    """Removes a run from the file of its round."""
    results = read_results(file)
    write_results(file, {run: result for run, result in results.items() if run != name})


def as_run(line: Mapping[str, Any]) -> Run:
    """The run of a line of the plan, which may lack fields that a test does not need."""
    fields: dict[str, Any] = {"order": 0, "block": 0, "digest": "d" * 64, "identity": {}}
    fields |= {"choices": {}, "overrides": {}, "seed": 0, "repeat": 0, "alias": None, "config": {}}
    fields["round"] = line["name"]
    return Run(**{**fields, **line})


def replace(thing: Any, **changes: Any) -> Any:
    """A copy of a dataclass or struct with `changes`; a record's may be fields of its run."""
    if isinstance(thing, Record):
        in_run = set(Run.__struct_fields__) - {"round"}
        planned = {name: value for name, value in changes.items() if name in in_run}
        others = {name: value for name, value in changes.items() if name not in in_run}
        if planned:
            others["run"] = msgspec.structs.replace(thing.run, **planned)
        return msgspec.structs.replace(thing, **others)
    return (msgspec.structs if isinstance(thing, msgspec.Struct) else dataclasses).replace(
        thing, **changes
    )


def make_late(**common: Any) -> tuple[Record, Record, Record]:
    """A reference, a run that was measured an hour later, and that run's companion: a second record
    of the reference in the same round. `common`: arguments of `make_record` for all three."""
    later = BEGINNING + timedelta(hours=1)
    reference, companion = make_record(**common), make_record(**common, started=later)
    late = make_record(**{**common, "rnn": "block"}, started=later)
    late, companion = in_round([late, companion], [0.1, -0.1])
    return reference, late, replace(companion, round=replace(companion.round, companion=True))


def in_round(
    records: Sequence[Record],
    effects: Sequence[float],
    cycles: int = 9,
    disturbed: Collection[int] = (),
    number: int = 0,
) -> list[Record]:
    """The records as members of one round with these effects (log seconds per step). A cycle in
    `disturbed` was disturbed and has other ratios. `number`: distinguishes rounds that started at
    the same time."""
    identity = f"{records[0].machine}/round_{number}/{min(record.started for record in records)}"
    names = tuple(record.name for record in records)
    return [
        replace(
            record,
            round=RoundFacts(id=identity, members=names, companion=False),
            turns={
                "turn": [len(records) * cycle + place for cycle in range(cycles)],
                "cycle": list(range(cycles)),
                "start": [0.1 * (len(records) * cycle + place) for cycle in range(cycles)],
                "seconds": [
                    0.01
                    * (1 + 0.02 * (cycle % 4))
                    * math.exp(effect)
                    * (1 + place * (cycle in disturbed))
                    for cycle in range(cycles)
                ],
                "steps": [10] * cycles,
                "full": [True] * cycles,
                "others": [0.05 * (cycle in disturbed) for cycle in range(cycles)],
                "took": [0.05] * cycles,
                "cores": [1] * cycles,
            },
        )
        for place, (record, effect) in enumerate(zip(records, effects, strict=True))
    ]


def measured(
    records: Iterable[Record], reference: Mapping[str, str] = KERAS, *others: Any, **beside: Any
) -> Measurements:
    """The measurements that tables are made of; `others`, `beside`: arguments after `reference`."""
    return Measurements(tidy(records), reference, *others, **beside)


def make_config(
    choices: Mapping[str, str], overrides: Mapping[str, Any], seed: int, repeat: int, epochs: int
) -> dict[str, Any]:
    """A resolved config as `conf/` would give it, with `overrides` applied."""
    device, kind = choices["device"], choices["device"].partition("_")[0]
    config: dict[str, Any] = {
        "model": {
            "name": choices["model"],
            "function": "rnnworker.models.digits_rnn:build",
            "about": "An LSTM over the rows of handwritten digits.",
            "source": "made for the default experiment",
            "data": {"prepare": "rnnworker.models.digits_rnn:prepare"},
            "units": 64,
            "batch": 32,
            "epochs": epochs,
            "optimizer": {"name": "adam", "learning_rate": 0.001},
            "loss": "sparse_categorical_crossentropy",
            "recurrent": True,
        },
        "cell": {"name": choices["cell"]},
        "rnn": {"name": choices["rnn"], "implementation": choices["rnn"]},
        "device": {"name": device, "kind": kind},
        "build": {
            "name": choices["build"],
            "framework": "keras3_tensorflow",
            "python": None,
            "environment": {},
        },
        "dataset": {"name": "digits", "file": "digits.npz", "path": "data/digits.npz"},
        "measure": {"warmup_steps": 20, "evaluate_calls": 3, "predict_calls": 3},
        "limits": {"import": 300, "train": 3600},
        "seed": seed,
        "repeat": repeat,
        "alias": None,
    }
    if kind == "cpu":
        config["device"]["threads"] = int(device.rpartition("_")[2])
    for key, value in overrides.items():
        *path, last = key.split(".")
        section = config
        for part in path:
            section = section.setdefault(part, {})
        section[last] = value
    return config


def _phases(
    boot: float, epoch_seconds: Sequence[float], acc: float | None
) -> tuple[tuple[Phase, ...], tuple[Epoch, ...]]:
    """Consecutive phases, with epochs (each followed by its validation) inside ``train``."""
    now, phases, epochs = boot, [], []
    for name in ("import", "data", "build", "first_step", "warmup"):
        timed = name in ("first_step", "warmup")
        phases.append(Phase(name, now, now + PHASE_SECONDS[name], timed))
        now += PHASE_SECONDS[name]
    begin, validation = now, 0.04
    for number, seconds in enumerate(epoch_seconds, start=1):
        share = number / len(epoch_seconds)
        accuracy = None if acc is None else round(acc * (0.5 + 0.5 * share), 6)
        loss = None if acc is None else round(2.3 * (1.05 - share), 6)
        epochs.append(
            Epoch(number, now, seconds, SAMPLES, STEPS, loss, accuracy, loss, accuracy, validation)
        )
        now += seconds + validation
    load = {"host": now - begin, "run": now - begin}
    phases.append(Phase("train", begin, now, True, {"load": load}))
    for name in ("evaluate", "predict"):
        calls = {"samples": TEST_SAMPLES, "first_call": 0.35, "calls": [0.05, 0.049, 0.051]}
        phases.append(Phase(name, now, now + PHASE_SECONDS[name], True, calls))
        now += PHASE_SECONDS[name]
    return tuple(phases), tuple(epochs)


def phase_of(record: Record, name: str) -> Phase:
    """The phase `name` of a record, which must have it."""
    return next(phase for phase in record.phases if phase.name == name)


def planned_certificate(
    digest: str, files: Mapping[str, str] = MappingProxyType({}), devices: Sequence[str] = ()
) -> dict[str, Any]:
    """An entry of ``certificates.json``. `files`: implementation → its file."""
    implementations = []
    for name, file in files.items():
        implementations.append({"name": name, "rnn": {"implementation": file}, "skip": None})
    places = []
    for name in devices:
        places.append({"name": name, "device": {}, "implementations": [], "batches": []})
    return {
        "key": "key",
        "digest": digest,
        "identity": {},
        "choices": {},
        "overrides": {},
        "config": {},
        "implementations": implementations,
        "devices": places,
    }
