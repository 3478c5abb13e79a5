"""Expands an experiment's grids into grid points.

A grid is a list of overrides, and each combination of their values is a grid point: the composed
sections of its choices (`compose`), changed by the other overrides (`apply`), valid (`checks`,
`keys`, `files`), with a name and perhaps a reason why it cannot run (`requirements`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rnnbench.axes import NAMES, REQUIRED
from rnnbench.errors import ConfigError, display_path, suggestion
from rnnbench.grid.apply import apply_settings
from rnnbench.grid.checks import check_config
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
from rnnbench.grid.keys import DESCRIPTIONS, check_model
from rnnbench.grid.overrides import (
    Config,
    Setting,
    combinations,
    nearest,
    parse_overrides,
)
from rnnbench.grid.point import GridPoint, name_of
from rnnbench.grid.requirements import check_options, unmet
from rnnbench.records.overrides import Overrides

Combination = Mapping[str, Setting]  # key → the setting with one of its values
Constraints = Callable[[Config], str | None]
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

    Raises a `ConfigError` if a grid, a choice or an override is invalid.
    """
    root = (root or Path(conf[0]).parent).resolve()
    files: dict[str, dict[str, Path]] = {}
    parsed = functools.partial(_parsed, conf=conf, files=files, root=root)
    from_command_line = parsed(overrides, "command line", Path.cwd())
    dataset = from_command_line.pop("dataset", None)
    scale = from_command_line.pop("scale", None)

    written = []
    for index, grid in enumerate(experiment.grids):
        where = experiment.where(index)
        written.append(parsed(grid, where, experiment.folder))
    _check_reference_stays(experiment.reference, from_command_line)
    if scale:
        _drop_sizes(scale, written)

    grids = [{**settings, **from_command_line} for settings in written]
    composed = list(grids)
    if experiment.reference:
        # A reference may be the default of a model that the command line has replaced.
        composed += written

    needs_default_model = any("model" not in settings for settings in composed)
    library = compose_choices(conf, files, needs_default_model)
    check_reference(
        experiment,
        written,
        library.defaults,
        library.model,
    )
    return grid_points_of(
        grids,
        library,
        unmet_constraints,
        dataset,
    )


def _drop_sizes(scale: Setting, grids: Iterable[dict[str, Setting]]) -> None:
    """Drops the `SIZES` of the grids, as the command line's ``scale=published`` says. Raises a
    `ConfigError` if `scale` says anything else."""
    if scale.mode or scale.values != ("published",):
        values = ",".join(map(str, scale.values))
        raise scale.error(
            f"scale is {scale.mode}{values}.",
            "write scale=published, or leave it out for the sizes of the grids.",
        )

    for settings in grids:
        for key in SIZES & settings.keys():
            # A reference to another key, such as ${model.batch}, is not a size.
            if not is_open(settings[key].values):
                del settings[key]


def _check_reference_stays(
    reference: Mapping[str, str], from_command_line: Mapping[str, Setting]
) -> None:
    """Raises a `ConfigError` if the command line names several choices of an axis, but not the one
    that is the `reference`. A single choice is measured without a reference."""
    for axis, choice in reference.items():
        if axis not in from_command_line:
            continue
        setting = from_command_line[axis]
        texts = list(map(str, setting.values))
        if len(texts) > 1 and choice not in texts:
            some = ",".join(texts)
            raise setting.error(
                f"{axis}={some} leaves out the reference, {axis}={choice}.",
                f"write {setting.written}={choice},{some}, or a single choice.",
            )


def grid_points_of(
    grids: Iterable[Mapping[str, Setting]],
    library: Library,
    unmet_constraints: Constraints | None = None,
    dataset: Setting | None = None,
) -> tuple[GridPoint, ...]:
    """The grid points of parsed grids whose choices are in `library`. Reads no file but the Python
    files that the choices name.

    - `unmet_constraints`: as for `expand`.
    - `dataset`: the command line's override of the data sets.

    Raises a `ConfigError` if two different grid points have the same name or the same texts, or if
    `dataset` replaces no data set.
    """
    points: dict[str, GridPoint] = {}
    with_texts: dict[Overrides, GridPoint] = {}
    for number, grid in enumerate(grids):
        for written in combinations(grid):
            for combination in _with_datasets(written, dataset, library):
                point = _grid_point(
                    combination,
                    library,
                    unmet_constraints,
                    number,
                )
                settings = point.settings()
                same_name = points.setdefault(point.name, point)
                if same_name.settings() != settings:
                    what = f"two grid points have the name {point.name}"
                    raise _clash(what, same_name, point)

                # Tables and pages have the settings as text.
                same_texts = with_texts.setdefault(Overrides.of(settings), point)
                if same_texts.name != point.name:
                    what = "a page could not tell two grid points apart"
                    raise _clash(what, same_texts, point)

    used = {str(point.config["dataset"]["name"]) for point in points.values()}
    if dataset and used.isdisjoint(dataset.values):
        replaced = {_replaced_by(value, library) or "" for value in dataset.values}
        some = ", ".join(sorted(replaced))
        here = ", ".join(sorted(used))
        raise dataset.error(
            f"dataset={','.join(dataset.values)} replaces only {some}; "
            f"the data sets here are {here}.",
            "remove it from the overrides.",
        )

    return tuple(points.values())


