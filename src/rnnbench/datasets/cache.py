"""Reads datasets from the DVC cache and remote, and adds verified ones to the cache.

``data.dvc`` is never written. `Repo.commit` would write it: with ``force`` it hashes every file of
``data.dvc`` and pins its current content. So a single output is saved and committed, which adds its
bytes to the cache and leaves ``data.dvc`` unchanged.

DVC is imported inside the functions: the import takes a second or two, and most calls do not need
it.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rnnbench.datasets.download import Unavailable
from rnnbench.datasets.pins import Pinned
from rnnbench.datasets.verify import is_pinned, md5_of
from rnnbench.locks import locked

NO_GIT = {"core": {"no_scm": True}}
log = logging.getLogger(__name__)


def from_cache(pin: Pinned, root: Path, target: Path) -> None:
    """Copies the pinned bytes from the DVC cache of `root` to `target`. If the cache lacks them and
    a default remote is configured, they are fetched first. Raises `Unavailable`."""
    try:
        with _repository(root) as repository:
            cached = _cached(repository, pin)
            if not cached.exists() and repository.config["core"].get("remote"):
                repository.fetch([str(root / pin.path)])
            if not cached.exists():
                raise Unavailable("not found")
            shutil.copyfile(cached, target)
    except Unavailable:
        raise
    except Exception as error:  # remotes raise many types; the next source may work
        raise Unavailable(f"{type(error).__name__}: {error}") from error


def to_cache(pin: Pinned, root: Path) -> None:
    """Adds the verified file of `pin` to the DVC cache of `root`. If the cache cannot be written,
    logs a warning: the file itself is in place."""
    try:
        with _repository(root) as repository, locked(root / ".dvc" / "tmp" / "rnnbench.lock"):
            cached = _cached(repository, pin)
            if cached.exists() and md5_of(cached) == pin.md5:
                return
            cached.unlink(missing_ok=True)
            (output,) = repository.find_outs_by_path(str(root / pin.path))
            output.save()
            output.commit(relink=False)
            if not is_pinned(cached, pin):
                raise OSError("the bytes in the cache are wrong")
    except Exception as error:  # the verified file can be used in any case
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        log.warning("%s was not added to the DVC cache (%s); it is used anyway.", pin.path, reason)


@contextmanager
def _repository(root: Path) -> Iterator[Any]:
    if not (root / ".dvc").is_dir():
        raise Unavailable(f"{root} is not a DVC repository")
    from dvc.logger import set_loggers_level
    from dvc.repo import Repo

    # Silenced: DVC logs to standard output, and its errors are reported from its exceptions.
    # Without git, so that an unpacked archive of the project works too.
    with set_loggers_level(logging.CRITICAL + 1), Repo(str(root), config=NO_GIT) as repository:
        yield repository


def _cached(repository: Any, pin: Pinned) -> Path:
    return Path(repository.cache.local.oid_to_path(pin.md5))
