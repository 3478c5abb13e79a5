"""Expands an experiment's grids into grid points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rnnbench.axes import NAMES, REQUIRED
from rnnbench.errors import ConfigError, display_path, suggestion
from rnnbench.grid.choices import check_config
from rnnbench.grid.compose import Library, compose_choices, is_open, resolved
from rnnbench.grid.experiment import Experiment, check_reference
from rnnbench.grid.files import (
    DATA,
    FUNCTIONS,
    IMPLEMENTATION,
    absolute,
    check_own_code,
    data_path,
    file_of,
    files_of,
    name_of_choice,
)
from rnnbench.grid.keys import DESCRIPTIONS, RULES, check_model
from rnnbench.grid.overrides import Setting, apply_settings, combinations, parse_overrides
from rnnbench.grid.point import GridPoint, name_of
from rnnbench.grid.requirements import check_options, unmet

Grid = Mapping[str, Setting]
Combination = Mapping[str, Setting]  # key → the setting with one of its values
Constraints = Callable[[Mapping[str, Any]], str | None]
NUMBERS = ("seed", "repeat", "alias")
# What `scale=published` leaves to the models' files, which have the published sizes.
SIZES = {f"model.{key}" for key in ("epochs", "train_samples", "val_samples", "bigrams")}


def expand(
    experiment: Experiment,
    conf: Sequence[Path],
    overrides: Sequence[str] = (),
    unmet_constraints: Constraints | None = None,
    root: Path | None = None,
) -> tuple[GridPoint, ...]:
    """The grid points of `experiment`: the union over its grids, without duplicates.

    **Arguments:**

    - `conf`: the project's config folder, then any further ones.
    - `overrides`: the command line's; each replaces a grid's setting of the same key, and
      ``dataset`` only the data set that its choice's file names as ``replaces``, if it names one.
      ``scale=published`` drops the `SIZES` of all grids.
    - `unmet_constraints`: maps a config to the reason why it cannot run on this machine, or None.
    - `root`: the project's folder, to which paths of data are relative; default: that of the first
      config folder.
    """
    files: dict[str, dict[str, Path]] = {}
    root = (root or Path(conf[0]).parent).resolve()
    from_command_line = _parsed(overrides, "command line", conf, Path.cwd(), files, root)
    dataset = from_command_line.pop("dataset", None)
    scale = from_command_line.pop("scale", None)
    if scale and (scale.mode, scale.values) != ("", ("published",)):
        what = f"scale is {scale.mode}{','.join(map(str, scale.values))}."
        raise scale.error(
            what, "write scale=published, or leave it out for the sizes of the grids."
        )
    folder = experiment.folder
    written = [
        _parsed(grid, experiment.where(index), conf, folder, files, root)
        for index, grid in enumerate(experiment.grids)
    ]
    for axis, choice in experiment.reference.items():
        setting = from_command_line.get(axis)
        texts = [str(value) for value in setting.values] if setting else []
        if setting and len(texts) > 1 and choice not in texts:
            some = ",".join(texts)
            what = f"{axis}={some} leaves out the reference, {axis}={choice}."
            remedy = f"write {setting.written}={choice},{some}, or a single choice."
            raise setting.error(what, remedy)
    if scale:
        written = [
            # A reference to another key, such as ${model.batch}, is no size.
            {key: each for key, each in grid.items() if key not in SIZES or is_open(each.values)}
            for grid in written
        ]
    grids = [{**grid, **from_command_line} for grid in written]
    # A reference may be the default of a model that the command line has replaced.
    composed = [*grids, *written] if experiment.reference else grids
    library = compose_choices(conf, files, any("model" not in grid for grid in composed))
    _check_cells(library, files_of(conf, "cell"))
    check_reference(experiment, written, library.defaults, library.model)
    return grid_points_of(grids, library, unmet_constraints, dataset)


def _check_cells(library: Library, known: Mapping[str, Path]) -> None:
    """Raises a `ConfigError` if the file of an rnn choice names a cell that is not `known`."""
    for (group, choice), file in library.files.items():
        named = library.sections[group, choice].get("cells") if group == "rnn" else None
        for cell in named if isinstance(named, list) else ():
            if cell not in known:
                what = f"cells has the unknown name {cell!r}."
                remedy = f"{suggestion(str(cell), known)}the names are {', '.join(known)}."
                raise ConfigError(what, where=display_path(file), remedy=remedy)


def grid_points_of(
    grids: Iterable[Grid],
    library: Library,
    unmet_constraints: Constraints | None = None,
    dataset: Setting | None = None,
) -> tuple[GridPoint, ...]:
    """The grid points of parsed grids whose choices are in `library`. Reads no file. `dataset`: the
    command line's override of the data sets."""
    points: dict[str, GridPoint] = {}
    with_texts: dict[tuple[tuple[str, str], ...], GridPoint] = {}
    sources = {key: display_path(file) for key, file in library.files.items()}
    for number, grid in enumerate(grids):
        each = combinations(grid)
        for combination in _with_datasets(each, dataset, library) if dataset else each:
            point = _grid_point(combination, library, unmet_constraints, number, sources)
            same_name = points.setdefault(point.name, point)
            if same_name is not point and same_name.settings() != point.settings():
                what = f"two grid points have the name {point.name}"
                raise _clash(what, same_name, point, next(iter(grid.values())).where)
            same_texts = with_texts.setdefault(point.texts(), point)
            if same_texts.name != point.name:
                what = "a page could not tell two grid points apart"
                raise _clash(what, same_texts, point, next(iter(grid.values())).where)
    used = {str(point.config["dataset"]["name"]) for point in points.values()}
    if dataset and used.isdisjoint(dataset.values):
        replaced = sorted({_replaced_by(value, library) or "" for value in dataset.values})
        raise ConfigError(
            f"dataset={','.join(dataset.values)} replaces only {', '.join(replaced)}; "
            f"the data sets here are {', '.join(sorted(used))}.",
            where=dataset.where,
            remedy="remove it from the overrides.",
        )
    return tuple(points.values())


