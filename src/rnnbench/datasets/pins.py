"""The pinned bytes of each dataset: the entries of ``data.dvc``.

``data.dvc`` is read as plain YAML, which avoids importing DVC.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rnnbench.errors import ConfigError

FILE = "data.dvc"
MD5 = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Pinned:
    """The identity of one file: `path` relative to the project's root, `md5` in lower-case
    hexadecimal, `size` in bytes or None if ``data.dvc`` does not give it."""

    path: str
    md5: str
    size: int | None = None


def pinned(root: Path) -> dict[str, Pinned]:
    """Path → `Pinned` for every entry of ``data.dvc`` in `root`. Raises `ConfigError`, which
    names the faulty entry."""
    try:
        data = yaml.safe_load((root / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(
            "does not exist.",
            where=str(root / FILE),
            remedy="run the command in the project's top folder.",
        ) from error
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"cannot be read as YAML ({error}).", where=str(root / FILE)) from error
    entries = data.get("outs") if isinstance(data, dict) else None
    if not isinstance(entries, list):
        raise ConfigError("must have a list `outs`.", where=str(root / FILE))
    pins = [_entry(entry, f"{root / FILE}: outs[{index}]") for index, entry in enumerate(entries)]
    repeated = [path for path, count in Counter(pin.path for pin in pins).items() if count > 1]
    if repeated:
        raise ConfigError(f"has duplicate paths: {', '.join(repeated)}.", where=str(root / FILE))
    return {pin.path: pin for pin in pins}


def pin_of(path: str, root: Path) -> Pinned:
    """The entry of ``data.dvc`` for `path` (relative to `root`). Raises `ConfigError`, which lists
    the existing paths, if there is none."""
    pins = pinned(root)
    if path not in pins:
        raise ConfigError(
            f"has no entry for {path}; it has {', '.join(sorted(pins)) or 'none'}.",
            where=str(root / FILE),
            remedy="add an `outs` entry with its path and md5 (`md5sum FILE`), or use the file "
            "without a pin: dataset=file dataset.path=FILE.",
        )
    return pins[path]


def _entry(entry: Any, where: str) -> Pinned:
    if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
        raise ConfigError("must have a `path`.", where=where)
    where = f"{where} ({entry['path']})"
    md5, size = entry.get("md5"), entry.get("size")
    if not isinstance(md5, str) or not MD5.fullmatch(md5):
        raise ConfigError(
            f"md5 is {md5!r}.", where=where, remedy="write the 32 hexadecimal digits of `md5sum`."
        )
    if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 0):
        raise ConfigError(
            f"size is {size!r}.", where=where, remedy="write the number of bytes, or omit it."
        )
    return Pinned(entry["path"], md5, size)
