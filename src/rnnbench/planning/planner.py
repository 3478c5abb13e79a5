"""Makes the plan of an experiment for Snakemake: runs in order, rounds, skipped grid points, data
sets, certificates and environments.

Only `make_plan` combines the grid with the state of this machine: the hashes of the datasets, the
locks of the builds, and the worker's code.

The order of measuring is block by block, each in a seeded random order. The repeats of a
configuration are spread over the whole duration of an experiment, so that drift of the machine does
not affect one implementation more than the others.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from rnnbench.builds.launcher import lock_of, missing
from rnnbench.builds.pins import pins_of
from rnnbench.datasets.arrays import check_arrays, check_nothing_further
from rnnbench.datasets.pins import own_md5, pinned
from rnnbench.errors import ConfigError, display_path
from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import load_experiment, split_overrides, varied
from rnnbench.grid.files import GIVEN_ARRAYS
from rnnbench.grid.point import (
    GridPoint,
    canonical,
    configuration_of,
    digest_of,
    full_identity,
    name_of,
)
from rnnbench.grid.requirements import unmet_here
from rnnbench.plain_text import is_name
from rnnbench.planning.digests import worker_digest
from rnnbench.planning.plan import Plan, certifiable, certificates_of
from rnnbench.records.keys import certificate_key
from rnnbench.records.overrides import section_of
from rnnbench.records.plan_file import Obstacle
from rnnbench.records.record import Run
from rnnbench.records.store import RESERVED
from rnnworker import machine
from rnnworker.array_names import ARRAYS
from rnnworker.cohorts import takes_turns

Value = TypeVar("Value")
ALWAYS_COMPARED = {"rnn"}
FIXED_PER_JOB = {"device"}  # on a cluster, a job has one device


class NothingToRun(ConfigError):
    """No grid point of the experiment can run on this machine. `plan`: without runs, but with the
    obstacle."""

    def __init__(self, plan: Plan, obstacle: Obstacle):
        self.plan = plan
        where = f"{display_path(plan.experiment.file)}: grids"
        super().__init__(obstacle.why, where=where, remedy=obstacle.remedy)


class Ordered(NamedTuple):
    """A grid point, the number of its block, which contains all grid points of one seed and repeat,
    and its position over all blocks. Both count from 0."""

    point: GridPoint
    block: int
    order: int


def plan_order(points: Sequence[GridPoint], sequential: bool = False) -> list[Ordered]:
    """The grid points that are not skipped, in the order of measuring. The result depends on the
    set of `points`, not on their order. `sequential`: grid by grid, each in separate blocks."""
    blocks: dict[tuple[int, int, int], list[GridPoint]] = {}
    for point in sorted(points, key=lambda point: point.name):
        if point.skip is None:
            key = (point.grid if sequential else 0, point.repeat, point.seed)
            blocks.setdefault(key, []).append(point)
    ordered: list[Ordered] = []
    for number, ((_, repeat, seed), block) in enumerate(sorted(blocks.items())):
        # The text decides the order: with another one, plans of committed records would change.
        random.Random(f"0-s{seed}-r{repeat}").shuffle(block)
        ordered += [Ordered(point, number, len(ordered) + i) for i, point in enumerate(block)]
    return ordered


def rounds_of(
    points: Sequence[GridPoint], reference: Mapping[str, str], on_cluster: bool
) -> dict[str, str]:
    """The name of each point → that of its round, made of what the runs of the round have in
    common. They differ only in the implementation with its options, in the axes that `reference`
    names, and in their alias. A run on a GPU or with ``measure.turns: false`` is a separate round.
    Rounds of different settings whose names would be the same have a digest in their names."""
    compared = (ALWAYS_COMPARED | set(reference)) - (FIXED_PER_JOB if on_cluster else set())
    names: dict[str, str] = {}
    common: dict[str, str] = {}  # point → the settings that its round has in common
    with_name: dict[str, set[str]] = {}
    for point in points:
        names[point.name], common[point.name] = point.name, ""
        if takes_turns(point.config):
            choices = {k: choice for k, choice in point.choices.items() if k not in compared}
            changed = point.overrides.items()
            overrides = {k: value for k, value in changed if section_of(k) not in compared}
            names[point.name] = name_of(choices, overrides, point.seed, point.repeat, None)
            common[point.name] = canonical([choices, overrides])
        with_name.setdefault(names[point.name], set()).add(common[point.name])
    for point_name, name in names.items():
        if len(with_name[name]) > 1:
            digest = hashlib.sha256(common[point_name].encode()).hexdigest()[:8]
            configuration = configuration_of(name)
            names[point_name] = f"{configuration}-{digest}{name.removeprefix(configuration)}"
    return names


def make_plan(
    name: str,
    conf: Sequence[Path],
    root: Path,
    *,
    site: str | None = None,
    overrides: str = "",
    separate: bool = True,
) -> Plan:
    """Reads the experiment `name` (or the path of its file) and everything that its runs depend on.
    `conf`, `overrides`: as for `expand`; `root`: the project's folder; `site`: a cluster's name, or
    None for this machine, which skips points that it cannot run; `separate`: whether overrides make
    an experiment of their own (`varied`)."""
    if site is not None and (not is_name(site) or site in RESERVED):
        remedy = f"use letters, digits and _.+=@-, and none of {', '.join(sorted(RESERVED))}."
        raise ConfigError(f"the site is {site[:60]!r}.", where="--config site", remedy=remedy)
    changes = split_overrides(overrides)
    experiment = load_experiment(name, conf)
    if separate:
        experiment = varied(experiment, changes)
    points = expand(experiment, conf, changes, None if site else unmet_at(root), root)
    pins = pinned(root)
    md5 = cache(lambda path: path and (pins[path].md5 if path in pins else own_md5(root / path)))
    check, check_further = cache(check_arrays), cache(check_nothing_further)
    environment_of = _once_per_section(lambda build: pins_of(build, root))
    lock = _once_per_section(lambda build: lock_of(build, root))
    skipped = tuple((point.name, point.skip) for point in points if point.skip)
    runs, datasets, environments = {}, {}, {}
    sequential = experiment.grid_order == "sequential"
    ordered = plan_order(points, sequential)
    rounds = rounds_of([each.point for each in ordered], experiment.reference, bool(site))
    for point, block, order in ordered:
        config, path = point.config, point.config["dataset"].get("path")
        if path in pins:
            datasets[path] = config["dataset"]["name"]
        elif path and md5(path):
            model = config["model"]
            needed = model.get("arrays", ARRAYS)
            arrays = None if needed is None else tuple(needed)
            # What a user's function makes of the arrays is known only after executing it.
            ours = model["data"]["prepare"].startswith("rnnworker.")
            sizes = (model.get("train_samples"), model.get("val_samples")) if ours else None
            check(root / path, arrays, model["name"], sizes)
            if model["data"]["prepare"] == GIVEN_ARRAYS:
                check_further(root / path)
        if environment := environment_of(config["build"]):
            environments[environment.key] = environment
        identity = {
            "build_lock": lock(config["build"]),
            "dataset_md5": md5(path),
            "worker": worker_digest(config),
        }
        runs[point.name] = Run(
            name=point.name,
            order=order,
            block=block,
            digest=digest_of(full_identity(config, identity)),
            round=rounds[point.name],
            identity=identity,
            choices=dict(point.choices),
            overrides=dict(point.overrides),
            seed=point.seed,
            repeat=point.repeat,
            alias=point.alias,
            config=config,
            certificate=certificate_key(point.choices, config) if certifiable(point) else None,
        )
    models = tuple(dict.fromkeys(point.choices["model"] for point in points))
    site = site or machine.fingerprint()["machine"]
    if not runs:
        words = " ".join([name, *changes])
        counts = Counter(why for _, why in skipped).most_common()
        reasons = "; ".join(why for why, _ in counts[:3])
        reasons += f"; and others, which `rnnbench grid {words}` lists" if counts[3:] else ""
        obstacle = Obstacle(
            f"none of the {len(points)} grid points can run on this machine: {reasons}.",
            "choose other devices or builds, or measure it on a machine that has these: "
            f"`rnnbench bundle {words} -o FOLDER` here, `python FOLDER/run.py` there, "
            "`rnnbench import FOLDER` here.",
        )
        plan = Plan(experiment, site, {}, skipped, {}, {}, {}, models, obstacle)
        raise NothingToRun(plan, obstacle)
    certificates = certificates_of(points, lambda config: md5(config["dataset"].get("path")), lock)
    return Plan(experiment, site, runs, skipped, datasets, certificates, environments, models)


def unmet_at(root: Path) -> Callable[[Mapping[str, Any]], str | None]:
    """Maps a config to the reason why this machine, with the project in `root`, cannot run it."""
    missing_build = _once_per_section(lambda build: missing(build, root))
    return lambda config: unmet_here(config) or missing_build(config["build"])


def _once_per_section(function: Callable[[Any], Value]) -> Callable[[Any], Value]:
    """`function`, called once per content of a section: many runs have equal ones."""
    results: dict[str, Value] = {}

    def remembered(section: Any) -> Value:
        if (key := repr(section)) not in results:
            results[key] = function(section)
        return results[key]

    return remembered
