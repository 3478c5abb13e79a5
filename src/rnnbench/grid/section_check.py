"""Whether a file of ``conf/`` fills its own section and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml


def is_plain(file: Path, known: Mapping[str, Path]) -> bool:
    """Whether a choice's file names no package, and in its ``defaults`` nothing but choices of
    its own group, `known`, that are plain as well. False for what cannot be read."""
    try:
        return _is_plain(file, known, ())
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return False


def says_nothing_of(groups: Iterable[str], config: Path) -> bool:
    """Whether ``config.yaml`` itself sets nothing in a section of `groups`, which would be part of
    whatever is chosen there. False for what cannot be read."""
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
    """Raises `ValueError` where it is none."""
    content = yaml.safe_load(text)
    if not isinstance(content, dict) or not isinstance(content.get("defaults", []), list):
        raise ValueError("no mapping with a list of defaults")
    return content
