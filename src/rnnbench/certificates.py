"""Which certificates an experiment needs: one for each model × cell × build that has a recurrent
layer, over all the implementations its grid names. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rnnbench.cells.cell import Cell, name_of
from rnnbench.cells.identity import digest_of, identity_of
from rnnbench.cells.preflight import Preflight
from rnnbench.cells.requires import unmet
from rnnbench.worker_code import certifier_digest

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
    """One certificate to make. `implementations`: list of ``{"name", "rnn", "skip"}``, `skip`
    being None or why it cannot run here."""

    implementations: tuple[Mapping[str, Any], ...]


def certificates_of(
    cells: Iterable[Cell],
    dataset_md5: Callable[[Mapping[str, Any]], str | None],
    build_lock: Callable[[Mapping[str, Any]], Any],
) -> dict[str, Certificate]:
    """The certificates for `cells`, skipped ones among them, by key; none for the fake framework
    and for models without a recurrent layer.

    **Arguments:**

    - `dataset_md5`, `build_lock`: what a config's dataset and build are pinned to.
    """
    groups: dict[str, list[Cell]] = {}
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


def function_overrides(cell: Cell) -> dict[str, Any]:
    """The overrides of `cell` that make another function of its model."""
    return {
        key: value
        for key, value in cell.overrides.items()
        if key.removeprefix("~").partition(".")[0] in SECTIONS
        and not key.removeprefix("~").startswith(SAME_FUNCTION)
    }


def certifiable(cell: Cell) -> bool:
    """Whether there is something to certify."""
    recurrent = bool(cell.config["model"].get("recurrent"))
    return recurrent and cell.config["build"]["framework"] != "fake"


def key_of(cell: Cell) -> str:
    """The key of the certificate that covers `cell`."""
    axes = {axis: cell.choices[axis] for axis in (*AXES, "dataset") if axis in cell.choices}
    return name_of(axes, function_overrides(cell), 0, 0, None).removesuffix("-s0-r0")


def _preference(cell: Cell) -> tuple[Any, ...]:
    """The cell whose config a certificate is made with comes first: a GPU can run everything."""
    gpu = cell.config["device"]["kind"] == "gpu"
    return not gpu, len(cell.overrides), cell.seed, cell.repeat, cell.name


def _certificate(key, members, chosen, dataset_md5, build_lock) -> Certificate:
    config = {
        name: value for name, value in chosen.config.items() if name not in NOT_OF_THE_FUNCTION
    }
    sections: dict[str, Mapping[str, Any]] = {}
    for cell in sorted(members, key=_preference):
        sections.setdefault(cell.choices["rnn"], cell.config["rnn"])
    implementations = tuple(
        {"name": name, "rnn": dict(rnn), "skip": unmet({**chosen.config, "rnn": rnn})}
        for name, rnn in sorted(sections.items())
    )
    configs = [{**config, "rnn": entry["rnn"]} for entry in implementations if not entry["skip"]]
    identity = identity_of(
        {**config, **{f"rnn_{entry['name']}": entry["rnn"] for entry in implementations}},
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
    )
