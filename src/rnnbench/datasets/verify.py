"""The md5 of files, and whether it is the pinned one."""

from __future__ import annotations

import hashlib
from pathlib import Path

from rnnbench.datasets.pins import FILE, Pinned
from rnnbench.errors import ConfigError, DatasetError


def md5_of(path: Path) -> str:
    """The MD5 of the file in lower-case hexadecimal. Raises `OSError`."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def own_md5(path: Path) -> str:
    """The MD5 of a user's file, which nothing pins. It is read each time, because a file may be
    replaced by one of equal size and time. Raises `ConfigError` if it cannot be read."""
    try:
        return md5_of(path)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read ({error.strerror or error}).",
            where="dataset.path",
            remedy="name a file that exists: dataset=file dataset.path=FILE.",
        ) from error


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
