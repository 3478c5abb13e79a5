"""The DVC cache and remote: bytes out, and verified bytes in.

``data.dvc`` is only read. `Repo.commit` would write it: with ``force`` it hashes every
sibling that lies in ``data/`` and pins whatever it finds there. So the one output is saved
and committed by itself, which adds its bytes to the cache and leaves the file alone.

DVC is imported inside the functions: it takes a second or two, and most calls need none.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rnnbench.datasets.pins import Pinned
from rnnbench.datasets.unavailable import Unavailable
from rnnbench.datasets.verify import is_pinned, md5_of
from rnnbench.locks import locked

NO_GIT = {"core": {"no_scm": True}}
log = logging.getLogger(__name__)


def from_cache(pin: Pinned, root: Path, target: Path) -> None:
    """Copies the pinned bytes to `target` from the DVC cache of `root`, into which they are
    fetched first if it lacks them and a default remote is configured. Raises `Unavailable`."""
    try:
        with _repository(root) as repository:
            cached = _cached(repository, pin)
            if not cached.exists() and repository.config["core"].get("remote"):
                repository.fetch([str(root / pin.path)])
            if not cached.exists():
                raise Unavailable("not there")
            shutil.copyfile(cached, target)
    except Unavailable:
        raise
    except Exception as error:  # any remote has its own exceptions; the next source may work
        raise Unavailable(f"{type(error).__name__}: {error}") from error


def to_cache(pin: Pinned, root: Path) -> None:
    """Adds the file of `pin`, whose bytes were verified, to the DVC cache of `root`. A cache
    that cannot be written is a warning: the file itself is in place."""
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
                raise OSError("the cache did not take it")
    except Exception as error:  # whatever DVC says, the verified file is there to train on
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        log.warning("%s is not in the DVC cache (%s); it is used all the same.", pin.path, reason)


@contextmanager
def _repository(root: Path) -> Iterator[Any]:
    if not (root / ".dvc").is_dir():
        raise Unavailable(f"{root} is no DVC repository")
    from dvc.logger import set_loggers_level
    from dvc.repo import Repo

    # Silent: DVC logs to standard output, and what goes wrong is told here as its exception.
    # Without git: an unpacked archive of the project works too.
    with set_loggers_level(logging.CRITICAL + 1), Repo(str(root), config=NO_GIT) as repository:
        yield repository


def _cached(repository: Any, pin: Pinned) -> Path:
    return Path(repository.cache.local.oid_to_path(pin.md5))
