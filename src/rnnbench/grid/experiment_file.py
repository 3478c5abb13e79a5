"""Loads experiments: ``conf/experiment/NAME.yaml``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rnnbench.axes import NAMES
from rnnbench.errors import ConfigError
from rnnbench.grid.catalogue import display_path, files_of, suggestion
from rnnbench.grid.experiment import Experiment, Lead
from rnnbench.grid.grammar import split_overrides
from rnnbench.grid.repeats import Repeats
from rnnbench.plain_text import is_name
from rnnbench.validation import converted
from rnnworker.options import PREFIX


class ExperimentFile(msgspec.Struct, forbid_unknown_fields=True):
    """The content of an experiment's file; for the keys see `Experiment`."""

    title: str | None = None
    about: str | None = None
    grids: str | list[str | list[str]] = []
    reference: dict[str, str | int | float | bool] | None = None
    grid_order: Literal["interleaved", "sequential"] = "interleaved"
    order_seed: int = 0
    probe: bool = True
    repeats: Repeats | None = None
    lead: Lead = "time"


LONGEST = 100  # characters of a name
KEYS = ExperimentFile.__struct_fields__


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
    where = display_path(known[name])
    if not is_name(name) or len(name) > LONGEST:
        raise ConfigError(
            f"the experiment's name is {name[:60]!r}.",
            where=where,
            remedy=f"rename the file: letters, digits and _.+=@-, at most {LONGEST} characters.",
        )
    remedy = 'see docs/experiments.md, "Keys of an experiment".'
    data = converted(_read(known[name]), ExperimentFile, where, remedy)
    grids = _grids(data.grids, where)
    return Experiment(
        name=name,
        title=data.title or name,
        about=data.about or "",
        grids=_repeated(grids, data.repeats.most, where) if data.repeats else grids,
        reference=_reference(data.reference or {}, where),
        order_seed=data.order_seed,
        probe=data.probe,
        file=known[name],
        repeats=data.repeats,
        sequential=data.grid_order == "sequential",
        lead=data.lead,
    )


def _read(file: Path) -> Any:
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
    for key in data if isinstance(data, dict) else ():
        if key not in KEYS:
            raise ConfigError(
                f"unknown key {key!r}.",
                where=display_path(file),
                remedy=f"{suggestion(str(key), KEYS)}the keys are {', '.join(KEYS)}.",
            )
    return data


def _grids(grids: str | Sequence[str | Sequence[str]], where: str) -> tuple[tuple[str, ...], ...]:
    split = []
    for grid in [grids] if isinstance(grids, str) else grids:
        parts = [grid] if isinstance(grid, str) else grid
        split.append(tuple(override for part in parts for override in split_overrides(part)))
    if not split or not all(split):
        raise ConfigError(
            f"grids[{split.index(())}] is empty." if split else "grids is empty.",
            where=where,
            remedy='give it at least one grid, such as "model=digits_rnn rnn=keras,cell".',
        )
    return tuple(split)


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


def _reference(reference: Mapping[str, Any], where: str) -> dict[str, str]:
    for axis in reference:
        if axis not in NAMES and not axis.startswith(PREFIX):
            raise ConfigError(
                f"reference has the unknown axis {axis}.",
                where=where,
                remedy=f"{suggestion(axis, NAMES)}the axes are {', '.join(NAMES)}, and "
                f"{PREFIX}NAME.",
            )
    return {axis: str(choice) for axis, choice in reference.items()}
