"""Checks whether a file of ``conf/`` sets keys of its own section only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml


def is_plain(file: Path, known: Mapping[str, Path]) -> bool:
    """Whether the file of a choice names no package, and lists in its ``defaults`` only choices of
    its own group, `known`, that are plain too. False if a file cannot be read."""
    try:
        return _is_plain(file, known, ())
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return False


def sets_none_of(groups: Iterable[str], config: Path) -> bool:
    """Whether the file `config` (``config.yaml``) sets no key in a section of `groups`; such a key
    would be part of every choice of the group. False if the file cannot be read."""
    try:
        return not set(groups) & set(_mapping(config.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return False


def _is_plain(file: Path, known: Mapping[str, Path], above: tuple[Path, ...]) -> bool:
    text = file.read_text(encoding="utf-8")
    if "@package" in text or file in above:
        return False
    if "defaults" not in text:
        return True
    parents = [entry for entry in _mapping(text).get("defaults", []) if entry != "_self_"]
    return all(
        isinstance(entry, str) and entry in known and _is_plain(known[entry], known, (*above, file))
        for entry in parents
    )


def _mapping(text: str) -> Mapping[str, Any]:
    """Raises `ValueError` if the YAML is not a mapping whose ``defaults`` is a list."""
    content = yaml.safe_load(text)
    if not isinstance(content, dict) or not isinstance(content.get("defaults", []), list):
        raise ValueError("not a mapping with a list of defaults")
    return content
