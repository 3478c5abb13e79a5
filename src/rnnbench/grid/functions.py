"""Code named in a YAML: a model's functions, ``package.module:name`` or ``mine.py:name``, and the
implementation of an rnn choice, a name or ``mine.py``.

A relative path to a Python file is relative to the YAML file it stands in, so a model or a kernel
travels as two files side by side, anywhere on a disk.
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
    """`text` with its path made absolute; as it is where it names a module."""
    path, colon, name = str(text).rpartition(":")
    if not colon or not path.endswith(".py"):
        return text
    return f"{absolute_file(path, folder, where)}:{name}"


def absolute_file(path: Any, folder: Path, where: str) -> Any:
    """`path` made absolute; as it is where it is no path to a Python file."""
    if not str(path).endswith(".py"):
        return path
    absolute = (folder / Path(path).expanduser()).resolve()
    if not absolute.is_file():
        raise ConfigError(
            f"{path}: there is no {absolute}.",
            where=where,
            remedy="write the Python file's path relative to the YAML file, or absolute.",
        )
    return str(absolute)


def own_files(config: Mapping[str, Any]) -> set[Path]:
    """The Python files of the user's own that a run with `config` uses."""
    values = [str(lookup(config, key)) for key in FUNCTIONS]
    places = [value.rpartition(":")[0] for value in values]
    places.append(str(lookup(config, IMPLEMENTATION)))
    return {Path(place) for place in places if place.endswith(".py")}


def with_absolute_functions(section: Mapping[str, Any], folder: Path, where: str) -> dict[str, Any]:
    """A section of a model or of an rnn choice with the paths in it made absolute."""
    changed = dict(section)
    if "implementation" in changed:
        changed["implementation"] = absolute_file(changed["implementation"], folder, where)
    if "function" in changed:
        changed["function"] = absolute_function(changed["function"], folder, where)
    data = changed.get("data")
    if isinstance(data, dict):
        changed["data"] = {
            key: absolute_function(value, folder, where)
            if f"model.data.{key}" in FUNCTIONS
            else value
            for key, value in data.items()
        }
    return changed
