"""A cell of the grid and its name."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rnnbench.errors import ConfigError

AXES = ("model", "cell", "rnn", "device", "build")
GROUPS = (*AXES, "dataset")
LONGEST_NAME = 200


@dataclass(frozen=True)
class GridPoint:
    """One run to make, or the reason why it cannot be made here.

    - `choices`: axis → choice, in the order of `AXES`, then ``dataset`` where it is not
      the model's own.
    - `overrides`: dotted key → value, where it differs from the choice's default; a deleted
      key stands here as ``~key``.
    - `config`: everything resolved, as plain JSON data. Cells share parts of it: read only.
    - `skip`: None, or the reason in words.
    - `grid`: which of the experiment's grids named it first, from 0 (not compared).
    """

    name: str
    choices: Mapping[str, str]
    overrides: Mapping[str, Any]
    seed: int
    repeat: int
    alias: str | None
    config: Mapping[str, Any]
    skip: str | None = None
    grid: int = field(default=0, compare=False)

    def settings(self) -> dict[str, Any]:
        """Everything that tells this cell from another, flat."""
        numbers = {"seed": self.seed, "repeat": self.repeat, "alias": self.alias}
        return {**self.choices, **self.overrides, **numbers}


def name_of(
    choices: Mapping[str, str],
    overrides: Mapping[str, Any],
    seed: int,
    repeat: int,
    alias: str | None,
) -> str:
    """``digits_rnn-lstm-keras-cpu_1-current-units512-as_b-s0-r2``; safe as a file name and
    as a Snakemake wildcard. Raises a `ConfigError` where it would be too long."""
    parts = [slug(choices[group]) for group in GROUPS if group in choices]
    for key in sorted(overrides, key=lambda key: key.removeprefix("~")):
        last = slug(key.rpartition(".")[2].removeprefix("~"))
        parts.append(f"no_{last}" if key.startswith("~") else f"{last}{slug(overrides[key])}")
    if alias is not None:
        parts.append(f"as_{slug(alias)}")
    name = "-".join([*parts, f"s{seed}", f"r{repeat}"])
    if len(name) > LONGEST_NAME:
        raise ConfigError(
            f"a name of {len(name)} characters, more than {LONGEST_NAME}.",
            where=f"cell {name}",
            remedy="put long values into a choice of their own in conf/, with a short name.",
        )
    return name


def cell_of(name: str) -> str:
    """A run's name without seed and repeat."""
    return re.sub(r"-s\d+-r\d+$", "", name)


def slug(value: Any) -> str:
    """`value` in the characters ``A-Z a-z 0-9 _ . + = -``."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, list | tuple):
        return "x".join(slug(item) for item in value) or "empty"
    if isinstance(value, dict):
        return "_".join(f"{slug(key)}{slug(item)}" for key, item in value.items()) or "empty"
    return _safe(str(value))


@functools.cache
def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.+=-]+", "_", text) or "empty"
