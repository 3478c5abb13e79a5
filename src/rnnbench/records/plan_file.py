"""Reads a plan: ``plan.jsonl``, whose lines are runs in the order of measuring, and
``experiment.json``, what is said about their experiment."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from rnnbench.errors import RecordError
from rnnbench.records.bounds import Peak
from rnnbench.records.record import Run
from rnnbench.records.store import as_kind, read_json


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
    repeats: dict[str, Any] | None = None
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


def read_runs(plan: Path) -> list[Run]:
    """The planned runs. Raises `RecordError` if the file is not a plan."""
    return _read(plan, Run)


def read_heads(plan: Path) -> list[RunHead]:
    """The names, digests and rounds of the planned runs, much faster than `read_runs`.
    Raises `RecordError` if the file is not a plan."""
    return _read(plan, RunHead)


def read_round(plan: Path, name: str) -> tuple[list[Run], int, int]:
    """The runs of the round `name` in their order; the index of the round, from 0; and the number
    of rounds. Raises `RecordError` if the plan cannot be read or has no such round."""
    heads = read_heads(plan)
    rounds = list(dict.fromkeys(head.round for head in heads))
    if name not in rounds:
        raise RecordError(
            f"has no round {name}.", where=str(plan), remedy="start the round through Snakemake."
        )
    chosen = [head.round == name for head in heads]
    return _read(plan, Run, chosen), rounds.index(name), len(rounds)


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
