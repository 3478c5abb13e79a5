"""The record of one run: configuration, environment, measurements and verdict.

Records are the source of truth: MLflow, tables and reports are made from them, can be made again,
and contain no number that is not derived from a record.

A record of another schema is refused. A field that is added to a schema has a default, which says
that it is not known.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
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
from rnnbench.records.measured import Details, Measured
from rnnbench.records.overrides import Settings, last_component

SCHEMA = 4
STATUSES = ("clean", "suspect", "void")
DISTURBED_SHARE = 0.10  # of the cores' time, used by other processes
TICK = 0.01  # seconds to which the kernel rounds CPU time
OF_OTHERS = ("cycle", "others", "took", "cores")  # columns of turns
Turns = Mapping[str, Sequence[Any]]  # column → one value per turn, as in a record


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base class of a record's parts."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run as it is planned, as a line of the plan holds it, and as its record keeps it.

    - `name`: a label, valid as a file name; made of the choices, overrides, seed and repeat.
    - `order`, `block`: position in the planned, interleaved order.
    - `digest`: SHA-256 of everything that decides whether the run must be measured again: its
      `config` without documentation and limits, and its `identity`.
    - `round`: name of the round in which it is planned.
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
    round: str
    identity: Mapping[str, object]
    choices: Mapping[str, str]
    overrides: Settings
    seed: Annotated[int, Meta(ge=-(2**53), le=2**53)]
    repeat: bounds.Index
    alias: str | None
    config: Mapping[str, Any]
    certificate: str | None = None

    def __post_init__(self) -> None:
        check_path_component("name", self.name)
        _ = self.sections  # refuses what does not fit

    @property
    def sections(self) -> bounds.Sections:
        """Its `config`, with types."""
        return bounds.decoded("config", self.config, bounds.Sections)

    @property
    def configuration(self) -> str:
        """The name without seed and repeat."""
        return self.name.removesuffix(f"-s{self.seed}-r{self.repeat}")

    @property
    def settings(self) -> Settings:
        """Its choices and overrides."""
        return {**self.choices, **self.overrides}

    def texts(self, names: Iterable[str]) -> list[str]:
        """Those of its `settings` that are among `names`: ``block``, ``units=8``."""
        texts = []
        for name in names:
            if name in self.choices:
                texts.append(self.choices[name])
            elif name in self.overrides:
                texts.append(f"{last_component(name)}={self.overrides[name]}")
        return texts

    def as_dict(self) -> dict[str, object]:
        return msgspec.structs.asdict(self)

    def line(self) -> bytes:
        """The run's line of a plan."""
        return msgspec.json.encode(self) + b"\n"


def differing(runs: Sequence[Run]) -> list[str]:
    """The axes and overrides in which the `runs` differ."""
    every = [run.settings for run in runs]
    names: dict[str, None] = {}
    for settings in every:
        names |= dict.fromkeys(settings)
    found = []
    for name in names:
        if any(settings.get(name) != every[0].get(name) for settings in every):
            found.append(name)
    return found


class Phase(Part, frozen=True):
    """A part of a run: ``import``, ``data``, ``build``, ``first_step``, ``warmup``, ``train``,
    ``evaluate`` or ``predict``; ``train_again`` for further trainings from the same weights, of
    which the record has only the turns.

    - `start`, `end`: seconds on the host's monotonic clock (since boot), so that intervals of
      different processes on one host can be compared.
    - `timed`: whether no other process of rnnbench may work on the host in the meantime.
    - `facts`: of this phase only, as in its file; `details`: those that are read here.
    """

    name: str
    start: Moment
    end: Moment
    timed: bool = False
    facts: Mapping[str, object] = msgspec.field(name="details", default={})

    def __post_init__(self) -> None:
        if not self.start <= self.end:
            raise ValueError(f"{self.name[:80]!r} ends before it starts")
        _ = self.details  # refuses what does not fit

    @property  # not cached: the details of 10,000 records would take 40 MB
    def details(self) -> Details:
        return bounds.decoded("details", self.facts, Details)

    @property
    def seconds(self) -> float:
        return self.end - self.start

    @property
    def took(self) -> float:
        """The seconds; of the import of a forked worker, with those of its importer."""
        return self.seconds + self.details.before_fork


class Epoch(Part, frozen=True):
    """One timed training epoch, counted from 1.

    `seconds` is training without validation, from epoch boundary to epoch boundary inside ``fit``.
    For a run that trained in turns it is the epoch's number of steps times the mean of its timed
    steps, plus the time that belongs to no step. `took` is the time that passed in the run's turns,
    untimed steps included. Losses and accuracies are None if they do not exist or are not finite.
    `metrics`: the model's others, named as in Keras's ``History`` (``mae``, ``val_mae``).
    """

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
    metrics: Mapping[str, float | None] = {}


