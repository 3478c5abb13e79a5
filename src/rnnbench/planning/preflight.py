"""The certificates and probes that an experiment needs before its runs. No side effects.

There is one certificate per function, i.e. model × cell × build with the values that change it, for
all implementations, devices and sizes of batches of its grids, and one probe per device × build.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rnnbench.axes import CERTIFIED_AXES
from rnnbench.grid.point import GridPoint, canonical, digest_of, identity_of
from rnnbench.grid.requirements import unmet
from rnnbench.planning.digests import certifier_digest, prober_digest
from rnnbench.planning.plan import Certificate, Probe
from rnnbench.records.keys import (
    OF_BATCHES,
    PROBED_AXES,
    certificate_key,
    function_overrides,
    model_digest,
    probe_key,
    probed_overrides,
)
from rnnbench.records.overrides import label
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


# Implementations to build a model with. An unrolled layer has the same products, but takes minutes
# to build.
PREFERRED = ("keras", "none", "auto", "cell")


def probes_of(
    points: Iterable[GridPoint], build_lock: Callable[[Mapping[str, Any]], Any]
) -> dict[str, Probe]:
    """The probes for those of `points` that are not skipped, by key. The fake framework gets none,
    because it computes no products, and a device with replicas gets none, because a probe measures
    one of them. `build_lock`: maps a build section to its lock."""
    groups: dict[str, dict[str, list[GridPoint]]] = {}
    for point in points:
        replicated = replicas_of(point.config["device"]) > 1
        if point.skip is None and point.config["build"]["framework"] != "fake" and not replicated:
            key, digest = probe_key(point.choices, point.overrides), model_digest(point.config)
            groups.setdefault(key, {}).setdefault(digest, []).append(point)
    return {key: _probe(key, groups[key], build_lock) for key in sorted(groups)}


def _probe(key: str, groups: Mapping[str, list[GridPoint]], build_lock) -> Probe:
    chosen = {digest: min(groups[digest], key=_probe_preference) for digest in sorted(groups)}
    first = min(chosen.values(), key=_probe_preference)
    config: dict[str, Any] = {name: first.config[name] for name in PROBED_AXES}
    models: tuple[dict[str, Any], ...] = tuple(
        {
            "model": point.choices["model"],
            "cell": point.choices.get("cell", ""),
            "config": digest,
            "settings": _settings(point),
        }
        for digest, point in chosen.items()
    )
    identity = identity_of(
        {**config, "models": {model["config"]: model["settings"]["rnn"] for model in models}},
        None,
        build_lock(config["build"]),
        prober_digest([model["settings"] for model in models]),
    )
    return Probe(
        key=key,
        digest=digest_of(identity),
        identity=identity,
        choices={axis: first.choices[axis] for axis in PROBED_AXES},
        overrides=probed_overrides(first.overrides),
        config={**config, "limits": first.config.get("limits") or {}},
        models=models,
    )


def _settings(point: GridPoint) -> dict[str, Any]:
    omitted = ("limits", "measure", "alias", "repeat", "precision")
    return {name: value for name, value in point.config.items() if name not in omitted}


def _probe_preference(point: GridPoint) -> tuple[Any, ...]:
    """Sort key: the first grid point's config builds the model."""
    implementation = point.config["rnn"].get("implementation")
    known = implementation in PREFERRED
    return PREFERRED.index(implementation) if known else len(PREFERRED), point.seed, point.name
