"""The composed configuration of a grid point as YAML, like Hydra's ``--cfg job``, with the origin
of each value as a comment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from rnnbench.axes import NAMES
from rnnbench.errors import display_path
from rnnbench.grid.experiment import SELF
from rnnbench.grid.files import files_of
from rnnbench.grid.overrides import ABSENT, lookup
from rnnbench.grid.point import GridPoint

WIDTH = 50  # characters before a comment, if the value leaves them


def with_origins(point: GridPoint, conf: Sequence[Path]) -> str:
    """The config of `point`, one line per value. `conf`: the config folders that it is from."""
    lines = ""
    for text, origin in _lines(point.config, "", point, conf):
        if origin:
            text = f"{text:{WIDTH}}  # {origin}"
        lines += f"{text}\n"
    return lines


def _lines(
    section: Mapping[str, Any], prefix: str, point: GridPoint, conf: Sequence[Path]
) -> Iterator[tuple[str, str | None]]:
    """Each line with the origin of its value, or None if it has no value of its own."""
    indent = "  " * prefix.count(".")
    for key, value in section.items():
        name = f"{indent}{_inline(key)}:"
        if isinstance(value, Mapping) and value:
            chosen = None
            if key in NAMES and not prefix:
                chosen = _written(key, point) or "the default of conf/config.yaml or of the model"
            yield name, chosen
            yield from _lines(value, f"{prefix}{key}.", point, conf)
        else:
            yield f"{name} {_inline(value)}", _origin(f"{prefix}{key}", point, conf)


def _inline(value: Any) -> str:
    """`value` in YAML on one line."""
    text = yaml.safe_dump(
        value,
        default_flow_style=True,
        width=float("inf"),
        allow_unicode=True,
    )
    return text.removesuffix("\n").removesuffix("\n...")


def _written(key: str, point: GridPoint) -> str | None:
    """Where the command line or a grid writes `key` or a section that contains it."""
    parts = key.split(".")
    for length in range(len(parts), 0, -1):
        above = ".".join(parts[:length])
        # The choice of a group does not write its keys: its file does.
        if above in point.sources and not (above in NAMES and length < len(parts)):
            return point.sources[above]
    return None


def _origin(key: str, point: GridPoint, conf: Sequence[Path]) -> str:
    group, _, inner = key.partition(".")
    written = _written(key, point)
    if written:
        return written
    if group not in NAMES:
        return display_path(Path(conf[0]) / "config.yaml")
    return display_path(_file_with(inner, point.files[group], group, tuple(conf)))


def _file_with(inner: str, file: Path, group: str, conf: tuple[Path, ...]) -> Path:
    """The file that gives a choice's section the key `inner`: its `file`, or one in the defaults of
    that, the last of which has precedence."""
    known = {**files_of(conf, group), SELF: file}
    defaults = _content(file).get("defaults") or []
    if SELF not in defaults:
        defaults = [*defaults, SELF]
    for default in reversed(defaults):
        if not isinstance(default, str) or default not in known:
            continue
        found = known[default]
        if found != file:
            found = _file_with(inner, found, group, conf)
        if lookup(_content(found), inner) is not ABSENT:
            return found
    return file


@cache
def _content(file: Path) -> dict[str, Any]:
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    return content if isinstance(content, dict) else {}
