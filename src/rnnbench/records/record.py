"""The record of one run: configuration, environment, measurements and verdict.

A record is the source of truth. MLflow, tables and reports are made from records and
can be made again; nothing else holds a number that a record does not.

**Older schemas.** Every schema that was ever written is read: `LIFTS` has, for each but the
newest, the function that makes data of schema n into data of schema n + 1, and reading applies
them one after the other. A field that is new is None, or what follows from the record itself,
and never a guess; a renamed one keeps its value; files are not rewritten. A newer schema than
this rnnbench's is refused. ``tests/records/schema_N.json`` is a record as the rnnbench of schema
N wrote it; it is never edited, and read for ever. Schema 1 is the first; 2 adds `round`, `turns`
and the epochs' `took`.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rnnbench.errors import RecordError
from rnnbench.records.validation import check_record


def _with_rounds(data: dict[str, Any]) -> dict[str, Any]:
    """Runs of schema 1 were measured alone, and nobody noted their turns."""
    return {**data, "round": None, "turns": {}, "schema": 2}


SCHEMA = 2
LIFTS: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _with_rounds}
STATUSES = ("clean", "suspect", "void")


@dataclass(frozen=True)
class Phase:
    """A stretch of a run with one purpose: ``import``, ``data``, ``build``, ``first_step``,
    ``warmup``, ``train``, ``evaluate`` or ``predict``.

    `start` and `end` are seconds of the host's monotonic clock (since boot), so that
    intervals of different processes on one host can be compared. `timed` says that
    nothing else of ours may run on the host meanwhile. `details` holds what belongs to
    this phase only: for ``evaluate`` and ``predict`` ``samples`` (per call),
    ``first_call`` (seconds) and ``calls`` (seconds of each later call);
    for every timed phase ``load``, the CPU seconds of the host and of the run itself.
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
    """One timed training epoch, counted from 1. `seconds` is training alone, from epoch
    boundary to epoch boundary inside ``fit``; validation is apart. Of a run that trained in turns
    it is the epoch's number of steps times the mean of those that were timed, and what no step is
    responsible for; `took` is what passed in its turns, the untimed steps with it (None in records
    of schema 1). Losses and accuracies are None where they do not exist or are not finite."""

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
    """The one number that a run counts with: the median of its epochs' `seconds` after the first;
    of a single epoch, that one. In the first epoch threads and clocks still settle: on two threads
    of a virtual machine it took 12 % longer (``benchmarks/epoch_position.py``)."""
    return statistics.median(seconds[1:] if len(seconds) > 1 else seconds)


@dataclass(frozen=True)
class Reason:
    """Why a run is not clean: a stable `code`, the fact in words, and what to do."""

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
            raise RecordError(f"verdict {self.status!r} is none of {', '.join(STATUSES)}.")


@dataclass(frozen=True)
class Record:
    """One run as it happened. See ``ARCHITECTURE.md`` for an example.

    - `choices`: axis → choice, in the axes' fixed order.
    - `overrides`: dotted key → value, where it differs from the choice's default.
    - `block`, `order`: place in the planned, interleaved order.
    - `identity`: what decides about a rerun (config, dataset md5, build lock, worker code);
      `digest` is its SHA-256.
    - `environment`: what the build is; `hardware`: what the machine is.
    - `measured`: facts read after the run: ``peak_memory_bytes``, ``weights_sha256``,
      ``parameters``, ``threads``, ``wall_seconds`` (its share of what its sitting took),
      ``closure``, ….
    - `round`: ``id``, ``members`` (the names of all, as they started), ``companion`` (whether it
      was measured only because the others are compared with it), ``effect`` (log seconds of its
      steps against the others', of `cycles` cycles, see ``running.effects``; None where it was
      alone or too few of its turns were good). None in records of schema 1.
    - `turns`: of the training, lists of equal length: ``turn`` and ``cycle`` of the round;
      ``start`` (monotonic), ``seconds`` and ``steps`` of what was timed; ``full`` (as long as
      planned), ``good`` (others did not use its cores), ``major_faults`` (pages that it had to
      read from a disk, as of a process that has slept for long).
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
        """Whether the run was measured only for others of its round to be compared with."""
        return bool((self.round or {}).get("companion"))

    def phase(self, name: str) -> Phase | None:
        return next((phase for phase in self.phases if phase.name == name), None)

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Any, where: str = "record") -> Record:
        """The record in `data`, or a `RecordError` that names `where` and the field."""
        if not isinstance(data, dict) or "schema" not in data:
            raise RecordError("is not a record: it has no schema.", where=where)
        while type(data["schema"]) is int and data["schema"] in LIFTS:
            data = LIFTS[data["schema"]](data)
        if type(data["schema"]) is not int or data["schema"] != SCHEMA:
            raise RecordError(
                f"has schema {data['schema']!r}; this rnnbench reads {SCHEMA}.",
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
