"""Determines the certificates that an experiment needs: one per function, i.e. model × cell × build
with the values that change it, for all implementations, devices and sizes of batches of its grids.
No side effects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rnnbench.axes import CERTIFIED_AXES
from rnnbench.grid.identity import canonical, digest_of, identity_of
from rnnbench.grid.point import GridPoint
from rnnbench.grid.requirements import unmet
from rnnbench.planning.code_digest import certifier_digest
from rnnbench.planning.plan import Certificate
from rnnbench.records.certificate_match import OF_BATCHES, certificate_key, function_overrides
from rnnbench.records.labels import label
from rnnworker.cards import replicas_of

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
            key = certificate_key(point.choices, point.config)
            groups.setdefault(key, []).append(point)
    certificates = {}
    for key, group in sorted(groups.items()):
        runnable = [point for point in group if point.skip is None]
        if runnable:
            chosen = min(runnable, key=_preference)
            certificates[key] = _certificate(key, group, chosen, dataset_md5, build_lock)
    return certificates


def certifiable(point: GridPoint) -> bool:
    """Whether the framework of `point` computes anything: the fake framework does not."""
    return point.config["build"]["framework"] != "fake"


def implementation_of(point: GridPoint) -> str:
    """The name of the implementation of `point` in a certificate."""
    return label(point.choices["rnn"], point.overrides, "rnn")


def device_of(point: GridPoint) -> str:
    """The name of the device of `point` in a certificate."""
    return label(point.choices["device"], point.overrides, "device")


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
    skips = {name: unmet({**chosen.config, "rnn": rnn}) for name, rnn in sections.items()}
    implementations = tuple(
        {"name": name, "rnn": dict(rnn), "skip": skips[name]}
        for name, rnn in sorted(sections.items())
    )
    runnable = [name for name in sorted(sections) if not skips[name]]
    devices = _devices(group, chosen, runnable)
    identity = identity_of(
        {
            **config,
            **{f"rnn_{entry['name']}": entry["rnn"] for entry in implementations},
            **{f"device_{place['name']}": place["device"] for place in devices},
            "devices": [{**place, "device": None} for place in devices],
        },
        dataset_md5(config),
        build_lock(config["build"]),
        code_of(config, implementations, devices),
    )
    return Certificate(
        key=key,
        digest=digest_of(identity),
        identity=identity,
        choices={axis: chosen.choices[axis] for axis in CERTIFIED_AXES},
        overrides=function_overrides(chosen.overrides),
        config={**config, "limits": chosen.config.get("limits") or {}},
        implementations=implementations,
        devices=devices,
    )


def code_of(
    config: Mapping[str, Any],
    implementations: Iterable[Mapping[str, Any]],
    devices: Iterable[Mapping[str, Any]],
) -> str:
    """The digest of the code that a `Certificate` with these fields is made with."""
    rnns = {entry["name"]: entry["rnn"] for entry in implementations}
    return certifier_digest(
        [
            {**config, "device": place["device"], "rnn": rnns[name]}
            for place in devices
            for name in place["implementations"]
        ]
    )


def _devices(
    group: list[GridPoint], chosen: GridPoint, runnable: list[str]
) -> tuple[Mapping[str, Any], ...]:
    """The devices of the runnable points of `group`. The first is that of `chosen`, which tests all
    `runnable` implementations; each other one tests those that the grids have on it."""
    points: dict[str, list[GridPoint]] = {device_of(chosen): []}
    for point in sorted(group, key=lambda point: (device_of(point), _preference(point))):
        if point.skip is None:
            points.setdefault(device_of(point), []).append(point)
    return tuple(
        {
            "name": name,
            "device": dict(alike[0].config["device"]),
            "implementations": sorted({implementation_of(point) for point in alike})
            if number
            else runnable,
            "batches": _batches(alike),
        }
        for number, (name, alike) in enumerate(points.items())
    )


def _batches(points: list[GridPoint]) -> list[dict[str, Any]]:
    """The different settings of `points` on which the sizes of their batches depend."""
    models = [point.config["model"] for point in points]
    settings = [{name: model[name] for name in OF_BATCHES if name in model} for model in models]
    return [dict(each) for _, each in sorted({canonical(each): each for each in settings}.items())]
