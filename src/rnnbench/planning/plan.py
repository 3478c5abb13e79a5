"""What an experiment's plan consists of, and the certificates that its grid points need before
their runs.

There is one certificate per function, i.e. model × cell × build with the values that change it, for
all implementations, devices and sizes of batches of its grids. The fake framework gets none,
because it computes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from rnnbench.axes import CERTIFIED_AXES
from rnnbench.builds.pins import Pins
from rnnbench.grid.experiment import Experiment, Predict
from rnnbench.grid.overrides import Config
from rnnbench.grid.point import GridPoint, canonical, digest_of, full_identity
from rnnbench.grid.requirements import unmet
from rnnbench.planning.digests import certifier_digest
from rnnbench.records.keys import OF_BATCHES, certificate_key, function_overrides
from rnnbench.records.overrides import Settings, label
from rnnbench.records.plan_file import (
    Batch,
    Obstacle,
    PlannedCertificate,
    PlannedDevice,
    PlannedImplementation,
    PlannedRound,
    Skipped,
    batched,
)
from rnnbench.records.plan_file import Experiment as ExperimentFacts
from rnnbench.records.predictions import ChosenRuntime
from rnnbench.records.record import Run, differing
from rnnbench.records.store import write_bytes, write_json
from rnnworker.cards import replicas_of

NOT_OF_THE_FUNCTION = ("limits", "measure", "repeat", "alias", "rnn")
DatasetMd5 = Callable[[Config], str | None]  # a config → the MD5 of its dataset
Lock = Callable[[Config], Any]  # a build's section → its lock


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """A model with which runtimes are to answer.

    - `identity`, `digest`: as of a certificate.
    - `choices`, `overrides`, `config`: of its grid point. `settings`: those of the experiment;
      `runtimes`: the composed ones.
    """

    name: str
    digest: str
    identity: Mapping[str, object]
    choices: Mapping[str, str]
    overrides: Settings
    config: Config
    settings: Predict
    runtimes: tuple[ChosenRuntime, ...]


@dataclass(frozen=True)
class Plan:
    """The plan of an experiment on a site.

    - `runs`: by name, in the order of measuring.
    - `skipped`: name and reason of each skipped grid point.
    - `datasets`: path of each required pinned file → the dataset choice.
    - `certificates`, `environments`: those to be made, by key.
    - `predictions`: by name, of an experiment whose models answer; it has no runs.
    - `models`: of the grid.
    - `obstacle`: why there are no runs.
    - `rerun`: the command that measures it; ``""`` for Snakemake's.
    """

    experiment: Experiment
    site: str
    runs: Mapping[str, Run]
    skipped: tuple[tuple[str, str], ...]
    datasets: Mapping[str, str]
    certificates: Mapping[str, PlannedCertificate]
    environments: Mapping[str, Pins]
    predictions: Mapping[str, Prediction] = field(default_factory=dict)
    models: tuple[str, ...] = ()
    obstacle: Obstacle | None = None
    rerun: str = ""

    @cached_property
    def rounds(self) -> Mapping[str, PlannedRound]:
        """The rounds by name, in the order of measuring."""
        by_round: dict[str, list[Run]] = {}
        for run in self.runs.values():
            by_round.setdefault(run.round, []).append(run)
        rounds = {}
        for number, (name, runs) in enumerate(by_round.items()):
            rounds[name] = PlannedRound(number, len(by_round), runs)
        return rounds

    @cached_property
    def batches(self) -> Mapping[str, Batch]:
        """The batches in the order of measuring, by their number."""
        batches = {}
        sizes = {name: len(each.runs) for name, each in self.rounds.items()}
        for number, names in enumerate(batched(sizes)):
            batches[str(number)] = Batch([self.rounds[name] for name in names])
        return batches


def write_plan(plan: Plan, results: Path) -> None:
    """Writes the plan and the experiment's facts, for the processes that measure and report.

    The files are ``plan.jsonl`` (a line for each run), ``certificates.json`` (by key),
    ``experiment.json`` and, if there are any, ``predictions.json`` (by name), in the experiment's
    folder of `results`. Raises `OSError`.
    """
    folder = results / plan.site / plan.experiment.name
    lines = b"".join(run.line() for run in plan.runs.values())
    write_bytes(folder / "plan.jsonl", lines)
    write_json(folder / "certificates.json", plan.certificates)
    write_json(folder / "experiment.json", facts_of(plan))
    file = folder / "predictions.json"
    file.unlink(missing_ok=True)
    if plan.predictions:
        write_json(file, plan.predictions)


def facts_of(plan: Plan) -> ExperimentFacts:
    """The facts about the experiment that a report needs in addition to its runs.

    These are its texts, its reference, how to run it again, the skipped grid points, and the peak
    (TFLOPS) of each device whose choice states it.
    """
    experiment = plan.experiment
    peaks = {}
    for run in plan.runs.values():
        peak = run.config["device"].get("peak_tflops")
        if peak:
            peaks[run.choices["device"]] = peak
    return ExperimentFacts(
        name=experiment.name,
        title=experiment.title,
        about=experiment.about,
        reference=dict(experiment.reference),
        lead=experiment.lead,
        rerun=plan.rerun or f"snakemake --cores all --config {experiment.request}",
        repeats=experiment.repeats,
        skipped=tuple(Skipped(name, why) for name, why in plan.skipped),
        peak_tflops=peaks,
        models=plan.models,
        obstacle=plan.obstacle,
        varied=tuple(differing(list(plan.runs.values()))),
    )


def certifiable(point: GridPoint) -> bool:
    """Whether its implementation computes the function of its model."""
    return bool(point.config["build"]["framework"] != "fake")


def certificates_of(
    points: Iterable[GridPoint],
    dataset_md5: DatasetMd5,
    build_lock: Lock,
) -> dict[str, PlannedCertificate]:
    """The certificates for grid points, by key. A group of skipped points needs none.

    - `points`: all points of the grids, skipped ones too: they decide what is tested.
    - `dataset_md5`, `build_lock`: facts of this machine.
    """
    groups: dict[str, list[GridPoint]] = {}
    for point in sorted(points, key=_preference):
        if certifiable(point):
            key = certificate_key(point.choices, point.config)
            groups.setdefault(key, []).append(point)

    certificates = {}
    for key, group in sorted(groups.items()):
        if any(point.skip is None for point in group):
            certificates[key] = _certificate(key, group, dataset_md5, build_lock)
    return certificates


def _preference(point: GridPoint) -> tuple[Any, ...]:
    """Sort key: the first grid point provides the certificate's config.

    GPUs come first, because every implementation runs on a GPU; a single device comes before
    replicas.
    """
    device = point.config["device"]
    return (
        device["kind"] != "gpu",
        replicas_of(device),
        len(point.overrides),
        point.seed,
        point.repeat,
        point.name,
    )


def _certificate(
    key: str,
    group: list[GridPoint],
    dataset_md5: DatasetMd5,
    build_lock: Lock,
) -> PlannedCertificate:
    """The certificate of a function.

    - `group`: all grid points of the function, in the order of `_preference`; at least one of them
      is not skipped.
    - `dataset_md5`, `build_lock`: as for `certificates_of`.
    """
    chosen = next(point for point in group if point.skip is None)
    config = {k: part for k, part in chosen.config.items() if k not in NOT_OF_THE_FUNCTION}

    sections: dict[str, Config] = {}
    for point in group:
        name = label(point.choices["rnn"], point.overrides, "rnn")
        sections.setdefault(name, point.config["rnn"])
    implementations = []
    for name, rnn in sorted(sections.items()):
        skip = unmet({**chosen.config, "rnn": rnn})
        implementations.append(PlannedImplementation(name, rnn, skip))
    runnable = [each.name for each in implementations if not each.skip]
    devices = _devices(group, runnable)

    sections_of_all = dict(config)
    for each in implementations:
        sections_of_all[f"rnn_{each.name}"] = each.rnn
    for place in devices:
        sections_of_all[f"device_{place.name}"] = place.device
    sections_of_all["devices"] = [
        {**msgspec.to_builtins(place), "device": None} for place in devices
    ]

    certificate = PlannedCertificate(
        key=key,
        digest="",
        identity={},
        choices={axis: chosen.choices[axis] for axis in CERTIFIED_AXES},
        overrides=function_overrides(chosen.overrides),
        config={**config, "limits": chosen.config.get("limits") or {}},
        implementations=tuple(implementations),
        devices=tuple(devices),
    )
    parts = {
        "build_lock": build_lock(config["build"]),
        "dataset_md5": dataset_md5(config),
        "worker": code_of(certificate),
    }
    identity = full_identity(sections_of_all, parts)
    return msgspec.structs.replace(certificate, digest=digest_of(identity), identity=identity)


def code_of(certificate: PlannedCertificate) -> str:
    """The digest of the code that a certificate is made with: that of each implementation on each
    device that tests it.

    Raises `ConfigError` if a module is not valid Python.
    """
    rnns = {each.name: each.rnn for each in certificate.implementations}
    configs = []
    for place in certificate.devices:
        for name in place.implementations:
            configs.append(
                {
                    **certificate.config,
                    "device": place.device,
                    "rnn": rnns[name],
                }
            )
    return certifier_digest(configs)


def _devices(group: list[GridPoint], runnable: list[str]) -> list[PlannedDevice]:
    """The devices of a certificate, the device of its config first.

    The first device tests all `runnable` implementations; each other one tests those that the grids
    have on it. Points of the `group` that are skipped do not count.
    """
    by_device: dict[str, list[GridPoint]] = {}
    for point in group:
        if point.skip is None:
            name = label(point.choices["device"], point.overrides, "device")
            by_device.setdefault(name, []).append(point)

    first, *others = by_device
    devices = []
    for name in (first, *sorted(others)):
        points = by_device[name]
        tested = runnable
        if name != first:
            tested = sorted({label(p.choices["rnn"], p.overrides, "rnn") for p in points})
        device = points[0].config["device"]
        devices.append(PlannedDevice(name, device, tested, _batches(points)))
    return devices


def _batches(points: list[GridPoint]) -> list[dict[str, Any]]:
    """The different settings of `points` on which the sizes of their batches depend, in a fixed
    order."""
    settings = {}
    for point in points:
        model = point.config["model"]
        setting = {name: model[name] for name in OF_BATCHES if name in model}
        settings[canonical(setting)] = setting
    return [settings[text] for text in sorted(settings)]
