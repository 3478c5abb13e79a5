"""Puts pinned datasets into place, from the first source that has them: the DVC cache or remote, a
mirror, the dataset's URL or its generator.

``data.dvc`` is never written. `Repo.commit` would write it: with ``force`` it hashes every file of
``data.dvc`` and pins its current content. So the verified file is added to the cache directly.

DVC and requests are imported inside the functions: that takes a second or two, and most calls need
neither.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from rnnbench.datasets.generate import GENERATORS
from rnnbench.datasets.pins import Pinned, is_pinned, md5_of, pin_of
from rnnbench.errors import ConfigError, DatasetError, converted
from rnnbench.grid.choices import Dataset
from rnnbench.grid.files import file_of, files_of
from rnnbench.locks import locked
from rnnbench.project import home, own_conf, read_yaml

MIRROR = "RNNBENCH_DATA_MIRROR"
TIMEOUT = 30.0  # seconds without data after which a download fails
DVC = ".dvc"
NO_GIT = {"core": {"no_scm": True}}
log = logging.getLogger(__name__)
# The name of a source, for messages → the function that writes the file to a path or raises
# `Unavailable`.
Sources = Mapping[str, Callable[[Path], None]]


class Unavailable(Exception):
    """A source cannot provide the bytes; another one may. The message is the reason, without the
    name of the source. `provide` collects the reasons: the exception never leaves this module."""


class PinnedDataset(Dataset, kw_only=True):
    """A data set whose file `provide` can obtain."""

    path: str


def read_dataset(name: str, root: Path) -> PinnedDataset:
    """The choice ``conf/dataset/NAME.yaml`` of rnnbench or of the project in `root`.
    Raises `ConfigError`, which lists the choices, if there is none of that name."""
    conf = [home(root) / "conf", *(root / folder for folder in own_conf(root))]
    file = file_of(files_of(conf, "dataset"), "dataset", name, "command line", root)
    data = read_yaml(file)
    path = None
    if isinstance(data, dict):
        path = data.get("path")
    if not isinstance(path, str) or path == "???":
        raise ConfigError(
            "has no path, so there is nothing to provide.",
            where=str(file),
            remedy="to use a file of your own, write dataset=file dataset.path=FILE in a grid.",
        )
    return converted({"name": name, **data}, PinnedDataset, str(file), "write another value.")


def provide(dataset: PinnedDataset, root: Path) -> Path:
    """Ensures that the dataset's file exists with the pinned bytes, and returns its path.

    A correct file is kept. Otherwise the bytes come from the DVC cache or remote, the folder in
    ``RNNBENCH_DATA_MIRROR``, the dataset's URL or its generator, in this order; if a source has
    wrong bytes, a warning is logged and the next one is tried. An existing file with wrong bytes is
    renamed to ``NAME.wrong-MD5`` once the pinned bytes are available. The file is then added to the
    DVC cache.

    `root`: the project's folder. Raises `ConfigError` if ``data.dvc`` has no entry for it, and
    `DatasetError`, which lists each source with its reason, if none has the bytes. Safe to call
    from several processes at once.
    """
    pin = pin_of(dataset.path, root)
    target = root / pin.path
    file = dataset.file or target.name
    try:
        if not is_pinned(target, pin):
            with locked(target.with_name(f".{target.name}.lock")):
                if not is_pinned(target, pin):
                    sources = _sources(pin, file, dataset.url, root)
                    _obtain(pin, target, sources)
    except OSError as error:
        what = f"cannot be written ({error})."
        remedy = "make the folder writable and check the free disk space."
        raise DatasetError(what, where=str(target), remedy=remedy) from error
    to_cache(pin, root)
    return target


def _sources(
    pin: Pinned,
    file: str,
    url: str | None,
    root: Path,
) -> Sources:
    """The sources of the pinned bytes, in the order in which they are tried.

    `file`: the name in a mirror, and of what is generated.
    """
    sources: dict[str, Callable[[Path], None]] = {
        "DVC cache": partial(from_cache, pin, root),
    }
    mirror = os.environ.get(MIRROR)
    if mirror:
        copy = Path(mirror) / file
        sources[f"mirror {copy}"] = partial(_from_mirror, copy)
    if url:
        sources[url] = partial(download, url)
    if file in GENERATORS:
        sources["generator"] = GENERATORS[file]
    return sources


def _obtain(pin: Pinned, target: Path, sources: Sources) -> None:
    """Puts the pinned bytes to `target`, from the first source that has them. Raises
    `DatasetError`, which has the reason of each source."""
    # A fixed name is safe because the lock is held; leftovers of a killed process are overwritten.
    temporary = target.with_name(f".{target.name}.part")
    present = ""
    if target.exists():
        present = md5_of(target)

    reasons = []
    try:
        for name, write in sources.items():
            try:
                write(temporary)
            except Unavailable as unavailable:
                reasons.append(f"{name}: {unavailable}")
                continue

            md5 = md5_of(temporary)
            if md5 == pin.md5:
                if present:
                    aside = target.with_name(f"{target.name}.wrong-{present[:8]}")
                    target.replace(aside)
                    log.warning("%s had wrong bytes and was renamed to %s.", target, aside.name)
                temporary.replace(target)
                return
            log.warning(
                "%s: %s has md5 %s instead of %s.",
                pin.path,
                name,
                md5,
                pin.md5,
            )
            reasons.append(f"{name}: has md5 {md5}")
    finally:
        temporary.unlink(missing_ok=True)

    what = f"no source has the pinned bytes, md5 {pin.md5}"
    if present:
        what += f" (the present file has md5 {present})"
    raise DatasetError(
        f"{what}: {'; '.join(reasons)}.",
        where=pin.path,
        remedy=f"set {MIRROR} to a folder that contains {target.name}, "
        f"or copy the file to {target} by hand.",
    )


def _from_mirror(copy: Path, path: Path) -> None:
    """Copies the file of a mirror to `path`. Raises `Unavailable`."""
    try:
        shutil.copyfile(copy, path)
    except FileNotFoundError as error:
        raise Unavailable("not found") from error
    except OSError as error:
        raise Unavailable(f"cannot be copied ({error.strerror or error})") from error


def download(url: str, target: Path) -> None:
    """Downloads `url` to `target`, with a progress bar. Raises `Unavailable` if the network or the
    server fails, including a response that ends early, and `OSError` if `target` cannot be written;
    it is then incomplete."""
    import requests
    from rich.console import Console
    from rich.progress import Progress

    as_stored = {
        "Accept-Encoding": "identity",
        "User-Agent": "rnnbench",
    }
    try:
        with (
            requests.get(url, stream=True, timeout=TIMEOUT, headers=as_stored) as response,
            Progress(console=Console(stderr=True)) as bar,
            target.open("wb") as file,
        ):
            response.raise_for_status()
            length = int(response.headers.get("Content-Length") or 0)
            task = bar.add_task(target.name, total=length or None)
            for chunk in response.iter_content(1 << 18):
                file.write(chunk)
                bar.advance(task, len(chunk))
    except requests.RequestException as error:
        raise Unavailable(str(error)) from error


def from_cache(pin: Pinned, root: Path, target: Path) -> None:
    """Copies the pinned bytes from the DVC cache of `root` to `target`. If the cache lacks them and
    a default remote is configured, they are fetched first. Raises `Unavailable`."""
    try:
        with _repository(root) as repository:
            cached = Path(repository.cache.local.oid_to_path(pin.md5))
            config = repository.config
            if not cached.exists() and config["core"].get("remote") in config["remote"]:
                repository.fetch([str(root / pin.path)])
            if not cached.exists():
                raise Unavailable("not found")
            shutil.copyfile(cached, target)
    except Unavailable:
        raise
    except Exception as error:  # remotes raise many types; the next source may work
        raise Unavailable(f"{type(error).__name__}: {error}") from error


def to_cache(pin: Pinned, root: Path) -> None:
    """Adds the verified file of `pin` to the DVC cache of `root`, if that is a DVC repository. If
    the cache cannot be written, logs a warning: the file itself is in place."""
    if not (root / DVC).is_dir():
        return
    try:
        from dvc.fs import localfs

        with _repository(root) as repository, locked(root / DVC / "tmp" / "rnnbench.lock"):
            cached = Path(repository.cache.local.oid_to_path(pin.md5))
            if is_pinned(cached, pin):
                return
            cached.unlink(missing_ok=True)
            repository.cache.local.add(str(root / pin.path), localfs, pin.md5)
            if not is_pinned(cached, pin):
                raise OSError("the bytes in the cache are wrong")
    except Exception as error:  # the verified file can be used in any case
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        log.warning("%s was not added to the DVC cache (%s); it is used anyway.", pin.path, reason)


@contextmanager
def _repository(root: Path) -> Iterator[Any]:
    """DVC's repository in the folder `root`. Raises `Unavailable` if there is none."""
    if not (root / DVC).is_dir():
        raise Unavailable(f"{root} is not a DVC repository")
    from dvc.logger import set_loggers_level
    from dvc.repo import Repo

    # Silenced: DVC logs to standard output, and its errors are reported from its exceptions.
    # Without git, so that an unpacked archive of the project works too.
    with set_loggers_level(logging.CRITICAL + 1), Repo(str(root), config=NO_GIT) as repository:
        yield repository
