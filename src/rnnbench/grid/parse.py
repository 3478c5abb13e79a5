"""Parses an experiment's grids and composes the choices that they name, with Hydra."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rnnbench.errors import ConfigError
from rnnbench.grid.catalogue import file_of, files_of
from rnnbench.grid.compose import compose_choices
from rnnbench.grid.experiment import Experiment
from rnnbench.grid.grammar import parse_overrides
from rnnbench.grid.library import ParsedGrids
from rnnbench.grid.point import GROUPS
from rnnbench.grid.setting import Setting


def parse_grids(
    experiment: Experiment, conf: Sequence[Path], overrides: Sequence[str]
) -> ParsedGrids:
    """Arguments as of `expand`."""
    files: dict[str, dict[str, Path]] = {}
    from_command_line = _parsed(overrides, "command line", conf, Path.cwd(), files)
    folder = experiment.file.parent
    written = [
        _parsed(grid, experiment.where(index), conf, folder, files)
        for index, grid in enumerate(experiment.grids)
    ]
    grids = [{**grid, **from_command_line} for grid in written]
    # A reference may be the default of a model that the command line has replaced.
    composed = [*grids, *written] if experiment.reference else grids
    library = compose_choices(conf, files, any("model" not in grid for grid in composed))
    return ParsedGrids(written, grids, library, files)


def _parsed(
    overrides: Sequence[str],
    where: str,
    conf: Sequence[Path],
    folder: Path,
    files: dict[str, dict[str, Path]],
) -> dict[str, Setting]:
    """Key → setting, with each choice replaced by its name. Adds the choices' files to `files`."""
    settings = parse_overrides(overrides, where, lambda group: list(files_of(conf, group)))
    for group in settings.keys() & set(GROUPS):
        setting = settings[group]
        if setting.mode:
            raise ConfigError(
                f"{setting.mode}{group} adds or deletes an axis; a grid point has each axis once.",
                where=where,
                remedy=f"write {group}=CHOICE.",
            )
        paths = [file_of(conf, group, _text(value), where, folder) for value in setting.values]
        for path in paths:
            if files.setdefault(group, {}).setdefault(path.stem, path) != path:
                raise ConfigError(
                    f"{group}={path} and {files[group][path.stem]} have the same name.",
                    where=where,
                    remedy="rename one of the two files.",
                )
        settings[group] = Setting(group, "", tuple(path.stem for path in paths), where)
    return settings


def _text(value: Any) -> str:
    return "null" if value is None else str(value)
