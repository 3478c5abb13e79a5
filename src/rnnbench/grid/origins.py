"""The composed configuration of a grid point as YAML, like Hydra's ``--cfg job``, with the origin
of each value as a comment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from rnnbench.axes import NAMES
from rnnbench.errors import display_path
from rnnbench.grid.experiment import SELF
from rnnbench.grid.files import files_of
from rnnbench.grid.overrides import ABSENT, lookup, nearest
from rnnbench.grid.point import GridPoint

WIDTH = 50  # characters before a comment, if the value leaves them


def with_origins(point: GridPoint, conf: Sequence[Path]) -> str:
    """The config of `point`, one line per value. `conf`: the config folders that it is from."""
    lines = []

    def add(path: tuple[str, ...], value: Any) -> None:
        """Adds the line of the key at `path`, and those of the keys inside it. Each has the origin
        of its value as a comment."""
        *above, last = path
        key = ".".join(path)
        text = "  " * len(above) + f"{_inline(last)}:"
        is_section = isinstance(value, Mapping) and value
        if not is_section:
            text += f" {_inline(value)}"
            origin = _origin(key, point, conf)
        elif key in NAMES:
            origin = point.sources.get(key, "the default of conf/config.yaml or of the model")
        else:
            origin = ""

        if origin:
            text = f"{text:{WIDTH}}  # {origin}"
        lines.append(f"{text}\n")

        if is_section:
            for name, item in value.items():
                add((*path, name), item)

    for key, value in point.config.items():
        add((key,), value)
    return "".join(lines)


def _inline(value: Any) -> str:
    """`value` in YAML on one line."""
    text = yaml.safe_dump(
        value,
        default_flow_style=True,
        width=float("inf"),
        allow_unicode=True,
    )
    return text.removesuffix("\n").removesuffix("\n...")


def _origin(key: str, point: GridPoint, conf: Sequence[Path]) -> str:
    """Where the value of a dotted `key` is from: a grid, the command line, or a file."""
    # The choice of an axis does not write its keys: its file does.
    written = {each: where for each, where in point.sources.items() if each not in NAMES}
    origin = nearest(written, key)
    if origin:
        return origin
    group, _, inner = key.partition(".")
    if group not in NAMES:
        return display_path(Path(conf[0]) / "config.yaml")
    file = _file_with(inner, point.files[group], files_of(conf, group))
    return display_path(file)


def _file_with(inner: str, file: Path, choices: Mapping[str, Path]) -> Path:
    """The file that gives a choice's section the key `inner`: its `file`, or one in the defaults of
    that, the last of which has precedence. `choices`: the files of all choices of this axis."""
    known = {**choices, SELF: file}
    defaults = _content(file).get("defaults") or []
    if SELF not in defaults:
        defaults = [*defaults, SELF]
    for default in reversed(defaults):
        if not isinstance(default, str) or default not in known:
            continue
        found = known[default]
        if found != file:
            found = _file_with(inner, found, choices)
        if lookup(_content(found), inner) is not ABSENT:
            return found

    return file


@cache
def _content(file: Path) -> dict[str, Any]:
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        return {}
    return content
