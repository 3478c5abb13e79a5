"""What an experiment's plan consists of. Imports nothing that only making a plan needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rnnbench.builds.pins import Pins
from rnnbench.grid.experiment import Experiment
from rnnbench.grid.point import digest_of_round
from rnnbench.records.record import Run
from rnnbench.records.store import write_json


@dataclass(frozen=True)
class Preflight:
    """A certificate or a probe to make. `choices`, `overrides`: those that the runs it applies to
    have in common; `config`: the part of a run's config that its worker receives."""

    key: str
    digest: str
    identity: Mapping[str, Any]
    choices: Mapping[str, str]
    overrides: Mapping[str, Any]
    config: Mapping[str, Any]

    @property
    def configs(self) -> tuple[Mapping[str, Any], ...]:
        return (self.config,)

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


BATCH_RUNS = 24
MOST_BATCHES = 100


@dataclass(frozen=True)
class Round:
    """Runs that are measured together, in one job. `order`: the order of the first of them."""

    name: str
    order: int
    runs: tuple[Run, ...]

    @property
    def identity(self) -> Mapping[str, Any]:
        return {run.name: run.digest for run in self.runs}

    @property
    def digest(self) -> str:
        return digest_of_round(self.identity)

    @property
    def configs(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(run.config for run in self.runs)


@dataclass(frozen=True)
class Certificate(Preflight):
    """A certificate to make.

    - `implementations`: list of ``{"name", "rnn", "skip"}``: the implementation's name (its rnn
      choice and the overrides of ``rnn``), its section, and why it cannot run on the device of
      `config`, or None.
    - `devices`: list of ``{"name", "device", "implementations", "batches"}``, the device of
      `config` first: the devices with their sections, the names of the implementations that are
      tested on them, and the settings of the model that decide the sizes of its batches there.
    """

    implementations: tuple[Mapping[str, Any], ...]
    devices: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Probe(Preflight):
    """A probe to make. `config`: that of a run on this device and build. `models`: list of
    ``{"model", "cell", "config", "settings"}``: the choices of model and cell, the model's digest,
    and the config of a run that builds it."""

    models: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Plan:
    """The plan of an experiment on a site. `runs`: by name; `skipped`: name and reason of each
    skipped grid point; `datasets`: path of each required pinned file → the dataset choice;
    `certificates`, `probes`, `environments`: those to be made, by key."""

    experiment: Experiment
    site: str
    runs: Mapping[str, Run]
    skipped: tuple[tuple[str, str], ...]
    datasets: Mapping[str, str]
    certificates: Mapping[str, Certificate]
    probes: Mapping[str, Probe]
    environments: Mapping[str, Pins]

    @cached_property
    def rounds(self) -> Mapping[str, Round]:
        """The rounds by name, in the order of measuring."""
        by_round: dict[str, list[Run]] = {}
        for run in sorted(self.runs.values(), key=lambda run: run.order):
            by_round.setdefault(str(run.round), []).append(run)
        return {name: Round(name, runs[0].order, tuple(runs)) for name, runs in by_round.items()}

    def batches(self) -> list[list[str]]:
        """The names of the rounds in the order of measuring, grouped by what is logged together."""
        size = max(BATCH_RUNS, -(-len(self.runs) // MOST_BATCHES))
        batches: list[list[str]] = [[]]
        count = 0
        for name, members in self.rounds.items():
            if count >= size:
                batches.append([])
                count = 0
            batches[-1].append(name)
            count += len(members.runs)
        return batches


def write_plan(plan: Plan, results: Path) -> None:
    """Writes the plan and the experiment's facts, for the processes that measure and report."""
    folder = results / plan.site / plan.experiment.name
    folder.mkdir(parents=True, exist_ok=True)
    runs = sorted(plan.runs.values(), key=lambda run: run.order)
    temporary = folder / ".plan.jsonl.new"
    temporary.write_bytes(b"".join(run.line() for run in runs))
    temporary.replace(folder / "plan.jsonl")
    write_json(
        folder / "certificates.json",
        {key: certificate.as_dict() for key, certificate in plan.certificates.items()},
    )
    write_json(folder / "probes.json", {key: probe.as_dict() for key, probe in plan.probes.items()})
    write_json(folder / "experiment.json", facts_of(plan))


def facts_of(plan: Plan) -> dict[str, Any]:
    """The facts about the experiment that a report needs in addition to its runs."""
    return {
        "name": plan.experiment.name,
        "title": plan.experiment.title,
        "about": plan.experiment.about,
        "reference": dict(plan.experiment.reference),
        "lead": plan.experiment.lead,
        "repeats": plan.experiment.repeats.as_dict() if plan.experiment.repeats else None,
        "skipped": [{"name": name, "why": why} for name, why in plan.skipped],
    }
