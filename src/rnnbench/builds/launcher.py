"""A build → the command that starts its Python, and its environment variables.

A build is the mapping ``build`` of a grid point's config: ``name``, ``framework``, ``environment``
(extra variables) and one of

- ``lock``, with ``python`` a version (3.7): a separate environment of pinned packages, one of which
  may be replaced by a ``wheel`` of the user;
- ``python``: a path, a name on PATH, a version, or None for the running interpreter;
- ``command``: a command line that ends in a Python, such as ``apptainer exec image.sif python3``.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rnnbench.builds.interpreters import find, install_hint, is_version
from rnnbench.builds.pins import build_file, pins_of
from rnnbench.errors import ConfigError
from rnnbench.validation import converted
from rnnworker.workers import build_variables

Variables = dict[str, str | int | float | bool | None]


def launcher(build: Mapping[str, Any], root: Path) -> tuple[str, ...]:
    """The first arguments of every command that runs in the build; the last one is its Python.

    A relative path is relative to `root`, the project's top folder. For a locked build the path is
    returned even if its environment does not exist yet. Raises `ConfigError` if the program does
    not exist.
    """
    if pins := pins_of(build, root):
        return (str((pins.folder(root) / "bin" / "python").absolute()),)
    python, command = build.get("python"), build.get("command")
    if python and command:
        raise ConfigError(
            "has both a `python` and a `command`.",
            where=build_file(build),
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
    """The environment variables that the build adds, as strings: booleans become 1 and 0, None
    becomes the empty string. Raises `ConfigError` for a list or a mapping."""
    where, remedy = f"{build_file(build)}: environment", "write `NAME: value` pairs."
    converted(build.get("environment") or {}, Variables, where, remedy)
    return build_variables(build)


def _command(command: str, root: Path, build: Mapping[str, Any]) -> tuple[str, ...]:
    try:
        program, *arguments = shlex.split(command) or [""]
    except ValueError as error:
        raise ConfigError(
            f"command {command!r} cannot be split into words ({error}).",
            where=build_file(build),
            remedy="close its quotes.",
        ) from error
    if not program:
        raise ConfigError("command is blank.", where=build_file(build), remedy="name a program.")
    return (_program(program, root, build, "command"), *arguments)


def _program(name: str, root: Path, build: Mapping[str, Any], key: str) -> str:
    # Do not resolve links: a virtual environment's python is a link that identifies it.
    path = name if "/" not in name else str((root / Path(name).expanduser()).absolute())
    program = shutil.which(path)
    if program is None:
        raise ConfigError(
            f"{key} {path} is not an executable program on this machine.",
            where=build_file(build),
            remedy=f"install it, or correct {key}.",
        )
    return program


def _of_version(version: str, build: Mapping[str, Any]) -> str:
    python = find(version)
    if python is None:
        message = f"Python {version} is not installed on this machine."
        raise ConfigError(message, where=build_file(build), remedy=install_hint(version))
    return str(python)
