"""Reads a plan: ``plan.jsonl``, whose lines are runs in the order of measuring, and
``experiment.json``, what is said about their experiment."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from rnnbench.errors import RecordError
from rnnbench.records.bounds import Peak
from rnnbench.records.overrides import Settings
from rnnbench.records.record import Run
from rnnbench.records.store import as_kind, read_json

BATCH_RUNS = 48
MOST_BATCHES = 100
Number = Annotated[int, Meta(ge=2)]
Limit = Annotated[float, Meta(gt=0, lt=1e12)]
Precision = Annotated[Limit, Meta(examples=["0.025, for ± 2.5 %"])]
Seconds = Annotated[Limit, Meta(examples=["300"])]


class PlannedRound(NamedTuple):
    """Runs that are measured together: the `runs` of a round in their order, and its `number` among
    the `total` of the plan, from 0."""

    number: int
    total: int
    runs: Sequence[Run]

    @property
    def name(self) -> str:
        return self.runs[0].round

    @property
    def identity(self) -> dict[str, str]:
        """Run → its digest, which decides whether it is measured again."""
        return {run.name: run.digest for run in self.runs}

    @property
    def digest(self) -> str:
        return digest_of_round(self.identity)


class Batch(NamedTuple):
    """Rounds that one job measures on this machine, and that are logged to MLflow together."""

    rounds: Sequence[PlannedRound]

    @property
    def certificates(self) -> list[str]:
        """The keys of the certificates of its runs."""
        runs = [run for each in self.rounds for run in each.runs]
        return list(dict.fromkeys(run.certificate for run in runs if run.certificate))

    @property
    def identity(self) -> dict[str, str]:
        return {name: digest for each in self.rounds for name, digest in each.identity.items()}

    @property
    def digest(self) -> str:
        return digest_of_round(self.identity)


def digest_of_round(digests: Mapping[str, str]) -> str:
    """The digest of a round, from the digests of its runs by name."""
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()


class PlannedImplementation(msgspec.Struct, frozen=True):
    """An implementation of a certificate.

    - `name`: its rnn choice and the overrides of ``rnn``; `rnn`: its section.
    - `skip`: why it cannot run on the device of the certificate's config, or None.
    """

    name: str
    rnn: Mapping[str, Any]
    skip: str | None


class PlannedDevice(msgspec.Struct, frozen=True):
    """A device of a certificate, with its section.

    - `implementations`: the names of those that are tested on it.
    - `batches`: the settings of the model that decide the sizes of its batches there.
    """

    name: str
    device: Mapping[str, Any]
    implementations: Sequence[str]
    batches: Sequence[Mapping[str, Any]]


class PlannedCertificate(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate to make, as ``certificates.json`` has it by key.

    - `identity`: everything that decides whether it must be made again; `digest`: its SHA-256.
    - `choices`, `overrides`: those that the runs it applies to have in common.
    - `config`: the part of a run's config that its worker receives.
    - `devices`: the device of `config` first.
    """

    key: str
    digest: str
    identity: Mapping[str, object]
    choices: Mapping[str, str]
    overrides: Settings
    config: Mapping[str, Any]
    implementations: tuple[PlannedImplementation, ...]
    devices: tuple[PlannedDevice, ...]

    @property
    def computed_by(self) -> dict[str, str]:
        """Implementation → the value of ``rnn.implementation``."""
        return {each.name: each.rnn["implementation"] for each in self.implementations}

    def as_dict(self) -> dict[str, object]:
        return dict(msgspec.to_builtins(self))


class RunHead(msgspec.Struct, frozen=True):
    """What is read of a line of a plan if the rest, which is much longer, is not needed."""

    name: str
    digest: str
    round: str


Line = TypeVar("Line", bound=Run | RunHead)


class Skipped(msgspec.Struct, frozen=True):
    """A grid point that cannot run, and why."""

    name: str
    why: str


class Obstacle(msgspec.Struct, frozen=True):
    """Why no grid point can run, and what to do."""

    why: str
    remedy: str


