"""User-supplied files: not pinned, but the md5 is part of the run's identity."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from rnnbench.datasets.verify import md5_of
from rnnbench.errors import ConfigError


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
