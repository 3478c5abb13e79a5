"""The record of one run: configuration, environment, measurements and verdict.

Records are the source of truth: MLflow, tables and reports are made from them, can be made again,
and contain no number that is not derived from a record.

**Older schemas.** Every schema that was ever written can be read. For each schema n but the newest,
`UPGRADES` has a function that converts its data to schema n + 1; reading applies these functions in
sequence. A new field is None or follows from the record itself; it is never a guess. A renamed
field keeps its value. Files are not rewritten. A schema newer than this rnnbench's is refused.
``tests/records/schema_N.json`` is a record as the rnnbench of schema N wrote it; it is never edited
and must stay readable. Schema 1 is the first; schema 2 adds `round`, `turns` and the epochs'
`took`; schema 3 moves what was planned to `run`, which has the config once; schema 4 drops the
effects in `round`, and its `turns` have the CPU time of other processes instead of `good`.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from rnnbench.errors import RecordError
from rnnbench.records import bounds
from rnnbench.records.bounds import (
    Count,
    Duration,
    Moment,
    Seconds,
    Share,
    check_path_component,
    check_timestamp,
)

PLANNED = (
    *("name", "order", "block", "digest", "identity", "choices", "overrides"),
    *("seed", "repeat", "alias", "config"),
)


def _to_schema_2(data: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 → 2: runs of schema 1 were not measured in turns."""
    return {**data, "round": None, "turns": {}, "schema": 2}


def _to_schema_3(data: dict[str, Any]) -> dict[str, Any]:
    """Schema 2 → 3: the planned run is one object; its identity repeated the config."""
    run = {name: data[name] for name in PLANNED}
    identity = {key: value for key, value in run["identity"].items() if key != "config"}
    rest = {name: value for name, value in data.items() if name not in PLANNED}
    return {**rest, "run": {**run, "identity": identity}, "schema": 3}


def _to_schema_4(data: dict[str, Any]) -> dict[str, Any]:
    """Schema 3 → 4: effects are computed from the turns."""
    if (round_ := data["round"]) is not None:
        kept = {name: round_[name] for name in ("id", "members", "companion")}
        return {**data, "round": kept, "schema": 4}
    return {**data, "schema": 4}


SCHEMA = 4
UPGRADES: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {
    1: _to_schema_2,
    2: _to_schema_3,
    3: _to_schema_4,
}
STATUSES = ("clean", "suspect", "void")
DISTURBED_SHARE = 0.10  # of the cores' time, used by other processes
TICK = 0.01  # seconds to which the kernel rounds CPU time
Turns = Mapping[str, Sequence[Any]]  # column → one value per turn, as in a record


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base class of a record's parts."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run as it is planned, as a line of the plan holds it, and as its record keeps it.

    - `name`: a label, valid as a file name; made of the choices, overrides, seed and repeat.
    - `order`, `block`: position in the planned, interleaved order.
    - `digest`: SHA-256 of everything that decides whether the run must be measured again: its
      `config` without documentation and limits, and its `identity`.
    - `round`: name of the round in which it is planned (None in records of schema 1 and 2).
    - `identity`: the MD5 of its dataset, the lock of its build and the digest of the worker's code.
    - `choices`: axis → choice, in the axes' fixed order.
    - `overrides`: dotted key → value, for values that differ from the choice's default.
    - `config`: the resolved config.
    - `certificate`: key of the certificate of its function, or None.
    """

    name: str
    order: bounds.Index
    block: bounds.Index
    digest: str
    round: str | None = None
    identity: Mapping[str, Any]
    choices: Mapping[str, str]
    overrides: Mapping[str, Any]
    seed: Annotated[int, Meta(ge=-(2**53), le=2**53)]
    repeat: bounds.Index
    alias: str | None
    config: Mapping[str, Any]
    certificate: str | None = None

    def __post_init__(self) -> None:
        check_path_component("name", self.name)
        bounds.check("config", self.config, bounds.CONFIG)

    @property
    def configuration(self) -> str:
        """The name without seed and repeat."""
        return self.name.removesuffix(f"-s{self.seed}-r{self.repeat}")

    def as_dict(self) -> dict[str, Any]:
        return msgspec.structs.asdict(self)

    def line(self) -> bytes:
        """The run's line of a plan."""
        return msgspec.json.encode(self) + b"\n"


