"""Expands an experiment's grids into grid points."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rnnbench.errors import ConfigError
from rnnbench.grid.catalogue import display_path, files_of
from rnnbench.grid.config_check import check_complete, check_config
from rnnbench.grid.dotted_keys import MISSING
from rnnbench.grid.experiment import Experiment
from rnnbench.grid.functions import (
    FUNCTIONS,
    IMPLEMENTATION,
    absolute_file,
    absolute_function,
    with_absolute_functions,
)
from rnnbench.grid.library import Grid, Library
from rnnbench.grid.model_choice import check_function, check_model, check_optimizer
from rnnbench.grid.overrides import Change, apply_changes
from rnnbench.grid.parse_cache import StoredGrids
from rnnbench.grid.point import AXES, GROUPS, GridPoint, name_of
from rnnbench.grid.precision import unmet_precision
from rnnbench.grid.reference import check_reference
from rnnbench.grid.requirements import unmet
from rnnbench.grid.rnn_choice import check_implementation, check_rnn
from rnnbench.grid.rnn_options import check_options
from rnnbench.grid.setting import Setting, combinations

Constraints = Callable[[Mapping[str, Any]], str | None]
NUMBERS = ("seed", "repeat", "alias")


def expand(
    experiment: Experiment,
    conf: Sequence[Path],
    overrides: Sequence[str] = (),
    unmet_constraints: Constraints | None = None,
    stored: StoredGrids | None = None,
) -> tuple[GridPoint, ...]:
    """The grid points of `experiment`: the union over its grids, without duplicates.

    **Arguments:**

    - `conf`: the project's config folder, then any further ones.
    - `overrides`: the command line's; each replaces a grid's setting of the same key.
    - `unmet_constraints`: maps a config to the reason why it cannot run on this machine, or None.
    - `stored`: the parsed grids, if they may be stored.
    """
    if stored is None:
        from rnnbench.grid.parse import parse_grids  # imports Hydra

        parsed = parse_grids(experiment, conf, overrides)
    else:
        parsed = stored.parsed()
    library = checked(parsed.library, list(files_of(conf, "cell")))
    check_reference(experiment, parsed.written, library.defaults, library.model)
    return grid_points_of(parsed.grids, library, unmet_constraints)


def checked(library: Library, cells: Sequence[str]) -> Library:
    """`library` with the paths in its models and rnn choices made absolute. Raises a `ConfigError`
    if one of these choices or a file that it names is invalid. `cells`: the choices of ``cell``."""
    sections = dict(library.sections)
    for (group, choice), file in library.files.items():
        where = display_path(file)
        section = with_absolute_functions(sections[group, choice], file.parent, where)
        sections[group, choice] = section
        if group == "rnn":
            check_rnn(section, where, cells)
        else:
            check_model(section, where)
    return dataclasses.replace(library, sections=sections)


def grid_points_of(
    grids: Iterable[Grid], library: Library, unmet_constraints: Constraints | None = None
) -> tuple[GridPoint, ...]:
    """The grid points of parsed grids whose choices are in `library`. Reads no file."""
    points: dict[str, GridPoint] = {}
    sources = {key: display_path(file) for key, file in library.files.items()}
    for number, grid in enumerate(grids):
        for combination in combinations(grid):
            point = _grid_point(combination, library, unmet_constraints, number, sources)
            same_name = points.setdefault(point.name, point)
            if same_name is not point and same_name.settings() != point.settings():
                raise _name_clash(same_name, point, next(iter(grid.values())).where)
    return tuple(points.values())


def _grid_point(
    combination: Mapping[str, tuple[Setting, Any]],
    library: Library,
    unmet_constraints: Constraints | None,
    grid: int,
    sources: Mapping[tuple[str, str], str],
) -> GridPoint:
    named = {key: value for key, (_, value) in combination.items() if key in GROUPS}
    model = named.get("model", library.model)
    defaults = library.defaults[model]
    choices = {group: named.get(group, defaults[group]) for group in GROUPS}
    config: Mapping[str, Any] = {
        **{group: library.sections[group, choice] for group, choice in choices.items()},
        **library.base,
    }
    changes = [
        _change(key, setting, value, model, choices["rnn"], library)
        for key, (setting, value) in combination.items()
        if key not in GROUPS
    ]
    config, differing = apply_changes(config, changes)
    where = next((setting.where for setting, _ in combination.values()), "grid")
    overrides = {key: value for key, value in sorted(differing.items()) if key not in NUMBERS}
    named_choices = {axis: choices[axis] for axis in AXES}
    if choices["dataset"] != defaults["dataset"]:
        named_choices["dataset"] = choices["dataset"]
    text = repr(config)
    if "${" in text:
        from rnnbench.grid.interpolation import resolved  # imports OmegaConf

        config = resolved(config, where)
        text = repr(config)
    if MISSING in text:
        check_complete(config, where)
    written = {key: setting.where for key, (setting, _) in combination.items()}
    written |= {group: sources.get((group, choices[group]), where) for group in ("model", "rnn")}
    check_config(config, where, written)
    if any(key.startswith("model.optimizer") for key in combination):
        check_optimizer(config["model"]["optimizer"], where)
    seed, repeat, alias = config["seed"], config["repeat"], config["alias"]
    name = name_of(named_choices, overrides, seed, repeat, alias)
    skip = unmet(config) or unmet_precision(config)
    if not skip:
        check_options(config, overrides, library.sections["rnn", choices["rnn"]], where, name)
    return GridPoint(
        name=name,
        choices=named_choices,
        overrides=overrides,
        seed=seed,
        repeat=repeat,
        alias=alias,
        config=config,
        skip=skip or (unmet_constraints(config) if unmet_constraints else None),
        grid=grid,
    )


def _change(
    key: str, setting: Setting, value: Any, model: str, rnn: str, library: Library
) -> Change:
    if key in NUMBERS and setting.mode:
        raise ConfigError(
            f"{setting.mode}{key} adds or deletes a key that every grid point has.",
            where=setting.where,
            remedy=f"write {key}=VALUE.",
        )
    if key in ("seed", "repeat") and (type(value) is not int or value < 0):
        raise ConfigError(
            f"{key} is {value!r}; it must be an integer ≥ 0.",
            where=setting.where,
            remedy=f"write {key}=range(3) or {key}=0,1,2.",
        )
    if key == "alias" and value is not None:
        value = str(value)
    if key in FUNCTIONS:
        value = absolute_function(value, library.files["model", model].parent, setting.where)
        if value is not None:
            check_function(key, value, setting.where)
    if key == IMPLEMENTATION:
        value = absolute_file(value, library.files["rnn", rnn].parent, setting.where)
        check_implementation(value, setting.where)
    return Change(key, setting.mode, value, setting.where)


def _name_clash(first: GridPoint, second: GridPoint, where: str) -> ConfigError:
    settings = first.settings(), second.settings()
    only_first, only_second = (
        " ".join(f"{key}={value}" for key, value in point.items() if other.get(key, point) != value)
        for point, other in (settings, settings[::-1])
    )
    return ConfigError(
        f"two grid points have the name {first.name}: one with {only_first or 'nothing'}, "
        f"the other with {only_second or 'nothing'}.",
        where=where,
        remedy="give one of them an alias, in a separate grid: alias=NAME.",
    )
