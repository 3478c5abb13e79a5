"""The pinned bytes of each dataset, which are the entries of ``data.dvc`` and of
``conf/mirror.yaml``, and the md5 of files.

``data.dvc`` is read as plain YAML, which avoids importing DVC.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from rnnbench.errors import ConfigError, DatasetError, converted
from rnnbench.project import home, read_yaml

FILE = "data.dvc"
MIRRORED = "conf/mirror.yaml"  # what is not published, in the same format


class Pinned(msgspec.Struct, frozen=True):
    """The identity of one file.

    - `path`: in ``data/``, relative to the project's root.
    - `md5`: in lower-case hexadecimal.
    - `size`: in bytes, None if ``data.dvc`` does not give it.
    """

    path: Annotated[str, Meta(pattern=r"^data(/[^/.][^/]*)+$")]
    md5: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
    size: Annotated[int, Meta(ge=0)] | None = None


class Pins(msgspec.Struct):
    """The content of ``data.dvc``."""

    outs: list[Pinned]


def pinned(root: Path) -> dict[str, Pinned]:
    """Path → `Pinned` for every entry of ``data.dvc`` and, if it exists, ``conf/mirror.yaml`` of
    rnnbench (`project.home`), and of a ``data.dvc`` of the project in `root`, whose entries replace
    the others. Raises `ConfigError`, which names the faulty entry."""
    base = home(root)
    pins = _read_pins([base / FILE, *base.glob(MIRRORED)])
    if base != root and (root / FILE).is_file():
        pins |= _read_pins([root / FILE])
    return pins


def _read_pins(files: Sequence[Path]) -> dict[str, Pinned]:
    """Path → `Pinned` for every entry of these files, which have no path in common."""
    remedy = "give each of the `outs` a `path` in data/ and the 32 hexadecimal digits of `md5sum`."
    pins: dict[str, Pinned] = {}
    repeated = set()
    for file in files:
        content = converted(read_yaml(file), Pins, str(file), remedy)
        for pin in content.outs:
            if pin.path in pins:
                repeated.add(pin.path)
            pins[pin.path] = pin

    if repeated:
        paths = ", ".join(path for path in pins if path in repeated)
        raise ConfigError(f"has duplicate paths: {paths}.", where=str(files[0]))
    return pins


def pin_of(path: str, root: Path) -> Pinned:
    """The entry of ``data.dvc`` for `path` (relative to `root`). Raises `ConfigError`, which lists
    the existing paths, if there is none."""
    pins = pinned(root)
    if path not in pins:
        known = ", ".join(sorted(pins)) or "none"
        raise ConfigError(
            f"has no entry for {path}; it has {known}.",
            where=str(root / FILE),
            remedy="add an `outs` entry with its path and md5 (`md5sum FILE`), or use the file "
            "without a pin: dataset=file dataset.path=FILE.",
        )
    return pins[path]


def md5_of(path: Path) -> str:
    """The MD5 of the file in lower-case hexadecimal. Raises `OSError`."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def own_md5(path: Path) -> str:
    """The MD5 of a user's file, which nothing pins. It is read each time, because a file may be
    replaced by one of equal size and time. Raises `ConfigError` if it cannot be read."""
    try:
        if path.exists() and not path.is_file():  # reading a pipe would wait for ever
            raise OSError("it is not a regular file")
        return md5_of(path)
    except OSError as error:
        what = f"{path} cannot be read ({error.strerror or error})."
        remedy = "name a file that exists and is readable: dataset=file dataset.path=FILE."
        raise ConfigError(what, where="dataset.path", remedy=remedy) from error


def is_pinned(path: Path, pin: Pinned) -> bool:
    """Whether `path` exists and holds the pinned bytes. Raises `OSError` if it cannot be read."""
    return path.exists() and md5_of(path) == pin.md5


def verify(path: Path, pin: Pinned, name: str) -> None:
    """Raises a `DatasetError` unless the file `path` holds the bytes of `pin`.

    `name`: that of the dataset, for the remedy.
    """
    fetch = f"`rnnbench dataset {name}`"
    try:
        md5 = md5_of(path)
    except FileNotFoundError:
        what = "does not exist."
        remedy = f"{fetch} fetches it."
    except OSError as error:
        what = f"cannot be read ({error.strerror or error})."
        remedy = ""
    else:
        if md5 == pin.md5:
            return
        what = f"has md5 {md5}, but {pin.md5} is pinned."
        remedy = f"{fetch} sets this file aside and fetches the pinned one."
    raise DatasetError(what, where=str(path), remedy=remedy)