def _with_datasets(
    combination: Combination, dataset: Setting | None, library: Library
) -> list[Combination]:
    """The `combination` with every value of the override `dataset` that may replace its own data
    set; the `combination` alone if none may."""
    if dataset is None:
        return [combination]
    own = _choices_of(combination, library)["dataset"]
    replacing: list[Combination] = []
    for value in dataset.values:
        replaced = _replaced_by(value, library)
        if value == own or replaced in (None, own):
            setting = dataset._replace(values=(value,))
            replacing.append({**combination, "dataset": setting})

    return replacing or [combination]


def _replaced_by(choice: str, library: Library) -> str | None:
    """The only data set that `choice` replaces; None if it replaces every one."""
    return library.sections["dataset", choice].get("replaces")


def _parsed(
    overrides: Sequence[str],
    where: str,
    folder: Path,
    conf: Sequence[Path],
    files: dict[str, dict[str, Path]],
    root: Path,
) -> dict[str, Setting]:
    """Key → setting, with each choice replaced by its name.

    - `where`: the location of the `overrides`, for errors.
    - `folder`: to which their paths are relative.
    - `files`: axis → choice → its file; those of the overrides are added.
    """
    settings = parse_overrides(overrides, where, lambda group: list(files_of(conf, group)))
    for key, setting in settings.items():
        _check_setting(setting)
        values = []
        if key == DATA:
            for text in setting.values:
                path = data_path(
                    text,
                    folder,
                    root,
                    where,
                )
                values.append(path)
        elif key in NAMES:
            known = files_of(conf, key)
            of_group = files.setdefault(key, {})
            for value in setting.values:
                text = "null" if value is None else str(value)
                file = file_of(
                    known,
                    key,
                    text,
                    where,
                    folder,
                )
                name = name_of_choice(file)
                if of_group.setdefault(name, file) != file:
                    raise setting.error(
                        f"{key}={file} and {of_group[name]} have the same name.",
                        "rename one of the two files.",
                    )

                values.append(name)
        else:
            continue

        settings[key] = setting._replace(values=tuple(values))

    return settings


def _check_setting(setting: Setting) -> None:
    """Raises a `ConfigError` if no override may have this key, prefix or value."""
    key = setting.key
    if setting.mode and key in NAMES:
        raise setting.error(
            f"{setting.written} adds or deletes an axis; a grid point has each axis once.",
            f"write {key}=CHOICE.",
        )

    if setting.mode and key in NUMBERS:
        raise setting.error(
            f"{setting.written} adds or deletes a key that every grid point has.",
            f"write {key}=VALUE.",
        )

    axis, _, last = key.partition(".")
    if axis in NAMES and last == "name":
        raise setting.error(
            f"{setting.written} is another name for the choice, which its file names.",
            f"write {axis}=CHOICE.",
        )

    if axis in NAMES and last in DESCRIPTIONS:
        raise setting.error(
            f"{setting.written} only describes a choice, so that an override has no effect.",
            f"change {last} in the file of the choice.",
        )

    for value in setting.values:
        if key == "alias" and isinstance(value, list | dict):
            raise setting.error(f"alias is {value!r}; it must be a text.", "write alias=NAME.")
        is_count = type(value) is int and value >= 0
        if key in ("seed", "repeat") and not is_count:
            raise setting.error(
                f"{key} is {value!r}; it must be an integer ≥ 0.",
                f"write {key}=range(3) or {key}=0,1,2.",
            )


def _choices_of(combination: Combination, library: Library) -> dict[str, str]:
    """Axis → the choice that `combination` names, or the default of its model."""
    named = {axis: combination[axis].value for axis in NAMES if axis in combination}
    model = named.get("model", library.model)
    return {**library.defaults[model], **named}


