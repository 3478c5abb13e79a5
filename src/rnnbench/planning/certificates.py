"""Which certificates an experiment needs: one for each model × cell × build, over all the
implementations and devices its grid names. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rnnbench.grid.identity import digest_of, identity_of
from rnnbench.grid.point import GridPoint, name_of
from rnnbench.grid.preflight import Preflight
from rnnbench.grid.requirements import unmet
from rnnbench.planning.code_digest import certifier_digest
from rnnbench.records.labels import label

AXES = ("model", "cell", "build")
SECTIONS = ("model", "cell", "build", "dataset", "precision")
# How long and on what a function is trained does not change it.
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


@dataclass(frozen=True)
class Certificate(Preflight):
    """One certificate to make, on the device of its `config`.

    - `implementations`: list of ``{"name", "rnn", "skip"}``: what the implementation is called (its
      rnn choice and the overrides of ``rnn``), its section, and None or why it cannot run there.
    - `device`: what the device of `config` is called.
    - `devices`: list of ``{"name", "device", "implementations"}``, the other devices with their
      sections and the names of the implementations that the grid has there: for these the steps
      that they apply are looked at.
    """

    implementations: tuple[Mapping[str, Any], ...]
    device: str
    devices: tuple[Mapping[str, Any], ...]


def certificates_of(
    cells: Iterable[GridPoint],
    dataset_md5: Callable[[Mapping[str, Any]], str | None],
    build_lock: Callable[[Mapping[str, Any]], Any],
) -> dict[str, Certificate]:
    """The certificates for `cells`, skipped ones among them, by key; none for the fake framework.

    **Arguments:**

    - `dataset_md5`, `build_lock`: what a config's dataset and build are pinned to.
    """
    groups: dict[str, list[GridPoint]] = {}
    for cell in cells:
        if certifiable(cell):
            groups.setdefault(key_of(cell), []).append(cell)
    made = {}
    for key, members in sorted(groups.items()):
        runnable = [cell for cell in members if cell.skip is None]
        if runnable:
            chosen = min(runnable, key=_preference)
            made[key] = _certificate(key, members, chosen, dataset_md5, build_lock)
    return made


def function_overrides(cell: GridPoint) -> dict[str, Any]:
    """The overrides of `cell` that make another function of its model."""
    return {
        key: value
        for key, value in cell.overrides.items()
        if key.removeprefix("~").partition(".")[0] in SECTIONS
        and not key.removeprefix("~").startswith(SAME_FUNCTION)
    }


def certifiable(cell: GridPoint) -> bool:
    """Whether there is something to certify: the fake framework computes nothing."""
    return cell.config["build"]["framework"] != "fake"


def implementation_of(cell: GridPoint) -> str:
    """What a certificate calls the implementation of `cell`."""
    return label(cell.choices["rnn"], cell.overrides, "rnn")


def device_of(cell: GridPoint) -> str:
    """What a certificate calls the device of `cell`."""
    return label(cell.choices["device"], cell.overrides, "device")


def key_of(cell: GridPoint) -> str:
    """The key of the certificate that covers `cell`."""
    axes = {axis: cell.choices[axis] for axis in (*AXES, "dataset") if axis in cell.choices}
    return name_of(axes, function_overrides(cell), 0, 0, None).removesuffix("-s0-r0")


def _preference(cell: GridPoint) -> tuple[Any, ...]:
    """The cell whose config a certificate is made with comes first: a GPU can run everything."""
    gpu = cell.config["device"]["kind"] == "gpu"
    return not gpu, len(cell.overrides), cell.seed, cell.repeat, cell.name


def _certificate(key, members, chosen, dataset_md5, build_lock) -> Certificate:
    config = {
        name: value for name, value in chosen.config.items() if name not in NOT_OF_THE_FUNCTION
    }
    sections: dict[str, Mapping[str, Any]] = {}
    for cell in sorted(members, key=_preference):
        sections.setdefault(implementation_of(cell), cell.config["rnn"])
    implementations = tuple(
        {"name": name, "rnn": dict(rnn), "skip": unmet({**chosen.config, "rnn": rnn})}
        for name, rnn in sorted(sections.items())
    )
    configs = [{**config, "rnn": entry["rnn"]} for entry in implementations if not entry["skip"]]
    others = _other_devices(members, chosen)
    identity = identity_of(
        {
            **config,
            **{f"rnn_{entry['name']}": entry["rnn"] for entry in implementations},
            **{f"device_{one['name']}": one["device"] for one in others},
            "devices": {
                device_of(chosen): None,
                **{one["name"]: list(one["implementations"]) for one in others},
            },
        },
        dataset_md5(config),
        build_lock(config["build"]),
        certifier_digest(configs),
    )
    return Certificate(
        key=key,
        digest=digest_of(identity),
        identity=identity,
        choices={axis: chosen.choices[axis] for axis in AXES},
        overrides=function_overrides(chosen),
        config={**config, "limits": chosen.config.get("limits") or {}},
        implementations=implementations,
        device=device_of(chosen),
        devices=others,
    )


def _other_devices(members: list[GridPoint], chosen: GridPoint) -> tuple[Mapping[str, Any], ...]:
    """The devices that cells can run on here, but for that of `chosen`."""
    sections: dict[str, Mapping[str, Any]] = {}
    names: dict[str, set[str]] = {}
    for cell in sorted(members, key=_preference):
        if cell.skip is None and device_of(cell) != device_of(chosen):
            sections.setdefault(device_of(cell), cell.config["device"])
            names.setdefault(device_of(cell), set()).add(implementation_of(cell))
    return tuple(
        {"name": name, "device": dict(sections[name]), "implementations": sorted(names[name])}
        for name in sorted(sections)
    )
