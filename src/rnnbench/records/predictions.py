"""The results of predictions, ``predictions/NAME.json``: how each runtime answers, how fast."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from rnnbench.errors import RecordError
from rnnbench.records.interval import Interval
from rnnbench.records.overrides import Settings
from rnnbench.records.store import as_kind, read_json, readable
from rnnserve import FULL_PRECISION, precision_of

VERSION = 2
PLAN = "predictions.json"  # name → the planned prediction


class ChosenRuntime(msgspec.Struct, frozen=True, kw_only=True):
    """What a prediction needs to know of a runtime. `implementation`: one of
    `rnnserve.IMPLEMENTATIONS`, or the absolute path of a Python file."""

    name: str
    implementation: str
    options: dict[str, Any] = {}

    @property
    def precision(self) -> str:
        """One of `rnnserve.PRECISIONS`. Raises ValueError for another one."""
        precision: str = precision_of(self.options)
        return precision


class Batch(msgspec.Struct, frozen=True):
    """One runtime with one size of batch. Intervals are of 95 %; a single round has none.
    Percentiles are of single calls, of all rounds; None if there are too few calls. `cpu_seconds`:
    of a call; `us_per_step`: microseconds of a call for each time step, None without sequences.
    `ratio`: times as fast as the reference, None for the reference."""

    batch: int
    seconds: Interval
    p50: float | None
    p95: float | None
    p99: float | None
    calls: int
    samples_per_second: float
    cpu_seconds: float
    us_per_step: float | None
    ratio: Interval | None


class Runtime(msgspec.Struct, frozen=True):
    """One runtime. `refused`: why it does not answer with the model; `unequal`: its first wrong
    answer; `difference`: the largest one of its outputs; `folder`: of its exported files, beside
    the file of the results; `validation`: how good its answers are, None in full precision and if
    that is unknown. The others: seconds, bytes."""

    name: str
    refused: str | None
    unequal: str | None
    difference: float | None
    batches: list[Batch]
    load_seconds: float | None
    file_bytes: int | None
    peak_bytes: int | None
    notes: list[str]
    versions: dict[str, str]
    code: str | None
    folder: str | None = None
    precision: str = FULL_PRECISION
    validation: float | None = None

    def batch_of(self, size: int) -> Batch | None:
        """How it answers with this size of batch, None if that was not timed."""
        return next((each for each in self.batches if each.batch == size), None)

    @property
    def is_lower(self) -> bool:
        """Whether its precision is lower than that of the framework."""
        return self.precision != FULL_PRECISION

    @property
    def why_not_timed(self) -> str:
        """In words; ``""`` if it was timed."""
        if self.refused is not None:
            return f"refused: {self.refused}"
        if self.unequal is not None:
            return f"≠, not timed: {self.unequal}"
        return ""


class Lower(msgspec.Struct, frozen=True):
    """The fastest runtime of lower precision; `ratio`: times as fast as the fastest in full
    precision."""

    runtime: str
    ratio: Interval


class Fastest(msgspec.Struct, frozen=True):
    """The fastest runtime with a size of batch, of those in full precision. `also`: others without
    a shown difference to it, by individual 95 % intervals. `lower`: None if none was timed."""

    batch: int
    runtime: str
    also: list[str]
    lower: Lower | None = None


class Validation(msgspec.Struct, frozen=True):
    """How good the model itself is: the `value` of what `name` says, for so many `samples`."""

    name: str
    value: float
    samples: int


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """The file of a prediction, and of ``--json``.

    - `name`: of the prediction; `digest`: of what decides whether it is measured again.
    - `choices`: axis → choice; `overrides`: key → value.
    - `model`: its function or file; `steps`: time steps of a sample.
    - `machine`: its name; `started`, `finished`: UTC.
    - `reference`: what says which answers are right; `cases`: what was asked; `bounds`: the largest
      difference that counts as equal, for each output; `lower_bounds`: precision → the largest that
      rounding explains.
    - `trained`: whether the model was trained first; `validation`: None if no runtime has a lower
      precision, or if it is unknown.
    """

    version: int = VERSION
    name: str
    digest: str = ""
    choices: dict[str, str] = {}
    overrides: Settings = {}
    model: str
    machine: str
    started: str
    finished: str
    threads: int
    steps: int | None
    rounds: int
    cycles: int
    compared_with: str
    reference: str
    biases_changed: int
    cases: list[str]
    bounds: list[float]
    runtimes: list[Runtime]
    fastest: list[Fastest]
    lower_bounds: dict[str, list[float]] = {}
    trained: bool = False
    validation: Validation | None = None

    def runtime(self, name: str) -> Runtime:
        """The runtime `name`, which is one of them."""
        return next(each for each in self.runtimes if each.name == name)


def read_results(file: Path) -> Results:
    """Raises `RecordError` if the file has no results of this version."""
    remedy = "move the file aside and run the experiment again."
    found = as_kind(read_json(file), Results, "has no results of a prediction", file, remedy)
    if found.version != VERSION:
        what = f"has results of version {found.version}, not {VERSION}."
        raise RecordError(what, where=str(file), remedy=remedy)
    return found


def predictions_in(folders: Iterable[Path]) -> tuple[dict[Path, Results], list[RecordError]]:
    """The results of the planned predictions of an experiment by file, and the errors of those that
    cannot be read. `folders`: of the experiment, one for each site."""
    files = []
    for folder in folders:
        files += [file for file in planned_files(folder) if file.exists()]
    found, faults = readable(files, lambda file: (file, read_results(file)))
    return dict(found), faults


def planned_files(folder: Path) -> list[Path]:
    """The files of the planned predictions, which need not exist."""
    plan = folder / PLAN
    if not plan.exists():
        return []
    return [prediction_file(folder, name) for name in read_json(plan)]


def prediction_file(folder: Path, name: str) -> Path:
    """The file of a prediction in the `folder` of its experiment."""
    return folder / "predictions" / f"{name}.json"