class Phase(Part, frozen=True):
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
    start: Moment
    end: Moment
    timed: bool = False
    details: Mapping[str, Any] = {}

    def __post_init__(self) -> None:
        if not self.start <= self.end:
            raise ValueError(f"{self.name[:80]!r} ends before it starts")
        bounds.check("details", self.details, bounds.DETAILS)

    @property
    def seconds(self) -> float:
        return self.end - self.start

    @property
    def took(self) -> float:
        """The seconds; of the import of a forked worker, with those of its importer."""
        return self.seconds + (self.details.get("before_fork") or 0.0)


class Epoch(Part, frozen=True):
    """One timed training epoch, counted from 1.

    `seconds` is training without validation, from epoch boundary to epoch boundary inside ``fit``.
    For a run that trained in turns it is the epoch's number of steps times the mean of its timed
    steps, plus the time that belongs to no step. `took` is the time that passed in the run's turns,
    untimed steps included (None in records of schema 1). Losses and accuracies are None if they do
    not exist or are not finite."""

    epoch: bounds.Index
    start: Moment
    seconds: Duration
    samples: Count
    steps: Count
    loss: float | None = None
    acc: Share | None = None
    val_loss: float | None = None
    val_acc: Share | None = None
    val_seconds: Seconds | None = None
    took: Seconds | None = None


def run_value(seconds: Sequence[float]) -> float:
    """The value that represents a run in statistics: the median of its epochs' `seconds` without
    the first epoch, or the only epoch's. Threads and clocks still settle during the first epoch: on
    two threads of a virtual machine it took 12 % longer (``benchmarks/epoch_position.py``)."""
    return statistics.median(seconds[1:] if len(seconds) > 1 else seconds)


NOT_CERTIFIED = "not_certified"  # the code of the reason for which a run is not trained


class Reason(Part, frozen=True):
    """Why a run is not clean: a stable `code`, the fact as text, and the fix."""

    code: str
    text: str
    remedy: str


class Verdict(Part, frozen=True):
    """``clean``, ``suspect`` (shown, marked) or ``void`` (never used in a number)."""

    status: str
    reasons: tuple[Reason, ...] = ()

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"verdict {self.status!r} must be one of {', '.join(STATUSES)}")


class RoundFacts(Part, frozen=True, kw_only=True):
    """The round in which a run was measured.

    - `id`: ``MACHINE/ROUND/STARTED``.
    - `members`: the names of the run's cohort, in starting order.
    - `companion`: whether the run was measured only so that the others can be compared with it.
    """

    id: str
    members: tuple[str, ...]
    companion: bool

    @property
    def in_turns(self) -> bool:
        return len(self.members) > 1


