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
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from msgspec import to_builtins

from rnnbench.builds.launcher import lock_of, missing
from rnnbench.builds.pins import build_of, pins_of
from rnnbench.datasets.arrays import check_arrays, check_nothing_further
from rnnbench.datasets.pins import own_md5, pinned
from rnnbench.errors import ConfigError, display_path
from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import Experiment, load_experiment, split_overrides, varied
from rnnbench.grid.files import GIVEN_ARRAYS
from rnnbench.grid.overrides import Config
from rnnbench.grid.point import (
    GridPoint,
    canonical,
    configuration_of,
    digest_of,
    full_identity,
    name_of,
)
from rnnbench.grid.requirements import unmet_here
from rnnbench.grid.runtimes import runtimes_of, with_runtimes
from rnnbench.plain_text import is_name
from rnnbench.planning.digests import serving_digest, worker_digest
from rnnbench.planning.plan import Plan, Prediction, certifiable, certificates_of
from rnnbench.records.keys import certificate_key
from rnnbench.records.overrides import section_of
from rnnbench.records.plan_file import Obstacle
from rnnbench.records.predictions import ChosenRuntime
from rnnbench.records.record import Run
from rnnbench.records.store import RESERVED
from rnnserve import OWN
from rnnworker import machine
from rnnworker.array_names import ARRAYS
from rnnworker.cohorts import takes_turns

Value = TypeVar("Value")
ALWAYS_COMPARED = {"rnn"}
# What runtimes can answer with: the model as its author wrote it, in Keras 3 on TensorFlow.
PREDICTED = {
    "rnn.implementation": ("keras", "none"),
    "build.framework": ("keras3_tensorflow",),
    "device.kind": ("cpu",),
}
FIXED_PER_JOB = {"device"}  # on a cluster, a job has one device


class NothingToRun(ConfigError):
    """No grid point of the experiment can run on this machine.

    - `plan`: without runs, but with the obstacle, which has the most common reasons.
    - `words`: the experiment and its overrides, as arguments of a command.
    """

    def __init__(self, plan: Plan, words: str):
        counts = Counter(why for _, why in plan.skipped).most_common()
        reasons = "; ".join(why for why, _ in counts[:3])
        if len(counts) > 3:
            reasons += f"; and others, which `rnnbench grid {words}` lists"
        obstacle = Obstacle(
            f"none of the {len(plan.skipped)} grid points can run on this machine: {reasons}.",
            "choose other devices or builds, or measure it on a machine that has these: "
            f"`rnnbench bundle {words} -o FOLDER` here, `python FOLDER/run.py` there, "
            "`rnnbench import FOLDER` here.",
        )
        self.plan = replace(plan, obstacle=obstacle)
        where = f"{display_path(plan.experiment.file)}: grids"
        super().__init__(obstacle.why, where=where, remedy=obstacle.remedy)


class Ordered(NamedTuple):
    """A grid point with its place in the order of measuring.

    - `block`: number of its block, which contains all grid points of one seed and repeat.
    - `order`: its position over all blocks. Both count from 0.
    """

    point: GridPoint
    block: int
    order: int


def plan_order(points: Sequence[GridPoint], sequential: bool = False) -> list[Ordered]:
    """The grid points that are not skipped, in the order of measuring.

    - `points`: in any order, which does not change the result.
    - `sequential`: grid by grid, each in separate blocks.
    """
    blocks: dict[tuple[int, int, int], list[GridPoint]] = {}
    for point in sorted(points, key=lambda point: point.name):
        if point.skip is not None:
            continue
        grid = point.grid if sequential else 0
        key = (grid, point.repeat, point.seed)
        blocks.setdefault(key, []).append(point)

    ordered: list[Ordered] = []
    for number, (key, block) in enumerate(sorted(blocks.items())):
        _, repeat, seed = key
        # The text decides the order: with another one, plans of committed records would change.
        random.Random(f"0-s{seed}-r{repeat}").shuffle(block)
        for point in block:
            ordered.append(Ordered(point, number, len(ordered)))
    return ordered


