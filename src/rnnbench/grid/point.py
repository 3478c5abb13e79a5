"""A grid point, its name, and its identity: all that decides whether a run has to be repeated."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rnnbench.axes import DOCUMENTATION, NAMES
from rnnbench.errors import ConfigError
from rnnbench.grid.files import DATA
from rnnbench.grid.overrides import Config
from rnnbench.records.overrides import Settings
from rnnworker.precision import DEFAULT

LONGEST_NAME = 200


@dataclass(frozen=True)
class GridPoint:
    """One combination of the grid, with seed and repeat.

    - `choices`: axis → choice, in the order of `axes.AXES`; that of an optional axis only if it is
      not the model's default.
    - `overrides`: dotted key → value, if it differs from the choice's default; ``~key`` for a
      deleted key.
    - `config`: the resolved config, as plain JSON data. Read-only: grid points share parts of it.
    - `skip`: why it cannot run, or None.
    - `grid`: index of the first of the experiment's grids that contains it (not compared).
    - `sources`: key or axis → where the command line or a grid writes it (not compared).
    - `files`: axis → the file of its choice (not compared).
    """

    name: str
    choices: Mapping[str, str]
    overrides: Settings
    seed: int
    repeat: int
    alias: str | None
    config: Config
    skip: str | None = None
    grid: int = field(default=0, compare=False)
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)
    files: Mapping[str, Path] = field(default_factory=dict, compare=False)

    def settings(self) -> Settings:
        """Everything that distinguishes this grid point from others, as a flat dict."""
        numbers = {"seed": self.seed, "repeat": self.repeat, "alias": self.alias}
        return {**self.choices, **self.overrides, **numbers}


def name_of(
    choices: Mapping[str, str],
    overrides: Settings,
    seed: int,
    repeat: int,
    alias: str | None,
) -> str:
    """A name such as ``digits_rnn-lstm-keras-cpu_1-current-units512-as_b-s0-r2``, which is valid as
    a file name and as a Snakemake wildcard: choices, overrides, alias, seed, repeat. It is never
    parsed, but for `configuration_of`. Raises a `ConfigError` if it is too long."""
    parts = [slug(choices[axis]) for axis in NAMES if axis in choices]
    for key in sorted(overrides, key=lambda key: key.removeprefix("~")):
        value = overrides[key]
        last = slug(key.rpartition(".")[2].removeprefix("~"))
        if key == DATA:
            parts.append(short_path(str(value)))
        elif key.startswith("~"):
            parts.append(f"no_{last}")
        else:
            parts.append(f"{last}{slug(value)}")

    if alias is not None:
        parts.append(f"as_{slug(alias)}")
    parts += [f"s{seed}", f"r{repeat}"]
    # Files that begin with a dot are hidden, and words that begin with a hyphen are options.
    name = re.sub("^[.-]", "_", "-".join(parts))
    if len(name) > LONGEST_NAME:
        raise ConfigError(
            f"the name has {len(name)} characters; it must have at most {LONGEST_NAME}.",
            where=f"grid point {name}",
            remedy="put long values into a choice in conf/ with a short name.",
        )

    return name


def short_path(path: str) -> str:
    """The stem of a file and a digest of its `path`, which tells files with equal stems apart."""
    stem = slug(Path(path).stem)
    digest = hashlib.md5(path.encode()).hexdigest()
    return f"{stem}_{digest[:6]}"


def configuration_of(name: str) -> str:
    """The name of the configuration: the run's `name` without seed and repeat."""
    return re.sub(r"-s\d+-r\d+$", "", name)


def slug(value: Any) -> str:
    """`value` as a string of the characters ``A-Z a-z 0-9 _ . + = -``."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, list | tuple):
        return "x".join(map(slug, value)) or "empty"
    if isinstance(value, dict):
        return "_".join(slug(key) + slug(value[key]) for key in value) or "empty"
    return re.sub(r"[^A-Za-z0-9_.+=-]+", "_", str(value)) or "empty"


def full_identity(
    config: Mapping[str, object], identity: Mapping[str, object]
) -> dict[str, object]:
    """Everything that a result depends on: the config without limits and without the documentation
    keys at the top level of each section, and `identity`, which has the other parts (MD5 of the
    data set, lock of the build, digest of the worker's code), or all of them for a certificate."""
    identifying: dict[str, object] = {}
    for key, value in config.items():
        # The default precision is left out, so that records from before the key stay valid.
        if key == "limits" or (key == "precision" and value == DEFAULT):
            continue
        if isinstance(value, Mapping):
            value = {name: value[name] for name in value if name not in DOCUMENTATION}
        identifying[key] = value

    return {"config": identifying, **identity}


def digest_of(identity: Mapping[str, object]) -> str:
    """SHA-256 of the canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical(identity).encode()).hexdigest()


def canonical(data: Any) -> str:
    """JSON with sorted keys and no whitespace. Raises `ValueError` for NaN and infinity."""
    return json.dumps(
        data,
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
    )