def run_seconds(seconds: Sequence[float]) -> float:
    """The value that represents a run in statistics: the median of its epochs' `seconds` without
    the first epoch, or the only epoch's. Threads and clocks still settle during the first epoch: on
    two threads of a virtual machine it took 12 % longer (``benchmarks/epoch_position.py``)."""
    return statistics.median(seconds[1:] if len(seconds) > 1 else seconds)


class ComparedRun(Part, frozen=True):
    """How the configuration of a run compares with the reference.

    - `speedup`: column of the table of times → value: the speed-up with its interval, if it has
      one.
    - `unequal`: the marked ratio, if the two do not compute the same function; else ``""``.
    - `equal`: whether they do, and why not or why that is unknown; ``""`` for the reference.
    """

    speedup: Mapping[str, float] = {}
    unequal: str = ""
    equal: str = ""


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


class Record(Part, frozen=True, kw_only=True, dict=True):
    """One run as it was measured. See ``docs/formats.md``, "Record".

    - `run`: as it was planned.
    - `environment`: facts about the build; `hardware`: facts about the machine.
    - `facts`: all facts of its ``measured``, as in its file; `measured`: those that are read here.
    - `round`: in which it was measured.
    - `turns`: the turns of the training, as lists of equal length: ``turn`` and ``cycle`` of the
      round; ``start`` (monotonic), ``seconds`` and ``steps`` of the timed part; ``full`` (as long
      as planned); ``others`` (CPU seconds that other processes and the hypervisor used on the run's
      cores during the turn; may be negative, as the kernel counts in ticks of 10 ms), ``took``
      (length of the turn with its untimed steps) and ``cores`` (their number), None if unknown;
      ``reads`` (seconds of random reads before and after the turn, on a CPU; absent from
      records before 2026-11-25).
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
    facts: Mapping[str, object] = msgspec.field(name="measured")
    verdict: Verdict
    round: RoundFacts
    turns: Mapping[str, list[Any]]
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        for field in ("machine", "site", "experiment"):
            check_path_component(field, getattr(self, field))
        check_timestamp("started", self.started)
        check_timestamp("finished", self.finished)
        _ = self.measured  # refuses what does not fit
        bounds.check_turns(self.turns)

    @cached_property
    def measured(self) -> Measured:
        return bounds.decoded("measured", self.facts, Measured)

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
    def round_id(self) -> str:
        return self.round.id

    @property
    def is_companion(self) -> bool:
        """Whether the run was measured only so that others of its round can be compared with it."""
        return self.round.companion

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
            if type(data["schema"]) is not int or data["schema"] != SCHEMA:
                raise RecordError(
                    f"has schema {data['schema']!r}; this rnnbench reads schema {SCHEMA}.",
                    where=where,
                    remedy="read it with the rnnbench that wrote it.",
                )
            return msgspec.convert(data, cls)
        except (AttributeError, TypeError, ValueError) as error:
            raise RecordError(f"does not fit schema {SCHEMA}: {error}.", where=where) from error


def disturbed_cycles(members: Mapping[str, Turns]) -> frozenset[int]:
    """The cycles in which other processes or the hypervisor used more than `DISTURBED_SHARE` of the
    time of the members' cores, and more than two standard deviations of the kernel's rounding.

    The rule is about whole cycles, so that it is the same for members with short and long turns,
    and it does not depend on how long the timed steps took. The CPU time of a core in a turn of
    `took` seconds is a number of ticks. Its variance is at most (1 + took / TICK) / 4 ticks²: 1/4
    from the ends of the turn, and took / TICK binomial draws if the core is busy half of the time.
    """
    used: dict[int, float] = defaultdict(float)
    available: dict[int, float] = defaultdict(float)
    variance: dict[int, float] = defaultdict(float)
    for turns in members.values():
        columns = [turns.get(name, ()) for name in OF_OTHERS]
        for row in zip(*columns, strict=True):
            if None in row:
                continue
            cycle, others, took, cores = row
            used[cycle] += others
            available[cycle] += cores * took
            variance[cycle] += cores * (1 + took / TICK) / 4  # ticks²
    flagged = set()
    for cycle, others in used.items():
        noise = 2 * TICK * math.sqrt(variance[cycle])
        if others > max(DISTURBED_SHARE * available[cycle], noise):
            flagged.add(cycle)
    return frozenset(flagged)
