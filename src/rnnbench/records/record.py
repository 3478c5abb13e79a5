"""The record of one run: configuration, environment, measurements and verdict.

Records are the source of truth: MLflow, tables and reports are made from them, can be made again,
and contain no number that is not derived from a record.

**Older schemas.** Every schema that was ever written can be read. For each schema n but the newest,
`UPGRADES` has a function that converts its data to schema n + 1; reading applies these functions in
sequence. A new field is None or follows from the record itself; it is never a guess. A renamed
field keeps its value. Files are not rewritten. A schema newer than this rnnbench's is refused.
``tests/records/schema_N.json`` is a record as the rnnbench of schema N wrote it; it is never edited
and must stay readable. Schema 1 is the first; schema 2 adds `round`, `turns` and the epochs'
`took`.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rnnbench.errors import RecordError
from rnnbench.records.validation import check_record


def _to_schema_2(data: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 → 2: runs of schema 1 were not measured in turns."""
    return {**data, "round": None, "turns": {}, "schema": 2}


SCHEMA = 2
UPGRADES: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _to_schema_2}
STATUSES = ("clean", "suspect", "void")


@dataclass(frozen=True)
class Phase:
    """A part of a run: ``import``, ``data``, ``build``, ``first_step``, ``warmup``, ``train``,
    ``evaluate`` or ``predict``.

    - `start`, `end`: seconds on the host's monotonic clock (since boot), so that intervals of
      different processes on one host can be compared.
    - `timed`: whether no other process of rnnbench may work on the host in the meantime.
    - `details`: facts of this phase only. ``evaluate`` and ``predict`` have ``samples`` (per call),
      ``first_call`` (seconds) and ``calls`` (seconds of each later call). Each timed phase has
      ``load``: CPU seconds of the host and of the run itself.
    """

    name: str
    start: float
    end: float
    timed: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(frozen=True)
class Epoch:
    """One timed training epoch, counted from 1.

    `seconds` is training without validation, from epoch boundary to epoch boundary inside ``fit``.
    For a run that trained in turns it is the epoch's number of steps times the mean of its timed
    steps, plus the time that belongs to no step. `took` is the time that passed in the run's turns,
    untimed steps included (None in records of schema 1). Losses and accuracies are None if they do
    not exist or are not finite."""

    epoch: int
    start: float
    seconds: float
    samples: int
    steps: int
    loss: float | None = None
    acc: float | None = None
    val_loss: float | None = None
    val_acc: float | None = None
    val_seconds: float | None = None
    took: float | None = None


def run_value(seconds: Sequence[float]) -> float:
    """The value that represents a run in statistics: the median of its epochs' `seconds` without
    the first epoch, or the only epoch's. Threads and clocks still settle during the first epoch: on
    two threads of a virtual machine it took 12 % longer (``benchmarks/epoch_position.py``)."""
    return statistics.median(seconds[1:] if len(seconds) > 1 else seconds)


@dataclass(frozen=True)
class Reason:
    """Why a run is not clean: a stable `code`, the fact as text, and the fix."""

    code: str
    text: str
    remedy: str


@dataclass(frozen=True)
class Verdict:
    """``clean``, ``suspect`` (shown, marked) or ``void`` (never used in a number)."""

    status: str
    reasons: tuple[Reason, ...] = ()

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise RecordError(f"verdict {self.status!r} must be one of {', '.join(STATUSES)}.")


@dataclass(frozen=True)
class Record:
    """One run as it was measured. See ``docs/formats.md``, "Record".

    - `choices`: axis → choice, in the axes' fixed order.
    - `overrides`: dotted key → value, for values that differ from the choice's default.
    - `block`, `order`: position in the planned, interleaved order.
    - `identity`: decides whether the run must be measured again (config, dataset md5, build lock,
      worker code); `digest` is its SHA-256.
    - `environment`: facts about the build; `hardware`: facts about the machine.
    - `measured`: facts read after the run: ``peak_memory_bytes``, ``weights_sha256``,
      ``parameters``, ``threads``, ``wall_seconds`` (its share of its cohort's duration),
      ``closure``, ….
    - `round`: ``id``; ``members`` (the names of its cohort, in starting order); ``companion``
      (whether the run was measured only so that the others can be compared with it); ``effect``
      (log seconds of its steps relative to the others', from ``cycles`` cycles, see
      ``running.effects``; None if it was measured on its own or had too few good turns). None in
      records of schema 1.
    - `turns`: the turns of the training, as lists of equal length: ``turn`` and ``cycle`` of the
      round; ``start`` (monotonic), ``seconds`` and ``steps`` of the timed part; ``full`` (as long
      as planned), ``good`` (no other process used its cores), ``major_faults`` (pages read from
      disk, as happens to a process that has slept for long).
    """

    name: str
    experiment: str
    site: str
    machine: str
    started: str
    finished: str
    choices: Mapping[str, str]
    overrides: Mapping[str, Any]
    seed: int
    repeat: int
    alias: str | None
    block: int
    order: int
    digest: str
    identity: Mapping[str, Any]
    config: Mapping[str, Any]
    environment: Mapping[str, Any]
    hardware: Mapping[str, Any]
    phases: tuple[Phase, ...]
    epochs: tuple[Epoch, ...]
    measured: Mapping[str, Any]
    verdict: Verdict
    round: Mapping[str, Any] | None = None
    turns: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    schema: int = SCHEMA

    @property
    def key(self) -> str:
        """``MACHINE/NAME/STARTED``: unique among all records of all machines."""
        return f"{self.machine}/{self.name}/{self.started}"

    @property
    def is_companion(self) -> bool:
        """Whether the run was measured only so that others of its round can be compared with it."""
        return bool((self.round or {}).get("companion"))

    def phase(self, name: str) -> Phase | None:
        return next((phase for phase in self.phases if phase.name == name), None)

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Any, where: str = "record") -> Record:
        """The record in `data`. Raises a `RecordError` that names `where` and the field if `data`
        is not a record."""
        if not isinstance(data, dict) or "schema" not in data:
            raise RecordError("is not a record: it has no schema.", where=where)
        while type(data["schema"]) is int and data["schema"] in UPGRADES:
            data = UPGRADES[data["schema"]](data)
        if type(data["schema"]) is not int or data["schema"] != SCHEMA:
            raise RecordError(
                f"has schema {data['schema']!r}; this rnnbench reads up to {SCHEMA}.",
                where=where,
                remedy="read it with the rnnbench that wrote it, or a newer one.",
            )
        names = {f.name for f in dataclasses.fields(cls)}
        required = names - {"schema"}
        if set(data) != names:
            missing, unknown = sorted(required - set(data)), sorted(set(data) - names)
            raise RecordError(
                f"does not fit schema {SCHEMA}: missing {missing or 'nothing'}, "
                f"unknown {unknown or 'nothing'}.",
                where=where,
            )
        try:
            check_record(data)
            verdict = data["verdict"]
            return cls(
                **{
                    **data,
                    "phases": tuple(Phase(**phase) for phase in data["phases"]),
                    "epochs": tuple(Epoch(**epoch) for epoch in data["epochs"]),
                    "verdict": Verdict(
                        verdict["status"], tuple(Reason(**r) for r in verdict["reasons"])
                    ),
                }
            )
        except (TypeError, KeyError, ValueError) as error:
            raise RecordError(f"does not fit schema {SCHEMA}: {error}.", where=where) from error
