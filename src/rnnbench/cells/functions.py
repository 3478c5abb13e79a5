"""Functions named in a model's YAML: ``package.module:name`` or ``mine.py:name``.

A relative path to a Python file is relative to the YAML file it stands in, so a model travels
as two files side by side, anywhere on a disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rnnbench.errors import ConfigError

KEYS = ("model.function", "model.data.prepare", "model.data.augment")


def absolute_function(text: Any, folder: Path, where: str) -> Any:
    """`text` with its path made absolute; as it is where it names a module."""
    path, colon, name = str(text).rpartition(":")
    if not colon or not path.endswith(".py"):
        return text
    absolute = (folder / Path(path).expanduser()).resolve()
    if not absolute.is_file():
        raise ConfigError(
            f"{text}: there is no {absolute}.",
            where=where,
            remedy="write the Python file's path relative to the YAML file, or absolute.",
        )
    return f"{absolute}:{name}"


def with_absolute_functions(section: Mapping[str, Any], folder: Path, where: str) -> dict[str, Any]:
    """A model's section with the paths in its functions made absolute."""
    changed = dict(section)
    if "function" in changed:
        changed["function"] = absolute_function(changed["function"], folder, where)
    data = changed.get("data")
    if isinstance(data, dict):
        changed["data"] = {
            key: absolute_function(value, folder, where) if f"model.data.{key}" in KEYS else value
            for key, value in data.items()
        }
    return changed