class Repeats(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The key ``repeats`` of an experiment: the rule that decides how many runs it has.

    - `least`, `most`: minimum and maximum number of runs of each configuration.
    - `until`: stop when half the relative 95 % interval is at most this (0.025: ± 2.5 %), of the
      ratio to the reference in a round, or of the time of runs that do not take turns; or None.
    - `budget_s`: stop when the workers of all runs have used this wall time in seconds; or None.
    - `turns`: train again in each round, from the same weights, until its turns are this share of
      its time (0.6: turns for 1.5 times as long as starting took); or None: each run trains once.
    """

    least: Number = 3
    most: Number
    until: Precision | None = None
    budget_s: Seconds | None = None
    turns: Annotated[float, Meta(gt=0, le=0.9)] | None = None

    def __post_init__(self) -> None:
        if self.most < self.least:
            raise ValueError(f"most is {self.most}, but must not be below least, {self.least}")
        if self.until is None and self.budget_s is None:
            raise ValueError("needs until, budget_s or both; until: 0.025 means ± 2.5 %")


class Experiment(msgspec.Struct, frozen=True):
    """``experiment.json``: what a report says about its experiment in addition to the runs.

    `reference` (axis → choice): what speed-ups are relative to. `lead`: what the report leads with,
    ``time``, ``devices``, ``kernels`` or ``calls``. `rerun`: the command that measures it, or
    nothing if an earlier version wrote the file. `peak_tflops`: device → precision → TFLOP/s, of
    the devices that state them. `models` of the grid; `obstacle`: if no grid point can run.
    `varied`: the axes and overrides in which its runs differ."""

    name: str
    title: str
    about: str
    reference: dict[str, str]
    lead: str = "time"
    repeats: Repeats | None = None
    skipped: tuple[Skipped, ...] = ()
    rerun: str = ""
    peak_tflops: dict[str, dict[str, Peak]] = {}
    varied: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    obstacle: Obstacle | None = None

    @property
    def command(self) -> str:
        """The command that measures it."""
        return self.rerun or f"snakemake --cores all --config experiment={self.name}"


def read_experiment(file: Path) -> Experiment:
    """Raises `RecordError` if the file does not describe an experiment."""
    remedy = "move the file aside and run snakemake again, which writes it."
    return as_kind(read_json(file), Experiment, "does not describe an experiment", file, remedy)


def read_certificates(file: Path) -> dict[str, PlannedCertificate]:
    """Key → planned certificate. Raises `RecordError` if the file does not have them."""
    remedy = "run the same command again, which writes the plan."
    kind = dict[str, PlannedCertificate]
    return as_kind(read_json(file), kind, "does not have planned certificates", file, remedy)


def read_runs(plan: Path) -> list[Run]:
    """The planned runs. Raises `RecordError` if the file is not a plan."""
    return _read(plan, Run)


def read_heads(plan: Path) -> list[RunHead]:
    """The names, digests and rounds of the planned runs, much faster than `read_runs`.
    Raises `RecordError` if the file is not a plan."""
    return _read(plan, RunHead)


def read_rounds(plan: Path, names: Sequence[str]) -> list[PlannedRound]:
    """The rounds with these `names`. Raises `RecordError` if the plan cannot be read or lacks
    one."""
    heads = read_heads(plan)
    numbers = {name: number for number, name in enumerate(_sizes(heads))}
    runs: dict[str, list[Run]] = {}
    for name in names:
        if name not in numbers:
            raise RecordError(
                f"has no round {name}.",
                where=str(plan),
                remedy="start the round through Snakemake.",
            )
        runs[name] = []
    for run in _read(plan, Run, [head.round in runs for head in heads]):
        runs[run.round].append(run)
    return [PlannedRound(numbers[name], len(numbers), of_round) for name, of_round in runs.items()]


def read_batches(plan: Path) -> list[list[str]]:
    """The names of the rounds of each batch. Raises `RecordError` if the file is not a plan."""
    return batched(_sizes(read_heads(plan)))


def _sizes(heads: Sequence[RunHead]) -> dict[str, int]:
    """Round → the number of its runs, in the order of measuring."""
    return dict(Counter(head.round for head in heads))


def batched(sizes: Mapping[str, int]) -> list[list[str]]:
    """The names of rounds, grouped by what one job measures on this machine.

    Each group but the last has `BATCH_RUNS` runs or more, so that there are about `MOST_BATCHES` at
    most.

    - `sizes`: round → the number of its runs, in the order of measuring.
    """
    size = max(BATCH_RUNS, -(-sum(sizes.values()) // MOST_BATCHES))
    batches: list[list[str]] = []
    count = size
    for name, runs in sizes.items():
        if count >= size:
            batches.append([])
            count = 0
        batches[-1].append(name)
        count += runs
    return batches


def _read(plan: Path, kind: type[Line], chosen: Sequence[bool] | None = None) -> list[Line]:
    """The lines of a plan. `chosen`: whether each of them is read; None for all."""
    decoder = msgspec.json.Decoder(kind)
    try:
        lines = [line for line in plan.read_bytes().splitlines() if line.strip()]
        if chosen is not None:
            lines = list(compress(lines, chosen))
        return list(map(decoder.decode, lines))
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        raise RecordError(
            f"cannot be read as a plan ({getattr(error, 'strerror', error)}).",
            where=str(plan),
            remedy="run `snakemake --cores all --config experiment=NAME` first, which writes the "
            "plan.",
        ) from error
