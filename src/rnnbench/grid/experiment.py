"""Loads experiments: ``conf/experiment/NAME.yaml``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rnnbench.axes import NAMES
from rnnbench.errors import ConfigError
from rnnbench.grid.catalogue import display_path, files_of, suggestion
from rnnbench.grid.grammar import split_overrides
from rnnbench.grid.repeats import Repeats, repeats_of
from rnnworker.options import PREFIX

KEYS = (
    *("title", "about", "grids", "reference", "grid_order", "order_seed", "probe", "repeats"),
    "lead",
)
LEADS = ("time", "kernels", "calls")
ORDERS = ("interleaved", "sequential")


@dataclass(frozen=True)
class Experiment:
    """A set of grids to measure, with the settings of the measurement and of its report.

    - `grids`: each a tuple of Hydra overrides.
    - `reference`: axis → the choice that speed-ups are relative to, or ``rnn.options.NAME`` → the
      value.
    - `order_seed`: seed of the order of measuring.
    - `probe`: whether the devices are probed first.
    - `repeats`: the stopping rule; None if the grids set the number of repeats.
    - `sequential` (``grid_order: sequential``): all blocks of the first grid come before those of
      the second.
    - `lead`: what the report leads with: ``time``, ``kernels`` or ``calls``.
    - `file`: the file that the experiment was read from.
    """

    name: str
    title: str
    about: str
    grids: tuple[tuple[str, ...], ...]
    reference: Mapping[str, str] = field(default_factory=dict)
    order_seed: int = 0
    probe: bool = True
    file: Path = Path("experiment.yaml")
    repeats: Repeats | None = None
    sequential: bool = False
    lead: str = LEADS[0]

    def where(self, grid: int) -> str:
        """The location of grid number `grid`, counted from 0, for errors."""
        return f'{display_path(self.file)}, grid "{" ".join(self.grids[grid])}"'


def load_experiment(name: str, conf: Sequence[Path]) -> Experiment:
    """Loads the experiment `name` from one of the config folders. Raises a `ConfigError` if it is
    unknown, has an unknown or invalid key, or has an empty grid."""
    known = files_of(conf, "experiment")
    if name not in known:
        raise ConfigError(
            f"experiment {name!r} is unknown.",
            where=", ".join(display_path(Path(folder) / "experiment") for folder in conf),
            remedy=f"{suggestion(name, known)}the experiments are {', '.join(known) or 'none'}.",
        )
    data = _read(known[name])
    where = display_path(known[name])
    repeats = repeats_of(data.get("repeats"), where)
    grids = _grids(data.get("grids"), where)
    return Experiment(
        name=name,
        title=str(data.get("title") or name),
        about=str(data.get("about") or ""),
        grids=_repeated(grids, repeats.most, where) if repeats else grids,
        reference=_reference(data.get("reference") or {}, where),
        order_seed=_order_seed(data.get("order_seed", 0), where),
        probe=_probe(data.get("probe", True), where),
        file=known[name],
        repeats=repeats,
        sequential=_one_of("grid_order", ORDERS, data, where) == ORDERS[1],
        lead=_one_of("lead", LEADS, data, where),
    )


def _read(file: Path) -> dict[str, Any]:
    try:
        data = OmegaConf.to_container(OmegaConf.load(file))
    except (
        yaml.YAMLError,
        OmegaConfBaseException,
        OSError,
        ValueError,
        RecursionError,
    ) as error:
        raise ConfigError(
            f"cannot be read: {error}.", where=display_path(file), remedy="correct the YAML."
        ) from None
    if not isinstance(data, dict):
        raise ConfigError(
            "is not a mapping.",
            where=display_path(file),
            remedy=f"give it the keys {', '.join(KEYS)}.",
        )
    for key in data:
        if key not in KEYS:
            raise ConfigError(
                f"unknown key {key!r}.",
                where=display_path(file),
                remedy=f"{suggestion(str(key), KEYS)}the keys are {', '.join(KEYS)}.",
            )
    return {str(key): value for key, value in data.items()}


def _grids(grids: Any, where: str) -> tuple[tuple[str, ...], ...]:
    if isinstance(grids, str):
        grids = [grids]
    if not isinstance(grids, list) or not grids:
        raise ConfigError(
            "grids is empty.",
            where=where,
            remedy='give it at least one grid, such as "model=digits_rnn rnn=keras,cell".',
        )
    return tuple(_grid(grid, index, where) for index, grid in enumerate(grids))


def _grid(grid: Any, index: int, where: str) -> tuple[str, ...]:
    parts = [grid] if isinstance(grid, str) else grid
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise ConfigError(
            f"grids[{index}] is {grid!r}.",
            where=where,
            remedy="write a string of overrides separated by spaces, or a list of overrides.",
        )
    overrides = tuple(override for part in parts for override in split_overrides(part))
    if not overrides:
        raise ConfigError(
            f"grids[{index}] is empty.", where=where, remedy="remove it or give it an override."
        )
    return overrides


def _repeated(grids: tuple[tuple[str, ...], ...], most: int, where: str):
    """The grids with the maximum number of repeats, `most`, added."""
    for grid in grids:
        if any(override.lstrip("+~").partition("=")[0] == "repeat" for override in grid):
            raise ConfigError(
                "both a grid (repeat=) and the key repeats set the number of repeats.",
                where=where,
                remedy="remove repeat= from the grid.",
            )
    return tuple((*grid, f"repeat=range({most})") for grid in grids)


def _reference(reference: Any, where: str) -> dict[str, str]:
    if not isinstance(reference, dict):
        raise ConfigError(f"reference is {reference!r}.", where=where, remedy="write {rnn: keras}.")
    for axis in reference:
        if axis not in NAMES and not str(axis).startswith(PREFIX):
            raise ConfigError(
                f"reference has the unknown axis {axis}.",
                where=where,
                remedy=f"{suggestion(str(axis), NAMES)}the axes are {', '.join(NAMES)}, and "
                f"{PREFIX}NAME.",
            )
    return {str(axis): str(choice) for axis, choice in reference.items()}


def _order_seed(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(f"order_seed is {value!r}.", where=where, remedy="write an integer.")
    return value


def _probe(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"probe is {value!r}.", where=where, remedy="write true or false.")
    return value


def _one_of(key: str, choices: Sequence[str], data: Mapping[str, Any], where: str) -> str:
    """The value of `key`, by default the first of the `choices`."""
    value = data.get(key, choices[0])
    if value not in choices:
        raise ConfigError(
            f"{key} is {value!r}.", where=where, remedy=f"write one of {', '.join(choices)}."
        )
    return str(value)
