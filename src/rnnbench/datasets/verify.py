"""The md5 of data files: pinned ones are checked, that of a user-supplied file is part of the run's
identity."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from rnnbench.datasets.pins import FILE, Pinned
from rnnbench.errors import ConfigError, DatasetError


def md5_of(path: Path) -> str:
    """The MD5 of the file in lower-case hexadecimal. Raises `OSError`."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def is_pinned(path: Path, pin: Pinned) -> bool:
    """Whether `path` exists and holds the pinned bytes. Raises `OSError` if it cannot be read."""
    return path.exists() and md5_of(path) == pin.md5


def verify(path: Path, pin: Pinned, name: str = "") -> None:
    """Raises a `DatasetError` unless `path` holds the pinned bytes.

    **Arguments:**

    - `path`: the file.
    - `pin`: its expected identity.
    - `name`: the name of the dataset for the remedy; default: the stem of the file.
    """
    remedy = f"`rnnbench dataset {name or path.stem}` "
    try:
        md5 = md5_of(path)
    except FileNotFoundError as error:
        raise DatasetError(
            "does not exist.", where=str(path), remedy=remedy + "fetches it."
        ) from error
    except OSError as error:
        raise DatasetError(
            f"cannot be read ({error.strerror or error}).", where=str(path)
        ) from error
    if md5 != pin.md5:
        raise DatasetError(
            f"has md5 {md5}, but {FILE} pins {pin.md5}.",
            where=str(path),
            remedy=remedy + "sets this file aside and fetches the pinned one.",
        )


def user_file_md5(path: Path, cache: Path) -> str:
    """The md5 of a user-supplied file. Raises `ConfigError` if it cannot be read.

    **Arguments:**

    - `path`: the file.
    - `cache`: a JSON file, created if missing, that stores md5s by absolute path, size and
      modification time, so that a large file is read only once. An unusable cache only costs time.
    """
    where = "dataset.path"
    remedy = "name a file that exists: dataset=file dataset.path=FILE."
    try:
        state = path.stat()
        stamp = [state.st_size, state.st_mtime_ns]
        cached = _read(cache)
        entry = cached.get(str(path.absolute()))
        if isinstance(entry, list) and entry[:2] == stamp and len(entry) == 3:
            return str(entry[2])
        md5 = md5_of(path)
    except FileNotFoundError as error:
        raise ConfigError(f"{path} does not exist.", where=where, remedy=remedy) from error
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read ({error.strerror or error}).", where=where, remedy=remedy
        ) from error
    _write(cache, {**cached, str(path.absolute()): [*stamp, md5]})
    return md5


def _read(cache: Path) -> dict[str, Any]:
    try:
        data = json.loads(cache.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _write(cache: Path, data: dict[str, Any]) -> None:
    temporary = cache.with_name(f".{cache.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        cache.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(data, indent=1), encoding="utf-8")
        temporary.replace(cache)
