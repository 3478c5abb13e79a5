"""Parsed grids, and the choices that they name, composed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rnnbench.grid.setting import Setting

Grid = Mapping[str, Setting]  # key → setting
ChoiceFiles = Mapping[str, Mapping[str, Path]]  # group → choice → its file


@dataclass(frozen=True)
class Library:
    """Composed choices, as plain dicts with unresolved interpolations.

    - `base`: the keys that belong to no group: ``measure``, ``limits``, ``seed``, ….
    - `sections`: (group, choice) → its section of a config.
    - `defaults`: model → group → the choice if a grid names none.
    - `model`: the model if a grid names none.
    - `files`: (group, choice) → its file, for models and rnn choices, to resolve relative paths.
    """

    base: Mapping[str, Any]
    sections: Mapping[tuple[str, str], Mapping[str, Any]]
    defaults: Mapping[str, Mapping[str, str]]
    model: str
    files: Mapping[tuple[str, str], Path]


@dataclass(frozen=True)
class ParsedGrids:
    """`written`: the experiment's grids; `grids`: the same with the overrides of the command line;
    `library`: the choices of both; `files`: the files of the choices that they name."""

    written: Sequence[Grid]
    grids: Sequence[Grid]
    library: Library
    files: ChoiceFiles