def rounds_of(
    points: Sequence[GridPoint],
    reference: Mapping[str, str],
    on_cluster: bool,
) -> dict[str, str]:
    """The name of each point → the name of its round.

    The runs of a round differ only in the implementation with its options, in the axes that
    `reference` names, and in their alias. The round's name is made of what they have in common. If
    rounds of different settings would have the same name, it also has a digest of the settings. A
    run on a GPU or with ``measure.turns: false`` is a separate round.

    - `reference`: axis → choice of the run that others are compared with.
    - `on_cluster`: whether each round is a job of its own, which has one device.
    """
    compared = ALWAYS_COMPARED | set(reference)
    if on_cluster:
        compared -= FIXED_PER_JOB

    names: dict[str, str] = {}
    common: dict[str, str] = {}  # point → the settings that its round has in common
    with_name: dict[str, set[str]] = {}
    for point in points:
        name, settings = point.name, ""
        if takes_turns(point.config):
            choices = {
                axis: choice for axis, choice in point.choices.items() if axis not in compared
            }
            overrides = {
                key: value
                for key, value in point.overrides.items()
                if section_of(key) not in compared and key not in compared
            }
            name = name_of(choices, overrides, point.seed, point.repeat, alias=None)
            settings = canonical([choices, overrides])
        names[point.name] = name
        common[point.name] = settings
        with_name.setdefault(name, set()).add(settings)

    for point_name, name in names.items():
        if len(with_name[name]) > 1:
            digest = hashlib.sha256(common[point_name].encode()).hexdigest()[:8]
            configuration = configuration_of(name)
            seed_and_repeat = name.removeprefix(configuration)
            names[point_name] = f"{configuration}-{digest}{seed_and_repeat}"
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
    """Reads an experiment and everything that its runs depend on.

    - `name`: the experiment's, or the path of its file.
    - `conf`, `overrides`: as for `expand`.
    - `root`: the project's folder.
    - `site`: a cluster's name, or None for this machine, which skips points that it cannot run.
    - `separate`: whether overrides make an experiment of their own (`varied`).

    Raises `NothingToRun` if no grid point can run here, and `ConfigError` for a wrong site,
    experiment, choice, override or data set.
    """
    if site is not None and (not is_name(site) or site in RESERVED):
        remedy = f"use letters, digits and _.+=@-, and none of {', '.join(sorted(RESERVED))}."
        raise ConfigError(f"the site is {site[:60]!r}.", where="--config site", remedy=remedy)
    changes = split_overrides(overrides)
    experiment = load_experiment(name, conf)
    if separate:
        experiment = varied(experiment, changes)
    experiment, of_grids = with_runtimes(experiment, changes, conf)
    runtimes: tuple[ChosenRuntime, ...] = ()
    if experiment.predict:
        runtimes = runtimes_of(experiment.predict.runtimes, conf)
    why_not_here = None if site else unmet_at(root)
    points = expand(experiment, conf, of_grids, why_not_here, root)
    plan = _plan_of(experiment, points, runtimes, root, site)
    if not plan.runs and not plan.predictions:
        raise NothingToRun(plan, " ".join([name, *changes]))
    return plan


def _plan_of(
    experiment: Experiment,
    points: Sequence[GridPoint],
    runtimes: tuple[ChosenRuntime, ...],
    root: Path,
    site: str | None,
) -> Plan:
    """The plan of an experiment, which has no runs if all grid points are skipped.

    - `points`: all grid points. `runtimes`: those that answer with their models.
    - `root`, `site`: as for `make_plan`.
    """
    pins = pinned(root)
    md5s: dict[str | None, str | None] = {path: pin.md5 for path, pin in pins.items()}
    md5s |= {None: None, "": ""}  # a model may make its own data
    environment_of = _once_per_section(lambda section: pins_of(build_of(section), root))
    lock = _once_per_section(lambda section: lock_of(build_of(section), root))
    # Thousands of runs may share a file.
    check = cache(check_arrays)
    check_further = cache(check_nothing_further)
    ordered = plan_order(points, sequential=experiment.grid_order == "sequential")
    rounds = rounds_of([each.point for each in ordered], experiment.reference, bool(site))

    runs, predictions, datasets, environments = {}, {}, {}, {}
    for each in ordered:
        config = each.point.config
        path = config["dataset"].get("path")
        if path in pins:
            datasets[path] = config["dataset"]["name"]
        elif path:
            if path not in md5s:
                md5s[path] = own_md5(root / path)
            _check_own(root / path, config["model"], check, check_further)
        environment = environment_of(config["build"])
        if environment:
            environments[environment.key] = environment
        inputs = {"build_lock": lock(config["build"]), "dataset_md5": md5s[path]}
        name = each.point.name
        if experiment.predict:
            predictions[name] = _prediction(each.point, experiment, runtimes, inputs)
            continue
        identity = inputs | {"worker": worker_digest(config)}
        runs[name] = _run(each, rounds[name], identity)

    # In the order of the grids, which the page has too.
    predictions = {each.name: predictions[each.name] for each in points if each.name in predictions}
    certified = [] if experiment.predict else points
    return Plan(
        experiment=experiment,
        site=site or machine.fingerprint()["machine"],
        runs=runs,
        predictions=predictions,
        skipped=tuple((point.name, point.skip) for point in points if point.skip),
        datasets=datasets,
        certificates=certificates_of(
            certified,
            dataset_md5=lambda config: md5s[config["dataset"].get("path")],
            build_lock=lock,
        ),
        environments=environments,
        models=tuple(dict.fromkeys(point.choices["model"] for point in points)),
    )


