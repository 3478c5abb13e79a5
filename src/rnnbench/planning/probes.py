"""Determines the probes that an experiment needs: one per device × build that it runs on. No side
effects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rnnbench.grid.identity import digest_of, identity_of
from rnnbench.grid.point import GridPoint
from rnnbench.planning.code_digest import prober_digest
from rnnbench.planning.plan import Probe
from rnnbench.records.probe_match import SECTIONS, model_digest, probe_key, probed_overrides
from rnnworker.cards import replicas_of

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
    chosen = {digest: min(groups[digest], key=_preference) for digest in sorted(groups)}
    first = min(chosen.values(), key=_preference)
    config: dict[str, Any] = {name: first.config[name] for name in SECTIONS}
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
        choices={axis: first.choices[axis] for axis in SECTIONS},
        overrides=probed_overrides(first.overrides),
        config={**config, "limits": first.config.get("limits") or {}},
        models=models,
    )


def _settings(point: GridPoint) -> dict[str, Any]:
    omitted = ("limits", "measure", "alias", "repeat", "precision")
    return {name: value for name, value in point.config.items() if name not in omitted}


def _preference(point: GridPoint) -> tuple[Any, ...]:
    """Sort key: the first grid point's config builds the model."""
    implementation = point.config["rnn"].get("implementation")
    known = implementation in PREFERRED
    return PREFERRED.index(implementation) if known else len(PREFERRED), point.seed, point.name