class Record(Part, frozen=True, kw_only=True):
    """One run as it was measured. See ``docs/formats.md``, "Record".

    - `run`: as it was planned.
    - `environment`: facts about the build; `hardware`: facts about the machine.
    - `measured`: facts read after the run: ``peak_memory_bytes``, ``weights_sha256``,
      ``parameters``, ``threads``, ``wall_seconds`` (its share of its cohort's duration),
      ``closure``, ….
    - `round`: None in records of schema 1.
    - `turns`: the turns of the training, as lists of equal length: ``turn`` and ``cycle`` of the
      round; ``start`` (monotonic), ``seconds`` and ``steps`` of the timed part; ``full`` (as long
      as planned); ``others`` (CPU seconds that other processes and the hypervisor used on the run's
      cores during the turn; may be negative, as the kernel counts in ticks of 10 ms), ``took``
      (length of the turn with its untimed steps) and ``cores`` (their number), None if unknown;
      ``major_faults`` (pages read from disk, as happens to a process that has slept for long);
      ``reads`` (seconds of random reads before and after the turn, on a CPU; absent from
      records before 2026-11-25).
      Records of schema 2 and 3 have ``good`` (no other process used its cores) instead of
      the last three.
    """

    run: Run
    experiment: str
    site: str
    machine: str
    started: str
    finished: str
    environment: Mapping[str, Any]
    hardware: Mapping[str, Any]
    phases: tuple[Phase, ...]
    epochs: tuple[Epoch, ...]
    measured: Mapping[str, Any]
    verdict: Verdict
    round: RoundFacts | None
    turns: Mapping[str, list[Any]]
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        for field in ("machine", "site", "experiment"):
            check_path_component(field, getattr(self, field))
        check_timestamp("started", self.started)
        check_timestamp("finished", self.finished)
        bounds.check("measured", self.measured, bounds.MEASURED)
        bounds.check_turns(self.turns)

    @property
    def name(self) -> str:
        return self.run.name

    @property
    def key(self) -> str:
        """``MACHINE/NAME/STARTED``: unique among all records of all machines."""
        return f"{self.machine}/{self.name}/{self.started}"

    @property
    def path(self) -> str:
        """Its file, relative to the results folder."""
        return f"records/{self.key}.json"

    @property
    def is_companion(self) -> bool:
        """Whether the run was measured only so that others of its round can be compared with it."""
        return self.round is not None and self.round.companion

    @property
    def round_id(self) -> str | None:
        return self.round.id if self.round else None

    @property
    def why(self) -> str:
        """Why the run is not clean, and the fixes; empty if there is no reason."""
        reasons = self.verdict.reasons
        texts = "; ".join(reason.text.rstrip(".") for reason in reasons)
        fixes = " ".join(dict.fromkeys(reason.remedy for reason in reasons))
        fixes = fixes.replace("retry NAME", f"retry {self.experiment} {self.name}")
        return f"{texts}. Fix: {fixes}" if reasons else ""

    @classmethod
    def from_json(cls, data: Any, where: str = "record") -> Record:
        """The record in `data`. Raises a `RecordError` that names `where` and the field if `data`
        is not a record."""
        if not isinstance(data, dict) or "schema" not in data:
            raise RecordError("is not a record: it has no schema.", where=where)
        try:
            while type(data["schema"]) is int and data["schema"] in UPGRADES:
                data = UPGRADES[data["schema"]](data)
            if type(data["schema"]) is not int or data["schema"] != SCHEMA:
                raise RecordError(
                    f"has schema {data['schema']!r}; this rnnbench reads up to {SCHEMA}.",
                    where=where,
                    remedy="read it with the rnnbench that wrote it, or a newer one.",
                )
            return msgspec.convert(data, cls)
        except KeyError as error:
            raise RecordError(f"does not fit its schema: no {error}.", where=where) from error
        except (AttributeError, TypeError, ValueError) as error:
            raise RecordError(f"does not fit schema {SCHEMA}: {error}.", where=where) from error


def disturbed_cycles(members: Mapping[str, Turns]) -> frozenset[int]:
    """The cycles in which other processes or the hypervisor used more than `DISTURBED_SHARE` of the
    time of the members' cores, and more than two standard deviations of the kernel's rounding.

    The rule is about whole cycles, so that it is the same for members with short and long turns,
    and it does not depend on how long the timed steps took. The CPU time of a core in a turn of
    `took` seconds is a number of ticks. Its variance is at most (1 + took / TICK) / 4 ticks²: 1/4
    from the ends of the turn, and took / TICK binomial draws if the core is busy half of the time.
    Records of schema 3 and earlier only have the turns' own flags (``good``)."""
    used, available, variance = (defaultdict[int, float](float) for _ in range(3))
    flagged: set[int] = set()
    for turns in members.values():
        if "good" in turns:
            pairs = zip(turns["cycle"], turns["good"], strict=True)
            flagged |= {cycle for cycle, good in pairs if not good}
        elif turns:
            rows = zip(*(turns[name] for name in ("cycle", "others", "took", "cores")), strict=True)
            for cycle, others, took, cores in rows:
                if None not in (others, took, cores):
                    used[cycle] += others
                    available[cycle] += cores * took
                    variance[cycle] += cores * (1 + took / TICK) / 4  # ticks²
    for cycle, others in used.items():
        noise = 2 * TICK * math.sqrt(variance[cycle])
        if others > max(DISTURBED_SHARE * available[cycle], noise):
            flagged.add(cycle)
    return frozenset(flagged)
