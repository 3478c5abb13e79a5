"""Which probes an experiment needs: one for each device × build that it runs on. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rnnbench.grid.identity import digest_of, identity_of
from rnnbench.grid.point import GridPoint
from rnnbench.grid.preflight import Preflight
from rnnbench.planning.code_digest import prober_digest
from rnnbench.records.probe_match import SECTIONS, model_digest, probe_key, probed_overrides

# An unrolled layer has the same products and takes minutes to build.
PREFERRED = ("keras", "none", "auto", "cell")


@dataclass(frozen=True)
class Probe(Preflight):
    """One probe to make. `config`: of a run on this device and build. `models`: list of
    ``{"model", "cell", "config", "settings"}``: what a run's model is called, the digest of it,
    and a run's config that builds it."""

    models: tuple[Mapping[str, Any], ...]


def probes_of(
    cells: Iterable[GridPoint], build_lock: Callable[[Mapping[str, Any]], Any]
) -> dict[str, Probe]:
    """The probes for those of `cells` that are not skipped, by key; none for the fake framework,
    which multiplies nothing. `build_lock`: what a config's build is pinned to."""
    digests: dict[tuple[int, int], str] = {}
    groups: dict[str, dict[str, list[GridPoint]]] = {}
    for cell in cells:
        if cell.skip is None and cell.config["build"]["framework"] != "fake":
            # Cells share the sections of their configs, and there are thousands of cells.
            parts = id(cell.config["model"]), id(cell.config["cell"])
            if parts not in digests:
                digests[parts] = model_digest(cell.config)
            key = probe_key(cell.choices, cell.overrides)
            groups.setdefault(key, {}).setdefault(digests[parts], []).append(cell)
    return {key: _probe(key, groups[key], build_lock) for key in sorted(groups)}


def _probe(key: str, groups: Mapping[str, list[GridPoint]], build_lock) -> Probe:
    chosen = {digest: min(cells, key=_preference) for digest, cells in groups.items()}
    first = min(chosen.values(), key=_preference)
    config: dict[str, Any] = {name: first.config[name] for name in SECTIONS}
    settings = [_settings(chosen[digest]) for digest in sorted(chosen)]
    models: tuple[dict[str, Any], ...] = tuple(
        {
            "model": chosen[digest].choices["model"],
            "cell": chosen[digest].choices.get("cell", ""),
            "config": digest,
            "settings": one,
        }
        for digest, one in zip(sorted(chosen), settings, strict=True)
    )
    identity = identity_of(
        {**config, "models": {one["config"]: one["settings"]["rnn"] for one in models}},
        None,
        build_lock(config["build"]),
        prober_digest(settings),
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


def _settings(cell: GridPoint) -> dict[str, Any]:
    left_out = ("limits", "measure", "alias", "repeat", "precision")
    return {name: value for name, value in cell.config.items() if name not in left_out}


def _preference(cell: GridPoint) -> tuple[Any, ...]:
    """The cell that a model is built with comes first."""
    implementation = cell.config["rnn"].get("implementation")
    known = implementation in PREFERRED
    return PREFERRED.index(implementation) if known else len(PREFERRED), cell.seed, cell.name