def _with_datasets(
    combinations: Iterable[Combination], dataset: Setting, library: Library
) -> Iterator[Combination]:
    """Each of `combinations` with every value of the override `dataset` that may replace its own
    data set; unchanged if none may."""
    for combination in combinations:
        model = combination["model"].value if "model" in combination else library.model
        own = library.defaults[model]["dataset"]
        if "dataset" in combination:
            own = combination["dataset"].value
        fitting: list[Combination] = [
            {**combination, "dataset": dataset._replace(values=(value,))}
            for value in dataset.values
            if value == own or _replaced_by(value, library) in (None, own)
        ]
        yield from fitting or [combination]


def _replaced_by(choice: str, library: Library) -> str | None:
    """The only data set that `choice` replaces; None if it replaces every one."""
    return library.sections["dataset", choice].get("replaces")


def _parsed(
    overrides: Sequence[str],
    where: str,
    conf: Sequence[Path],
    folder: Path,
    files: dict[str, dict[str, Path]],
    root: Path,
) -> dict[str, Setting]:
    """Key → setting, with each choice replaced by its name. Adds the choices' files to `files`.
    Relative paths are relative to `folder`."""
    settings = parse_overrides(overrides, where, lambda group: list(files_of(conf, group)))
    for key, setting in settings.items():
        _check_setting(setting)
        if key == DATA:
            own = (data_path(each, folder, root, where) for each in setting.values)
            settings[key] = setting._replace(values=tuple(own))
        if key not in NAMES:
            continue
        known = files_of(conf, key)
        texts = ["null" if value is None else str(value) for value in setting.values]
        paths = [file_of(known, key, text, where, folder) for text in texts]
        names = tuple(map(name_of_choice, paths))
        for name, path in zip(names, paths, strict=True):
            if files.setdefault(key, {}).setdefault(name, path) != path:
                what = f"{key}={path} and {files[key][name]} have the same name."
                raise setting.error(what, "rename one of the two files.")
        settings[key] = setting._replace(values=names)
    return settings


def _check_setting(setting: Setting) -> None:
    key, mode, values, _ = setting
    if mode and key in NAMES:
        what = f"{mode}{key} adds or deletes an axis; a grid point has each axis once."
        raise setting.error(what, f"write {key}=CHOICE.")
    if mode and key in NUMBERS:
        raise setting.error(
            f"{mode}{key} adds or deletes a key that every grid point has.", f"write {key}=VALUE."
        )
    axis, _, last = key.partition(".")
    if axis in NAMES and last == "name":
        what = f"{setting.written} is another name for the choice, which its file names."
        raise setting.error(what, f"write {axis}=CHOICE.")
    if axis in NAMES and last in DESCRIPTIONS:
        what = f"{setting.written} only describes a choice, so that an override has no effect."
        raise setting.error(what, f"change {last} in the file of the choice.")
    for value in values if key in ("seed", "repeat") else ():
        if type(value) is not int or value < 0:
            what = f"{key} is {value!r}; it must be an integer ≥ 0."
            raise setting.error(what, f"write {key}=range(3) or {key}=0,1,2.")
    for value in values if key == "alias" else ():
        if isinstance(value, list | dict):
            raise setting.error(f"alias is {value!r}; it must be a text.", "write alias=NAME.")


