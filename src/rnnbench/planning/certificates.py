"""Determines the certificates that an experiment needs: one per model × cell × build, which covers
all implementations and devices of its grids. No side effects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rnnbench.axes import CERTIFIED_AXES
from rnnbench.grid.identity import digest_of, identity_of
from rnnbench.grid.point import GridPoint, name_of
from rnnbench.grid.requirements import unmet
from rnnbench.planning.code_digest import certifier_digest
from rnnbench.planning.plan import Certificate
from rnnbench.records.labels import label
from rnnworker.cards import replicas_of

SECTIONS = (*CERTIFIED_AXES, "dataset", "precision")
# Keys that change how long and on which data a model is trained, but not the function it computes.
SAME_FUNCTION = (
    "model.epochs",
    "model.batch",
    "model.optimizer",
    "model.train_samples",
    "model.val_samples",
    "model.data_seed",
    "dataset.path",
)
NOT_OF_THE_FUNCTION = ("limits", "measure", "repeat", "alias", "rnn")


def certificates_of(
    points: Iterable[GridPoint],
    dataset_md5: Callable[[Mapping[str, Any]], str | None],
    build_lock: Callable[[Mapping[str, Any]], Any],
) -> dict[str, Certificate]:
    """The certificates for `points`, which include skipped ones, by key. The fake framework gets no
    certificates. `dataset_md5`: maps a config to the MD5 of its dataset, or None; `build_lock`: a
    build section to its lock."""
    groups: dict[str, list[GridPoint]] = {}
    for point in points:
        if certifiable(point):
            groups.setdefault(certificate_key(point), []).append(point)
    certificates = {}
    for key, group in sorted(groups.items()):
        runnable = [point for point in group if point.skip is None]
        if runnable:
            chosen = min(runnable, key=_preference)
            certificates[key] = _certificate(key, group, chosen, dataset_md5, build_lock)
    return certificates


def function_overrides(point: GridPoint) -> dict[str, Any]:
    """The overrides of `point` that change the function that its model computes."""
    return {
        key: value
        for key, value in point.overrides.items()
        if key.removeprefix("~").partition(".")[0] in SECTIONS
        and not key.removeprefix("~").startswith(SAME_FUNCTION)
    }


def certifiable(point: GridPoint) -> bool:
    """Whether the framework of `point` computes anything: the fake framework does not."""
    return point.config["build"]["framework"] != "fake"


def implementation_of(point: GridPoint) -> str:
    """The name of the implementation of `point` in a certificate."""
    return label(point.choices["rnn"], point.overrides, "rnn")


def device_of(point: GridPoint) -> str:
    """The name of the device of `point` in a certificate."""
    return label(point.choices["device"], point.overrides, "device")


def certificate_key(point: GridPoint) -> str:
    """The key of the certificate that covers `point`."""
    axes = {
        axis: point.choices[axis] for axis in (*CERTIFIED_AXES, "dataset") if axis in point.choices
    }
    return name_of(axes, function_overrides(point), 0, 0, None).removesuffix("-s0-r0")


def _preference(point: GridPoint) -> tuple[Any, ...]:
    """Sort key: the first grid point provides the certificate's config. GPUs come first, because
    every implementation runs on a GPU; a single device comes before replicas."""
    device = point.config["device"]
    gpu, replicas = device["kind"] == "gpu", replicas_of(device)
    return not gpu, replicas, len(point.overrides), point.seed, point.repeat, point.name


def _certificate(key, group, chosen, dataset_md5, build_lock) -> Certificate:
    config = {
        name: value for name, value in chosen.config.items() if name not in NOT_OF_THE_FUNCTION
    }
    sections: dict[str, Mapping[str, Any]] = {}
    for point in sorted(group, key=_preference):
        sections.setdefault(implementation_of(point), point.config["rnn"])
    implementations = tuple(
        {"name": name, "rnn": dict(rnn), "skip": unmet({**chosen.config, "rnn": rnn})}
        for name, rnn in sorted(sections.items())
    )
    configs = [{**config, "rnn": entry["rnn"]} for entry in implementations if not entry["skip"]]
    others = _other_devices(group, chosen)
    replicated = [
        {**configs[0], "device": other["device"]}
        for other in others
        if configs and replicas_of(other["device"]) > 1
    ]
    identity = identity_of(
        {
            **config,
            **{f"rnn_{entry['name']}": entry["rnn"] for entry in implementations},
            **{f"device_{other['name']}": other["device"] for other in others},
            "devices": {
                device_of(chosen): None,
                **{other["name"]: list(other["implementations"]) for other in others},
            },
        },
        dataset_md5(config),
        build_lock(config["build"]),
        certifier_digest([*configs, *replicated]),
    )
    return Certificate(
        key=key,
        digest=digest_of(identity),
        identity=identity,
        choices={axis: chosen.choices[axis] for axis in CERTIFIED_AXES},
        overrides=function_overrides(chosen),
        config={**config, "limits": chosen.config.get("limits") or {}},
        implementations=implementations,
        device=device_of(chosen),
        devices=others,
    )


def _other_devices(group: list[GridPoint], chosen: GridPoint) -> tuple[Mapping[str, Any], ...]:
    """The devices of the runnable points of `group`, except the device of `chosen`."""
    sections: dict[str, Mapping[str, Any]] = {}
    names: dict[str, set[str]] = {}
    for point in sorted(group, key=_preference):
        device = device_of(point)
        if point.skip is None and device != device_of(chosen):
            sections.setdefault(device, point.config["device"])
            names.setdefault(device, set()).add(implementation_of(point))
    return tuple(
        {"name": name, "device": dict(sections[name]), "implementations": sorted(names[name])}
        for name in sorted(sections)
    )
