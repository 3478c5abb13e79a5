"""Resolves code named in YAML files: a model's functions (``package.module:name`` or
``mine.py:name``) and the implementation of an rnn choice (a name or ``mine.py``).

A relative path to a Python file is relative to the YAML file that contains it, so a model or a
kernel is a pair of files that can be placed in any folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rnnbench.errors import ConfigError
from rnnbench.grid.dotted_keys import lookup

FUNCTIONS = ("model.function", "model.data.prepare", "model.data.augment")
IMPLEMENTATION = "rnn.implementation"


def absolute_function(text: Any, folder: Path, where: str) -> Any:
    """`text` with its path made absolute; unchanged if it names a module."""
    path, colon, name = str(text).rpartition(":")
    if not colon or not path.endswith(".py"):
        return text
    return f"{absolute_file(path, folder, where)}:{name}"


def absolute_file(path: Any, folder: Path, where: str) -> Any:
    """`path` made absolute; unchanged if it is not a path to a Python file. Raises a `ConfigError`
    if the file does not exist."""
    if not str(path).endswith(".py"):
        return path
    absolute = (folder / Path(path).expanduser()).resolve()
    if not absolute.is_file():
        raise ConfigError(
            f"{path}: {absolute} does not exist.",
            where=where,
            remedy="write the path of the Python file relative to the YAML file, or absolute.",
        )
    return str(absolute)


def user_files(config: Mapping[str, Any]) -> set[Path]:
    """The user's Python files that a run with `config` uses."""
    paths = [str(lookup(config, key)).rpartition(":")[0] for key in FUNCTIONS]
    paths.append(str(lookup(config, IMPLEMENTATION)))
    return {Path(path) for path in paths if path.endswith(".py")}


def with_absolute_functions(section: Mapping[str, Any], folder: Path, where: str) -> dict[str, Any]:
    """The section of a model or of an rnn choice, with its paths made absolute."""
    changed = dict(section)
    if "implementation" in changed:
        changed["implementation"] = absolute_file(changed["implementation"], folder, where)
    if "function" in changed:
        changed["function"] = absolute_function(changed["function"], folder, where)
    if isinstance(changed.get("data"), dict):
        changed["data"] = data = dict(changed["data"])
        for key in data:
            if f"model.data.{key}" in FUNCTIONS:
                data[key] = absolute_function(data[key], folder, where)
    return changed
