"""Puts pinned datasets into place, from the first source that has them."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rnnbench.datasets.cache import from_cache, to_cache
from rnnbench.datasets.download import download
from rnnbench.datasets.generate import GENERATORS
from rnnbench.datasets.pins import FILE, Pinned, pin_of
from rnnbench.datasets.unavailable import Unavailable
from rnnbench.datasets.verify import is_pinned, md5_of
from rnnbench.errors import ConfigError, DatasetError
from rnnbench.locks import locked

MIRROR = "RNNBENCH_DATA_MIRROR"
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Source:
    """A possible source of a file: its `name` for messages, and `write`, which writes the file to a
    path or raises `Unavailable`."""

    name: str
    write: Callable[[Path], None]


def provide(dataset: Mapping[str, Any], root: Path) -> Path:
    """Ensures that the dataset's file exists with the pinned bytes, and returns its path.

    A correct file is kept. Otherwise the bytes come from the DVC cache or remote, the folder in
    ``RNNBENCH_DATA_MIRROR``, the dataset's URL or its generator, in this order; if a source has
    wrong bytes, a warning is logged and the next one is tried. An existing file with wrong bytes is
    renamed to ``NAME.wrong-MD5`` once the pinned bytes are available. The file is then added to the
    DVC cache.

    **Arguments:**

    - `dataset`: a choice of ``conf/dataset``: ``name``, ``path`` (relative to `root`), ``file``
      (its name in a mirror; default: the last part of ``path``), ``url`` or None.
    - `root`: the project's top folder, which contains ``data.dvc``.

    Raises `ConfigError` if ``data.dvc`` has no entry for it, and `DatasetError`, which lists each
    source with its reason, if none has the bytes. Safe to call from several processes at once.
    """
    path, name = dataset.get("path"), str(dataset.get("name"))
    if not isinstance(path, str):
        raise ConfigError(
            f"path is {path!r}.", where=f"dataset {name}", remedy="write the path of its file."
        )
    pin = pin_of(path, root)
    target = root / pin.path
    file = str(dataset.get("file") or target.name)
    try:
        if not is_pinned(target, pin):
            with locked(target.with_name(f".{target.name}.lock")):
                if not is_pinned(target, pin):
                    _obtain(pin, target, tuple(_sources(pin, file, dataset.get("url"), root)))
    except OSError as error:
        raise DatasetError(
            f"cannot be written ({error}).",
            where=str(target),
            remedy="make the folder writable and check the free disk space.",
        ) from error
    to_cache(pin, root)
    return target


def _sources(pin: Pinned, file: str, url: str | None, root: Path) -> Iterator[Source]:
    yield Source("DVC cache", lambda path: from_cache(pin, root, path))
    if mirror := os.environ.get(MIRROR):
        copy = Path(mirror) / file
        yield Source(f"mirror {copy}", lambda path: _from_mirror(copy, path))
    if url:
        yield Source(url, lambda path: download(url, path))
    if file in GENERATORS:
        yield Source("generator", GENERATORS[file])


def _from_mirror(copy: Path, path: Path) -> None:
    try:
        source = copy.open("rb")
    except FileNotFoundError as error:
        raise Unavailable("not found") from error
    except OSError as error:
        raise Unavailable(f"cannot be read ({error.strerror or error})") from error
    with source, path.open("wb") as file:
        shutil.copyfileobj(source, file)


def _obtain(pin: Pinned, target: Path, sources: tuple[Source, ...]) -> None:
    # A fixed name is safe because the lock is held; leftovers of a killed process are overwritten.
    temporary = target.with_name(f".{target.name}.part")
    reasons = []
    try:
        for source in sources:
            reason = _try(source, pin, temporary)
            if reason is None:
                _set_aside(target)
                temporary.replace(target)
                return
            reasons.append(f"{source.name}: {reason}")
    finally:
        temporary.unlink(missing_ok=True)
    present = f" (the present file has md5 {md5_of(target)})" if target.exists() else ""
    raise DatasetError(
        f"no source has the bytes that {FILE} pins, md5 {pin.md5}{present}: {'; '.join(reasons)}.",
        where=pin.path,
        remedy=f"set {MIRROR} to a folder that contains {target.name}, or copy the file to "
        f"{target} by hand.",
    )


def _try(source: Source, pin: Pinned, temporary: Path) -> str | None:
    """Writes the source to `temporary`. Returns the reason if it lacks the pinned bytes."""
    try:
        source.write(temporary)
    except Unavailable as unavailable:
        return str(unavailable)
    if (md5 := md5_of(temporary)) == pin.md5:
        return None
    log.warning("%s: %s has md5 %s instead of %s.", pin.path, source.name, md5, pin.md5)
    return f"has md5 {md5}"


def _set_aside(target: Path) -> None:
    if target.exists():
        aside = target.with_name(f"{target.name}.wrong-{md5_of(target)[:8]}")
        target.replace(aside)
        log.warning("%s had wrong bytes and was renamed to %s.", target, aside.name)
