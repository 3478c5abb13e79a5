"""The store exists, whole, before anything is logged to it.

Four processes that log to a store not yet created killed three of them, so it is made by
one, beside its place, and moved there when it is whole.
"""

from __future__ import annotations

import fcntl
import sqlite3
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from rnnbench.errors import TrackingError
from rnnbench.records import timestamps
from rnnbench.tracking import client
from rnnbench.tracking.address import VARIABLE, database_file, is_server, redacted, tracking_uri

WAIT = 5.0  # seconds for a server to answer at all
ABSENT, WHOLE, BROKEN = "absent", "whole", "broken"


def ensure_store(root: Path) -> Path | None:
    """Makes the store if it is not there, or raises a `TrackingError`.

    A database that is none, or a malformed one, is set aside as ``mlflow.db.corrupt-TIME``
    and made anew. **Returns** what was set aside: the records must then fill the new one.
    """
    uri = tracking_uri(root)
    if is_server(uri):
        reach(uri)
    database = database_file(uri)
    if database is None:
        return None
    try:
        database.parent.mkdir(parents=True, exist_ok=True)
        with _lock(database):
            state = inspect(database)
            aside = _set_aside(database) if state == BROKEN else None
            if state != WHOLE:
                _create(database)
    except (OSError, sqlite3.OperationalError) as error:
        raise TrackingError(
            f"the MLflow store cannot be made or read ({error}).",
            where=str(database),
            remedy=f"make the folder writable, or set {VARIABLE}.",
        ) from error
    return aside


def inspect(database: Path) -> str:
    """`ABSENT` (or empty), `WHOLE` or `BROKEN`."""
    if not database.exists() or database.stat().st_size == 0:
        return ABSENT
    try:
        with closing(sqlite3.connect(database, timeout=20)) as connection:
            if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                return BROKEN
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        return BROKEN
    return WHOLE if "alembic_version" in tables else BROKEN if tables else ABSENT


def _create(database: Path) -> None:
    new = database.with_name(f"{database.name}.new")
    _remove(new)
    client.create_database(f"sqlite:///{new}", artifacts=database.parent / "mlruns")
    # The journal of an absent or empty database would be played into the new one.
    _remove(database)
    new.replace(database)


def _set_aside(database: Path) -> Path:
    time = timestamps.now()
    aside = database.with_name(f"{database.name}.corrupt-{time}")
    for suffix in ("-journal", "-wal", "-shm", ""):
        part = database.with_name(database.name + suffix)
        if part.exists():
            part.replace(f"{aside}{suffix}")
    return aside


def _remove(database: Path) -> None:
    for suffix in ("-journal", "-wal", "-shm", ""):
        database.with_name(database.name + suffix).unlink(missing_ok=True)


@contextmanager
def _lock(database: Path) -> Iterator[None]:
    with database.with_name(f"{database.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def reach(uri: str) -> None:
    """Asks once, before MLflow is imported, whether there is a server at all: its own
    retries would take minutes to find out. Any answer will do; none is a `TrackingError`."""
    parts = urlsplit(uri)
    address = urlunsplit(
        parts._replace(netloc=parts.netloc.rpartition("@")[2], path=f"{parts.path}/health")
    )
    try:
        with urllib.request.urlopen(address, timeout=WAIT):
            pass
    except urllib.error.HTTPError:
        pass
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "reason", error))
        if "certificate" not in reason.lower():  # MLflow has its own settings for these
            raise TrackingError(
                f"the MLflow server cannot be reached ({redacted(reason, uri)}).",
                where=redacted(uri, uri),
                remedy=f"start it or correct {VARIABLE}; the records are safe and the same "
                "command logs them later.",
            ) from None