def _run(each: Ordered, round_name: str, identity: Mapping[str, object]) -> Run:
    """The run of a grid point.

    - `each`: the point with its place in the order.
    - `round_name`: that of its round.
    - `identity`: as in `Run`.
    """
    point = each.point
    certificate = None
    if certifiable(point):
        certificate = certificate_key(point.choices, point.config)
    return Run(
        name=point.name,
        order=each.order,
        block=each.block,
        digest=digest_of(full_identity(point.config, identity)),
        round=round_name,
        identity=identity,
        choices=dict(point.choices),
        overrides=dict(point.overrides),
        seed=point.seed,
        repeat=point.repeat,
        alias=point.alias,
        config=point.config,
        certificate=certificate,
    )


def _prediction(
    point: GridPoint,
    experiment: Experiment,
    runtimes: tuple[ChosenRuntime, ...],
    inputs: Mapping[str, object],
) -> Prediction:
    """The prediction of a grid point.

    `inputs`: the lock of its build and the MD5 of its data. Raises `ConfigError` if runtimes cannot
    answer with its model.
    """
    config = point.config
    assert experiment.predict is not None
    for key, value in PREDICTED.items():
        section, _, name = key.partition(".")
        if config[section][name] not in value:
            raise ConfigError(
                f"{point.name} has {key}={config[section][name]}, which cannot be exported.",
                where=f"{display_path(experiment.file)}: predict",
                remedy=f"predict takes {key}={' or '.join(value)}.",
            )
    settings = to_builtins(experiment.predict)
    settings["runtimes"] = to_builtins(runtimes)
    own = [each.implementation for each in runtimes if each.implementation.endswith(OWN)]
    if own:
        settings["own"] = [own_md5(Path(file)) for file in own]
    parts = {**inputs, "worker": serving_digest(config), "predict": settings}
    identity = full_identity(config, parts)
    return Prediction(
        name=point.name,
        digest=digest_of(identity),
        identity=identity,
        choices=dict(point.choices),
        overrides=dict(point.overrides),
        config=config,
        settings=experiment.predict,
        runtimes=runtimes,
    )


def _check_own(
    file: Path,
    model: Config,
    check: Callable[..., None],
    check_further: Callable[[Path], None],
) -> None:
    """Raises `ConfigError` unless a user's file has the arrays that its model needs.

    - `model`: the section of the config.
    - `check`, `check_further`: `check_arrays` and `check_nothing_further`, which read the file.
    """
    needed = model.get("arrays", ARRAYS)
    if needed is not None:
        needed = tuple(needed)
    prepare = model["data"]["prepare"]
    sizes = None
    # What a user's function makes of the arrays is known only after executing it.
    if prepare.startswith("rnnworker."):
        sizes = (model.get("train_samples"), model.get("val_samples"))
    check(file, needed, model["name"], sizes)
    if prepare == GIVEN_ARRAYS:
        check_further(file)


def unmet_at(root: Path) -> Callable[[Config], str | None]:
    """Returns a function that maps a config to the reason why this machine cannot run it, or None.

    `root`: the project's folder.
    """
    missing_build = _once_per_section(lambda section: missing(build_of(section), root))
    return lambda config: unmet_here(config["device"]) or missing_build(config["build"])


def _once_per_section(function: Callable[[Any], Value]) -> Callable[[Any], Value]:
    """The function, but called once per content of a section: many runs have equal ones."""
    results: dict[str, Value] = {}

    def remembered(section: Any) -> Value:
        key = repr(section)
        if key not in results:
            results[key] = function(section)
        return results[key]

    return remembered
