"""A project's folder, and where it finds what is rnnbench's own.

A project is a checkout of rnnbench, or the folder of a workflow that has rnnbench as a module. The
latter has its own choices and experiments in folders that ``config/config.yaml`` names, and uses
rnnbench's ``conf/``, ``data.dvc``, lock files and published rows from where rnnbench is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import yaml

from rnnbench.errors import ConfigError, converted, display_path

SOURCE = Path(__file__).resolve().parents[2]
SETTINGS = Path("config/config.yaml")
# One of them makes a folder a project.
MARKS = ("conf/config.yaml", "workflow/Snakefile", "Snakefile")


def is_project(root: Path) -> bool:
    """Whether `root` is the folder of a project."""
    return any((root / mark).is_file() for mark in MARKS)


def check_project(root: Path) -> None:
    """Raises `ConfigError` unless `root` is the folder of a project."""
    if not is_project(root):
        what = f"is not a project: there is no {', '.join(MARKS[:-1])} or {MARKS[-1]} here."
        remedy = "change into the project's folder and run the command there."
        raise ConfigError(what, where=str(root.resolve()), remedy=remedy)


def home(root: Path) -> Path:
    """The folder with rnnbench's own ``conf/``, ``data.dvc``, ``workflow/envs`` and
    ``reports/published`` that the project in `root` uses: `root` itself if it has them. Raises
    `ConfigError` if this rnnbench was installed without them."""
    for folder in (root, SOURCE):
        if (folder / "conf/config.yaml").is_file():
            return folder
    what = "this rnnbench was installed without its conf/."
    remedy = "install it from a checkout: pip install --no-deps --editable FOLDER."
    raise ConfigError(what, where=str(SOURCE), remedy=remedy)


class Settings(msgspec.Struct, frozen=True):
    """The keys of a project's ``config/config.yaml`` that the commands read; Snakemake reads it
    too, and a workflow that has rnnbench as a module may have keys of its own there."""

    experiment: str | None = None
    overrides: str | list[str] | None = None
    site: str | None = None
    conf: str | list[str] | None = None


def settings(root: Path) -> Settings:
    """The settings of the project. Raises `ConfigError`."""
    file = root / SETTINGS
    content = read_yaml(file) if file.is_file() else None
    remedy = "write a text, in quotes if it is a number; several overrides or folders as a list."
    return converted({} if content is None else content, Settings, str(SETTINGS), remedy)


def read_yaml(file: Path) -> Any:
    """The content of a YAML file. Raises `ConfigError`."""
    try:
        return yaml.safe_load(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        remedy = "run the command in the project's top folder."
        raise ConfigError("does not exist.", where=str(file), remedy=remedy) from error
    except (OSError, ValueError, yaml.YAMLError) as error:
        what = f"cannot be read as YAML ({error})."
        remedy = "correct the YAML."
        raise ConfigError(what, where=display_path(file), remedy=remedy) from error


def own_conf(root: Path) -> list[Path]:
    """The project's config folders besides rnnbench's, which its `settings` name, as they are
    written there. Raises `ConfigError`."""
    folders = words_of(settings(root).conf, ",", f"{SETTINGS}: conf")
    return [Path(folder) for folder in folders]


def words_of(value: Any, separator: str, where: str) -> list[str]:
    """The texts in `value`, a list of texts or one text with separators. Raises `ConfigError`."""
    if value is None:
        return []
    if isinstance(value, str):
        return [part for part in value.split(separator) if part]
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return value
    what = f"is {value!r}."
    raise ConfigError(what, where=where, remedy="write one text or a list of texts.")