def _grid_point(
    combination: Combination,
    library: Library,
    unmet_constraints: Constraints | None,
    grid: int,
) -> GridPoint:
    """The grid point of a `combination` of grid number `grid`. Raises a `ConfigError` if its config
    is invalid."""
    choices = _choices_of(combination, library)
    sources = {key: setting.where for key, setting in combination.items()}
    where = next(iter(sources.values()), "grid")
    files = {axis: library.files[axis, choice] for axis, choice in choices.items()}
    shown = {axis: display_path(files[axis]) for axis in ("model", "rnn")}

    config, differing = _configured(
        combination,
        choices,
        library,
        where,
        shown,
    )

    located = {**sources, **shown}
    source_of = functools.partial(nearest, located, default=where)
    written = {key: setting.written for key, setting in combination.items()}
    check_config(config, source_of, written)
    _check_cells(config["rnn"].get("cells"), library.cells, source_of("rnn.cells"))
    check_model(config, source_of)
    check_own_code(config, source_of)

    defaults = library.defaults[choices["model"]]
    named = {}
    for axis, choice in choices.items():
        if axis in REQUIRED or choice != defaults[axis]:
            named[axis] = choice
    overrides = {key: differing[key] for key in sorted(differing) if key not in NUMBERS}
    numbers = {key: config[key] for key in NUMBERS}
    name = name_of(named, overrides, **numbers)

    skip = unmet(config, shown)
    if not skip:
        rnn = library.sections["rnn", choices["rnn"]]
        check_options(config, rnn, f"{where}, grid point {name}")
        if unmet_constraints:
            skip = unmet_constraints(config)
    return GridPoint(
        name=name,
        choices=named,
        overrides=overrides,
        config=config,
        skip=skip,
        grid=grid,
        sources=sources,
        files=files,
        **numbers,
    )


def _check_cells(cells: Sequence[str] | None, known: Sequence[str], where: str) -> None:
    """Raises a `ConfigError` if an rnn choice supports a cell that is not among the `known`."""
    for cell in cells or ():
        if cell not in known:
            raise ConfigError(
                f"rnn.cells has the unknown name {cell!r}.",
                where=where,
                remedy=f"{suggestion(cell, known)}the names are {', '.join(known)}.",
            )


def _configured(
    combination: Combination,
    choices: Mapping[str, str],
    library: Library,
    where: str,
    shown: Mapping[str, str],
) -> tuple[Config, dict[str, Any]]:
    """The config of `choices` with the other settings of `combination`, and the values in which it
    differs from the choices: dotted key → value, ``~key`` for a deleted key. `shown`: axis → the
    file of its choice, for errors."""
    if DATA in combination:
        dataset = choices["dataset"]
        if library.sections["dataset", dataset].get("path") != "???":
            raise combination[DATA].error(
                f"{DATA} belongs to dataset=file; the data set is {dataset}.",
                "add dataset=file.",
            )

    unchanged = {axis: library.sections[axis, choice] for axis, choice in choices.items()}
    unchanged |= library.base
    has_open = library.open_choices & choices.items()

    settings = []
    try:
        for key, setting in combination.items():
            if key in NAMES:
                continue
            value = setting.value
            if key in FUNCTIONS or key == IMPLEMENTATION:
                # A path of a Python file is relative to the file of the choice.
                axis, _, _ = key.partition(".")
                folder = library.files[axis, choices[axis]].parent
                value = absolute(value, folder, setting.where)
            elif key == "alias" and value is not None:
                value = str(value)

            settings.append(setting._replace(values=(value,)))
        config, differing = apply_settings(unchanged, settings)
    except ConfigError:
        # A choice's file that is wrong by itself is to blame, not what changes one of its keys.
        if not has_open:
            check_config(unchanged, functools.partial(nearest, shown, default=where))
        raise

    if has_open or is_open(differing):
        config = resolved(config, where)
    return config, differing


def _clash(what: str, first: GridPoint, second: GridPoint) -> ConfigError:
    """The error that `what` is wrong with two grid points, with the settings that differ."""
    of_first = [f"{key}={value!r}" for key, value in first.settings().items()]
    of_second = [f"{key}={value!r}" for key, value in second.settings().items()]
    only_first = [text for text in of_first if text not in of_second]
    only_second = [text for text in of_second if text not in of_first]
    return ConfigError(
        f"{what}: one with {' '.join(only_first) or 'nothing'}, "
        f"the other with {' '.join(only_second) or 'nothing'}.",
        where=next(iter(second.sources.values()), "grid"),
        remedy="give one of them an alias, in a separate grid: alias=NAME.",
    )
