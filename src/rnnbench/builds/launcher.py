"""A build → the command that starts its Python, and what it runs with.

A build is the mapping ``build`` of a cell's config: ``name``, ``framework``, ``environment``
(extra variables) and one of

- ``lock``, with ``python`` a version (3.7): an environment of its own, made from pinned packages,
  perhaps with a ``wheel`` of the user's in place of one of them;
- ``python``: a path, a name on PATH, a version, or None for the interpreter that is running;
- ``command``: a whole command line that ends in a Python, such as
  ``apptainer exec image.sif python3``.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rnnbench.builds.interpreters import find, how_to_get, is_version
from rnnbench.builds.pins import pins_of
from rnnbench.errors import ConfigError


def launcher(build: Mapping[str, Any], root: Path) -> tuple[str, ...]:
    """The first arguments of every command that runs in the build, the last being its Python.

    A relative path is one below `root`, the project's top folder. A locked build's Python is
    named also before its environment is made. Raises `ConfigError` where there is no such
    program.
    """
    if pins := pins_of(build, root):
        return (str((pins.folder(root) / "bin" / "python").absolute()),)
    python, command = build.get("python"), build.get("command")
    if python and command:
        raise ConfigError(
            "has both a `python` and a `command`.",
            where=place(build),
            remedy="keep the one that starts the build's Python.",
        )
    if command:
        return _command(str(command), root, build)
    if not python:
        return (sys.executable,)
    if is_version(str(python)):
        return (_of_version(str(python), build),)
    return (_program(str(python), root, build, "python"),)


def environment(build: Mapping[str, Any]) -> dict[str, str]:
    """The variables that the build adds to its processes' environment, as text: booleans
    become 1 and 0, None the empty text. Raises `ConfigError` for a list or a mapping."""
    variables = build.get("environment") or {}
    if not isinstance(variables, Mapping):
        raise ConfigError(
            f"environment is {variables!r}.", where=place(build), remedy="write `NAME: value`."
        )
    return {str(name): _text(name, value, build) for name, value in variables.items()}


def place(build: Mapping[str, Any]) -> str:
    """Where the build's choice is written, for messages."""
    return f"conf/build/{build.get('name')}.yaml"


def _command(command: str, root: Path, build: Mapping[str, Any]) -> tuple[str, ...]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(
            f"command {command!r} cannot be split into words ({error}).",
            where=place(build),
            remedy="close its quotes.",
        ) from error
    if not words:
        raise ConfigError("command is blank.", where=place(build), remedy="name a program.")
    return (_program(words[0], root, build, "command"), *words[1:])


def _program(name: str, root: Path, build: Mapping[str, Any], key: str) -> str:
    # Not resolved: the link a virtual environment's python is makes it that environment's.
    path = name if "/" not in name else str((root / Path(name).expanduser()).absolute())
    found = shutil.which(path)
    if found is None:
        raise ConfigError(
            f"{key} {path} is not a program that can be started here.",
            where=place(build),
            remedy=f"install it there, or write the right {key}.",
        )
    return found


def _of_version(version: str, build: Mapping[str, Any]) -> str:
    found = find(version)
    if found is None:
        raise ConfigError(
            f"there is no Python {version} on this machine.",
            where=place(build),
            remedy=how_to_get(version),
        )
    return str(found)


def _text(name: object, value: object, build: Mapping[str, Any]) -> str:
    if isinstance(value, (list, tuple, Mapping)):
        raise ConfigError(
            f"environment.{name} is {value!r}.", where=place(build), remedy="write one value."
        )
    if isinstance(value, bool):
        return str(int(value))
    return "" if value is None else str(value)
