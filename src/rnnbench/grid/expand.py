"""An experiment's grids → its cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rnnbench.errors import ConfigError
from rnnbench.grid.catalogue import file_of, files_of, shown
from rnnbench.grid.compose import Library, compose_choices, resolved
from rnnbench.grid.config_check import check_complete, check_config
from rnnbench.grid.dotted_keys import MISSING
from rnnbench.grid.experiment import Experiment
from rnnbench.grid.functions import FUNCTIONS, IMPLEMENTATION, absolute_file, absolute_function
from rnnbench.grid.grammar import Setting, combinations, parse_overrides
from rnnbench.grid.model_choice import check_function, check_model, check_optimizer
from rnnbench.grid.overrides import Change, apply_changes
from rnnbench.grid.point import AXES, GROUPS, GridPoint, name_of
from rnnbench.grid.precision import unmet_precision
from rnnbench.grid.reference import check_reference
from rnnbench.grid.requirements import unmet
from rnnbench.grid.rnn_choice import check_implementation, check_rnn
from rnnbench.grid.rnn_options import check_options

Grid = Mapping[str, Setting]
Constraints = Callable[[Mapping[str, Any]], str | None]
NUMBERS = ("seed", "repeat", "alias")


def expand(
    experiment: Experiment,
    conf: Sequence[Path],
    overrides: Sequence[str] = (),
    unmet_constraints: Constraints | None = None,
) -> tuple[GridPoint, ...]:
    """The cells of `experiment`, united over its grids, each once.

    **Arguments:**

    - `conf`: the project's config folder, then further ones.
    - `overrides`: of the command line; each replaces what a grid says about the same key.
    - `unmet_constraints`: why a config cannot run on this machine, or None.
    """
    files: dict[str, dict[str, Path]] = {}
    extra = _parsed(overrides, "command line", conf, Path.cwd(), files)
    folder = experiment.file.parent
    own = [
        _parsed(grid, experiment.where(index), conf, folder, files)
        for index, grid in enumerate(experiment.grids)
    ]
    grids = [{**grid, **extra} for grid in own]
    # A reference may be the default of a model that the command line has replaced.
    asked = [*grids, *own] if experiment.reference else grids
    library = compose_choices(conf, files, any("model" not in grid for grid in asked))
    cells = files_of(conf, "cell")
    for (group, choice), file in library.files.items():
        if group == "rnn":
            check_rnn(library.sections[group, choice], shown(file), list(cells))
        if group == "model":
            check_model(library.sections[group, choice], shown(file))
    check_reference(experiment, own, library.defaults, library.model)
    return cells_of(grids, library, unmet_constraints)


def cells_of(
    grids: Iterable[Grid], library: Library, unmet_constraints: Constraints | None = None
) -> tuple[GridPoint, ...]:
    """The cells of parsed grids whose choices are in `library`. Reads nothing."""
    cells: dict[str, GridPoint] = {}
    homes = {key: shown(file) for key, file in library.files.items()}
    for number, grid in enumerate(grids):
        for combination in combinations(grid):
            cell = _cell(combination, library, unmet_constraints, number, homes)
            other = cells.setdefault(cell.name, cell)
            if other is not cell and other.settings() != cell.settings():
                raise _one_name(other, cell, next(iter(grid.values())).where)
    return tuple(cells.values())


def _parsed(
    overrides: Sequence[str],
    where: str,
    conf: Sequence[Path],
    folder: Path,
    files: dict[str, dict[str, Path]],
) -> dict[str, Setting]:
    """Settings with each choice by its name; notes the choices' files in `files`."""
    settings = parse_overrides(overrides, where, lambda group: list(files_of(conf, group)))
    for group in settings.keys() & set(GROUPS):
        setting = settings[group]
        if setting.mode:
            raise ConfigError(
                f"{setting.mode}{group} adds or deletes an axis; a cell has each axis once.",
                where=where,
                remedy=f"write {group}=CHOICE.",
            )
        paths = [file_of(conf, group, _text(value), where, folder) for value in setting.values]
        for path in paths:
            if files.setdefault(group, {}).setdefault(path.stem, path) != path:
                raise ConfigError(
                    f"{group}={path} and {files[group][path.stem]} have one name.",
                    where=where,
                    remedy="rename one of the two files.",
                )
        settings[group] = Setting(group, "", tuple(path.stem for path in paths), where)
    return settings


def _text(value: Any) -> str:
    return "null" if value is None else str(value)


def _cell(
    combination: Mapping[str, tuple[Setting, Any]],
    library: Library,
    unmet_constraints: Constraints | None,
    grid: int,
    homes: Mapping[tuple[str, str], str],
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
    shown = {axis: choices[axis] for axis in AXES}
    if choices["dataset"] != defaults["dataset"]:
        shown["dataset"] = choices["dataset"]
    text = repr(config)
    if "${" in text:
        config = resolved(config, where)
        text = repr(config)
    if MISSING in text:
        check_complete(config, where)
    written = {key: setting.where for key, (setting, _) in combination.items()}
    written |= {group: homes.get((group, choices[group]), where) for group in ("model", "rnn")}
    check_config(config, where, written)
    if any(key.startswith("model.optimizer") for key in combination):
        check_optimizer(config["model"]["optimizer"], where)
    seed, repeat, alias = config["seed"], config["repeat"], config["alias"]
    name = name_of(shown, overrides, seed, repeat, alias)
    impossible = unmet(config) or unmet_precision(config)
    if not impossible:
        check_options(config, overrides, library.sections["rnn", choices["rnn"]], where, name)
    return GridPoint(
        name=name,
        choices=shown,
        overrides=overrides,
        seed=seed,
        repeat=repeat,
        alias=alias,
        config=config,
        skip=impossible or (unmet_constraints(config) if unmet_constraints else None),
        grid=grid,
    )


def _change(
    key: str, setting: Setting, value: Any, model: str, rnn: str, library: Library
) -> Change:
    if key in NUMBERS and setting.mode:
        raise ConfigError(
            f"{setting.mode}{key} adds or deletes what every cell has.",
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


def _one_name(one: GridPoint, other: GridPoint, where: str) -> ConfigError:
    first, second = (
        " ".join(f"{key}={value}" for key, value in mine.items() if theirs.get(key, mine) != value)
        for mine, theirs in (
            (one.settings(), other.settings()),
            (other.settings(), one.settings()),
        )
    )
    return ConfigError(
        f"two cells have the name {one.name}: one with {first or 'nothing'}, "
        f"one with {second or 'nothing'}.",
        where=where,
        remedy="give one of them an alias, in a grid of its own: alias=NAME.",
    )
