"""From an experiment's name to what Snakemake is told: runs in order, skipped cells, datasets.

The one place where the grid meets this machine's facts: dataset hashes, the builds'
versions, the worker's code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rnnbench.builds.lock import lock_of
from rnnbench.builds.missing import missing
from rnnbench.builds.pins import Pins, pins_of
from rnnbench.datasets.own_file import own_file_md5
from rnnbench.datasets.pins import pinned
from rnnbench.errors import ConfigError
from rnnbench.grid.catalogue import shown
from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import Experiment, load_experiment
from rnnbench.grid.grammar import split_overrides
from rnnbench.grid.identity import Identifier
from rnnbench.grid.identity_cache import IdentityCache
from rnnbench.grid.local_constraints import unmet_constraints
from rnnbench.grid.order import plan_order
from rnnbench.grid.rounds import digest_of_round, round_of
from rnnbench.planning.certificates import Certificate, certifiable, certificates_of, key_of
from rnnbench.planning.code_digest import worker_digest
from rnnbench.planning.probes import Probe, probes_of
from rnnbench.records.store import write_json
from rnnworker import machine

BATCH_RUNS = 24
MOST_BATCHES = 100


@dataclass(frozen=True)
class Run:
    """One run to do: its line in the plan."""

    name: str
    order: int
    block: int
    digest: str
    round: str
    identity: Mapping[str, Any]
    choices: Mapping[str, str]
    overrides: Mapping[str, Any]
    seed: int
    repeat: int
    alias: str | None
    config: Mapping[str, Any]
    certificate: str | None = None

    def line(self) -> str:
        """``{"name": …`` first, so that a line is found without parsing the others."""
        return json.dumps(self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True)
class Round:
    """Runs that are measured together: one job. `order`: of the first of them."""

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
class Plan:
    """An experiment on this site. `datasets`: the path of each pinned file that is needed →
    the name of the choice. `certificates` and `probes`: by key. `environments`: by key, those to
    be made."""

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
        """By name, in the order of measuring."""
        found: dict[str, list[Run]] = {}
        for run in sorted(self.runs.values(), key=lambda run: run.order):
            found.setdefault(run.round, []).append(run)
        return {name: Round(name, runs[0].order, tuple(runs)) for name, runs in found.items()}

    def batches(self) -> list[list[str]]:
        """The rounds in the order of measuring, in the groups that are logged together."""
        size = max(BATCH_RUNS, -(-len(self.runs) // MOST_BATCHES))
        batches: list[list[str]] = [[]]
        count = 0
        for one in self.rounds.values():
            if count >= size:
                batches.append([])
                count = 0
            batches[-1].append(one.name)
            count += len(one.runs)
        return batches


def make_plan(
    name: str,
    conf: Sequence[Path],
    root: Path,
    *,
    site: str | None = None,
    overrides: str = "",
) -> Plan:
    """Reads the experiment and everything that decides about its runs.

    **Arguments:**

    - `name`: of the experiment.
    - `conf`: folders of choices, the project's first.
    - `root`: the project's folder.
    - `site`: a cluster's name; None is this machine, and only then do this machine's cores
      and GPUs decide what can run.
    - `overrides`: of the command line; each replaces what the grids say about the same key.
    """
    experiment = load_experiment(name, conf)
    cells = expand(experiment, conf, split_overrides(overrides), None if site else _obstacles(root))
    pins = pinned(root)
    identified = Identifier()
    own_pins = IdentityCache(lambda build: pins_of(build, root))
    lock = IdentityCache(lambda build: lock_of(build, root))
    skipped = tuple((cell.name, cell.skip) for cell in cells if cell.skip)
    runs, datasets, environments = {}, {}, {}
    for planned in plan_order(
        [cell for cell in cells if not cell.skip], experiment.order_seed, experiment.sequential
    ):
        cell = planned.cell
        path = cell.config["dataset"].get("path")
        if path in pins:
            datasets[path] = cell.config["dataset"]["name"]
        if own := own_pins(cell.config["build"]):
            environments[own.key] = own
        identity, digest = identified(
            cell.config,
            _dataset_md5(cell.config, pins, root),
            lock(cell.config["build"]),
            worker_digest(cell.config),
        )
        runs[cell.name] = Run(
            name=cell.name,
            order=planned.order,
            block=planned.block,
            digest=digest,
            round=round_of(cell, experiment.reference, bool(site)),
            identity=identity,
            choices=dict(cell.choices),
            overrides=dict(cell.overrides),
            seed=cell.seed,
            repeat=cell.repeat,
            alias=cell.alias,
            config=cell.config,
            certificate=key_of(cell) if certifiable(cell) else None,
        )
    if not runs:
        reasons = "; ".join(sorted({why for _, why in skipped}))
        raise ConfigError(
            f"no cell of {name} can run here: {reasons}.",
            where=f"{shown(experiment.file)}: grids",
            remedy="choose other devices or builds, or run it where these exist.",
        )
    certificates = certificates_of(cells, lambda config: _dataset_md5(config, pins, root), lock)
    probes = probes_of(cells, lock) if experiment.probe else {}
    site = site or machine.fingerprint()["machine"]
    return Plan(experiment, site, runs, skipped, datasets, certificates, probes, environments)


def write_plan(plan: Plan, results: Path) -> None:
    """The plan and the experiment's facts, for the processes that measure and report."""
    folder = results / plan.site / plan.experiment.name
    folder.mkdir(parents=True, exist_ok=True)
    lines = [run.line() for run in sorted(plan.runs.values(), key=lambda run: run.order)]
    temporary = folder / ".plan.jsonl.new"
    temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
    temporary.replace(folder / "plan.jsonl")
    write_json(
        folder / "certificates.json",
        {key: certificate.line() for key, certificate in plan.certificates.items()},
    )
    write_json(folder / "probes.json", {key: probe.line() for key, probe in plan.probes.items()})
    write_json(folder / "experiment.json", facts_of(plan))


def facts_of(plan: Plan) -> dict[str, Any]:
    """What a report needs to know of the experiment beside its runs."""
    return {
        "name": plan.experiment.name,
        "title": plan.experiment.title,
        "about": plan.experiment.about,
        "reference": dict(plan.experiment.reference),
        "repeats": plan.experiment.repeats.as_dict() if plan.experiment.repeats else None,
        "skipped": [{"name": name, "why": why} for name, why in plan.skipped],
    }


def _obstacles(root: Path):
    """What keeps a config from running on this machine, in words; each build is asked once."""
    lacking = IdentityCache(lambda build: missing(build, root))

    def here(config: Mapping[str, Any]) -> str | None:
        return unmet_constraints(config) or lacking(config["build"])

    return here


def _dataset_md5(config: Mapping[str, Any], pins: Mapping[str, Any], root: Path) -> str | None:
    path = config["dataset"].get("path")
    if path is None:
        return None
    if path in pins:
        return pins[path].md5
    return own_file_md5(Path(path), root / "results" / "cache" / "md5.json")