def _grid_point(
    combination: Combination,
    library: Library,
    unmet_constraints: Constraints | None,
    grid: int,
    sources: Mapping[tuple[str, str], str],
) -> GridPoint:
    named = {key: setting.value for key, setting in combination.items() if key in NAMES}
    defaults = library.defaults[named.get("model", library.model)]
    choices = {group: named.get(group, defaults[group]) for group in NAMES}
    folders = {group: library.files[group, choices[group]].parent for group in ("model", "rnn")}
    sections = {group: library.sections[group, choice] for group, choice in choices.items()}
    where = next((setting.where for setting in combination.values()), "grid")
    if DATA in combination and sections["dataset"].get("path") != "???":
        what = f"{DATA} belongs to dataset=file; the data set is {choices['dataset']}."
        raise combination[DATA].error(what, "add dataset=file.")
    unchanged, has_open = {**sections, **library.base}, library.open_choices & choices.items()
    try:
        config, differing = apply_settings(
            unchanged,
            [_adjusted(each, folders) for each in combination.values() if each.key not in NAMES],
            RULES,
        )
    except ConfigError:
        # A choice's file that is wrong by itself is to blame, not what changes one of its keys.
        files = {group: sources.get((group, choices[group])) for group in folders}
        if not has_open:
            check_config(unchanged, lambda key: files.get(key.partition(".")[0]) or where)
        raise
    if has_open or is_open(differing):
        config = resolved(config, where)
    written = {key: setting.where for key, setting in combination.items()}
    located = written | {group: sources.get((group, choices[group]), where) for group in folders}

    def source_of(key: str) -> str:
        return located.get(key) or located.get(key.partition(".")[0]) or where

    check_config(config, source_of, {key: each.written for key, each in combination.items()})
    check_model(config, source_of)
    check_own_code(config, source_of)
    named = {axis: c for axis, c in choices.items() if axis in REQUIRED or c != defaults[axis]}
    overrides = {key: value for key, value in sorted(differing.items()) if key not in NUMBERS}
    numbers = {key: config[key] for key in NUMBERS}
    name = name_of(named, overrides, **numbers)
    skip = unmet(config, {group: sources.get((group, choices[group])) for group in folders})
    if not skip:
        check_options(config, sections["rnn"], f"{where}, grid point {name}")
        skip = unmet_constraints(config) if unmet_constraints else None
    return GridPoint(
        name=name, choices=named, overrides=overrides, config=config, skip=skip, grid=grid,
        sources=written, files={axis: library.files[axis, choices[axis]] for axis in NAMES},
        **numbers,
    )  # fmt: skip


def _adjusted(setting: Setting, folders: Mapping[str, Path]) -> Setting:
    """`setting` with a path of a Python file made absolute, and with a text as alias."""
    value = setting.value
    if setting.key in FUNCTIONS or setting.key == IMPLEMENTATION:
        value = absolute(value, folders[setting.key.partition(".")[0]], setting.where)
    elif setting.key == "alias" and value is not None:
        value = str(value)
    return setting._replace(values=(value,))


def _clash(what: str, first: GridPoint, second: GridPoint, where: str) -> ConfigError:
    """The error that `what` is wrong with two grid points, with the settings that differ."""
    of_first = first.settings()
    of_second = second.settings()
    only_first = []
    only_second = []
    for key in {**of_first, **of_second}:
        if repr(of_first.get(key)) != repr(of_second.get(key)):
            only_first += [f"{key}={of_first[key]!r}"] if key in of_first else []
            only_second += [f"{key}={of_second[key]!r}"] if key in of_second else []
    return ConfigError(
        f"{what}: one with {' '.join(only_first) or 'nothing'}, "
        f"the other with {' '.join(only_second) or 'nothing'}.",
        where=where,
        remedy="give one of them an alias, in a separate grid: alias=NAME.",
    )
