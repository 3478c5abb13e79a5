"""Creates the MLflow store before anything is logged to it.

If several processes log to a store that does not exist, MLflow fails in all but one of them. So
one process creates the database under a temporary name and moves it into place when it is complete.
"""

from __future__ import annotations

import sqlite3
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from rnnbench.errors import TrackingError
from rnnbench.locks import locked
from rnnbench.records import timestamps
from rnnbench.tracking import client
from rnnbench.tracking.address import VARIABLE, database_file, is_server, redacted, tracking_uri

TIMEOUT = 5.0  # seconds to wait for a server to answer
SUFFIXES = ("-journal", "-wal", "-shm", "")  # SQLite's files; the database is the last
ARTIFACTS = "mlruns"
MISSING, VALID, CORRUPT = "missing", "valid", "corrupt"


def ensure_store(root: Path) -> Path | None:
    """Creates the store if it does not exist. Raises `TrackingError`.

    A file that is corrupt or not a database is set aside as ``mlflow.db.corrupt-TIME`` and
    replaced by a new database. **Returns** the file that was set aside, if any: the caller must
    then log all records to the new database.
    """
    uri = tracking_uri(root)
    if is_server(uri):
        check_server(uri)
    database = database_file(uri)
    if database is None:
        return None
    try:
        with locked(database.with_name(f"{database.name}.lock")):
            state = inspect(database)
            aside = _set_aside(database) if state == CORRUPT else None
            if state != VALID:
                _create(database)
            elif database == root.resolve() / database.name:
                adopt_artifacts(database)
    except (OSError, sqlite3.OperationalError) as error:
        raise TrackingError(
            f"the MLflow store cannot be created or read ({error}).",
            where=str(database),
            remedy=f"make the folder writable, or set {VARIABLE}.",
        ) from error
    return aside


def inspect(database: Path) -> str:
    """`MISSING` (or empty), `VALID` or `CORRUPT`."""
    if not database.exists() or database.stat().st_size == 0:
        return MISSING
    try:
        with closing(sqlite3.connect(database, timeout=20)) as connection:
            if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                return CORRUPT
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        return CORRUPT
    return VALID if "alembic_version" in tables else CORRUPT if tables else MISSING


def adopt_artifacts(database: Path) -> None:
    """Makes the artifact paths, which are absolute, those of the folder that the `database` is in:
    otherwise a project that was moved or copied writes into the folder where it was created."""
    here = str(database.parent / ARTIFACTS)
    with closing(sqlite3.connect(database, timeout=20)) as connection, connection:
        row = connection.execute(
            "SELECT artifact_location FROM experiments WHERE experiment_id = 0"
        ).fetchone()
        there = str(row[0]).removesuffix("/0") if row else here
        if there == here or not there.endswith(f"/{ARTIFACTS}"):
            return
        for table, column in (("experiments", "artifact_location"), ("runs", "artifact_uri")):
            connection.execute(
                f"UPDATE {table} SET {column} = ? || substr({column}, ?) "
                f"WHERE substr({column}, 1, ?) = ?",
                (here, len(there) + 1, len(there) + 1, f"{there}/"),
            )


def _create(database: Path) -> None:
    new = database.with_name(f"{database.name}.new")
    _remove(new)
    client.create_database(f"sqlite:///{new}", artifacts=database.parent / ARTIFACTS)
    # SQLite would replay the journal of a missing or empty database into the new one.
    _remove(database)
    new.replace(database)


def _set_aside(database: Path) -> Path:
    aside = database.with_name(f"{database.name}.corrupt-{timestamps.now()}")
    for suffix in SUFFIXES:
        file = database.with_name(database.name + suffix)
        if file.exists():
            file.replace(f"{aside}{suffix}")
    return aside


def _remove(database: Path) -> None:
    for suffix in SUFFIXES:
        database.with_name(database.name + suffix).unlink(missing_ok=True)


def check_server(uri: str) -> None:
    """Raises a `TrackingError` unless the server responds; any response will do. Call it before
    importing MLflow, whose own retries would take minutes to fail."""
    parts = urlsplit(uri)
    address = urlunsplit(
        parts._replace(netloc=parts.netloc.rpartition("@")[2], path=f"{parts.path}/health")
    )
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT):
            pass
    except urllib.error.HTTPError:
        pass
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "reason", error))
        if "certificate" not in reason.lower():  # MLflow has its own certificate settings
            raise TrackingError(
                f"the MLflow server cannot be reached ({redacted(reason, uri)}).",
                where=redacted(uri, uri),
                remedy=f"start it or correct {VARIABLE}. The records are safe; run the same "
                "command again to log them.",
            ) from None
