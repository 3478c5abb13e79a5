"""The MLflow store: its address, a client of it, and its creation before anything is logged to it.

If several processes log to a store that does not exist, MLflow fails in all but one of them. So
one process creates the database under a temporary name and moves it into place when it is complete.
"""

from __future__ import annotations

import os
import re
import sqlite3
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit, urlunsplit

from rnnbench.errors import TrackingError, say
from rnnbench.locks import locked

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment, Run

VARIABLE = "MLFLOW_TRACKING_URI"
SECRETS = ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")


def tracking_uri(root: Path) -> str:
    """`MLFLOW_TRACKING_URI` if it is set, else the SQLite file of this project."""
    return os.environ.get(VARIABLE) or f"sqlite:///{root.resolve() / 'mlflow.db'}"


def is_server(uri: str) -> bool:
    return uri.startswith(("http://", "https://"))


def database_file(uri: str) -> Path | None:
    """The database file of an SQLite store; None for any other store."""
    if not uri.startswith("sqlite:///"):
        return None
    name = uri.removeprefix("sqlite:///").partition("?")[0]
    if name in ("", ":memory:"):
        return None
    return Path(name).resolve()


def redacted(text: str, uri: str = "") -> str:
    """`text` on one line, without any ``user:password@`` and with the passwords of `uri` and of
    the environment masked."""
    secrets = {os.environ.get(name) for name in SECRETS}
    try:
        password = urlsplit(uri).password or ""
        secrets |= {password, unquote(password)}
    except ValueError:
        pass  # an address that cannot be read has no password
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "***")
    return " ".join(re.sub(r"://[^/\s]*@", "://", text).split())


TIMEOUT = 5.0  # seconds to wait for a server to answer
SUFFIXES = ("-journal", "-wal", "-shm", "")  # SQLite's files; the database is the last
ARTIFACTS = "mlruns"
# Defaults for variables that the user has not set. Errors arrive as exceptions; no log is needed.
SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
}

# MLflow and the packages that it uses, whose errors are faults of the store.
OF_MLFLOW = ("mlflow", "sqlalchemy", "alembic", "requests", "urllib3", "sqlite3")

# MLflow 3 shows an experiment without a kind as generative AI, whose runs are evaluations.
KIND = {"mlflow.experimentKind": "custom_model_development"}


@contextmanager
def connected(root: Path) -> Iterator[MlflowClient]:
    """A client of the store. Any exception of MLflow in the block becomes a `TrackingError`."""
    uri = tracking_uri(root)
    with _translated(uri):
        prepare()
        from mlflow import MlflowClient

        yield MlflowClient(tracking_uri=uri)


def experiment_id(client: MlflowClient, root: Path, name: str) -> str:
    """The id of the experiment, which is created if it does not exist."""
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        home = root.resolve()
        location = None
        if database_file(tracking_uri(root)) == home / "mlflow.db":
            location = str(home / ARTIFACTS / name)
        try:
            return str(client.create_experiment(name, location, KIND))
        except Exception:  # another process may have created it first
            experiment = client.get_experiment_by_name(name)
            if experiment is None:
                raise
    check_active(experiment, root)
    return str(experiment.experiment_id)


def check_active(experiment: Experiment, root: Path) -> None:
    """Raises a `TrackingError` if the experiment was deleted in MLflow, which keeps its name."""
    if experiment.lifecycle_stage != "active":
        raise TrackingError(
            f"the experiment {experiment.name!r} was deleted in MLflow, so nothing is logged to "
            "it.",
            where=redacted(tracking_uri(root)),
            remedy=f"run `mlflow experiments restore --experiment-id {experiment.experiment_id}`.",
        )


def all_runs(client: MlflowClient, experiment: str, condition: str = "") -> list[Run]:
    """All runs of the experiment `experiment` (an id) that satisfy the condition."""
    page = client.search_runs([experiment], condition)
    runs = list(page)
    while page.token:
        page = client.search_runs([experiment], condition, page_token=page.token)
        runs += page
    return runs


def prepare() -> None:
    """Disables telemetry and logging and shortens timeouts. Call it before importing MLflow."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    warnings.filterwarnings("ignore", module=r"(mlflow|alembic|sqlalchemy)\b")


@contextmanager
def _translated(uri: str) -> Iterator[None]:
    """Errors of MLflow in the block become a `TrackingError` with the first line of their text that
    says something, in at most 300 characters."""
    try:
        yield
    except Exception as error:
        packages = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
        if not isinstance(error, OSError) and packages.isdisjoint(OF_MLFLOW):
            raise

        text = type(error).__name__
        for line in str(error).splitlines():
            # SQLAlchemy puts a hint about its own use before some errors.
            if line.strip() and not line.startswith("(raised as a result"):
                text = line
                break
        text = text.partition(" Supported URI schemes are")[0]  # more than twenty
        if len(text) > 300:
            text = f"{text[:300]}…"
        # `from None`: the cause would reveal the password in the address.
        raise TrackingError(
            redacted(text, uri),
            where=redacted(uri, uri),
            remedy=f"correct {VARIABLE}, or check that the store exists and has space. "
            "The records are safe; run the same command again to log them.",
        ) from None


def say_if_unusable(root: Path) -> None:
    """Says before anything is measured that nothing can be logged, because the server does not
    respond, or the file is corrupt or not a store of MLflow. Creates nothing."""
    uri = tracking_uri(root)
    database = database_file(uri)
    try:
        if is_server(uri):
            check_server(uri)
        if database is not None:
            with _readable(database):
                has_tables(database)
    except TrackingError as error:
        say(error)


def ensure_store(root: Path) -> None:
    """Creates the store if it does not exist. Raises `TrackingError`, also for a file that is
    corrupt or not a database."""
    uri = tracking_uri(root)
    if is_server(uri):
        check_server(uri)
    database = database_file(uri)
    if database is None:
        return
    with _readable(database), locked(database.with_name(f"{database.name}.lock")):
        if not has_tables(database):
            _create(database)
        elif database == root.resolve() / database.name:
            adopt_artifacts(database)


@contextmanager
def _readable(database: Path) -> Iterator[None]:
    """Errors of the file system and of locks in the block become a `TrackingError`."""
    try:
        yield
    except (OSError, sqlite3.OperationalError) as error:
        raise TrackingError(
            f"the MLflow store cannot be created or read ({error}).",
            where=str(database),
            remedy=f"make the folder writable, or set {VARIABLE}.",
        ) from error


def has_tables(database: Path) -> bool:
    """Whether MLflow's tables are in the file; False if it is missing or empty.

    Raises `TrackingError` for a file that is corrupt or another database.
    """
    if not database.exists() or database.stat().st_size == 0:
        return False
    try:
        with closing(sqlite3.connect(database, timeout=20)) as connection:
            check = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:
        check, tables = str(error), {""}
    if check == "ok" and not tables:
        return False
    if check == "ok" and "alembic_version" in tables:
        return True
    why = check
    if check == "ok":
        why = "it is a database of another program"
    raise TrackingError(
        f"the MLflow store is damaged ({why}).",
        where=str(database),
        remedy="move it away, then run `rnnbench track --all`: it logs every record again. The "
        "records are safe.",
    )


def adopt_artifacts(database: Path) -> None:
    """Makes the artifact paths, which are absolute, those of the folder that the `database` is in:
    otherwise a project that was moved or copied writes into the folder where it was created."""
    here = str(database.parent / ARTIFACTS)
    with closing(sqlite3.connect(database, timeout=20)) as connection, connection:
        query = "SELECT artifact_location FROM experiments WHERE experiment_id = 0"
        row = connection.execute(query).fetchone()
        if not row:
            return
        there = str(row[0]).removesuffix("/0")
        if there == here or not there.endswith(f"/{ARTIFACTS}"):
            return
        length = len(there) + 1
        for table, column in (("experiments", "artifact_location"), ("runs", "artifact_uri")):
            connection.execute(
                f"UPDATE {table} SET {column} = ? || substr({column}, ?) "
                f"WHERE substr({column}, 1, ?) = ?",
                (here, length, length, f"{there}/"),
            )


def _create(database: Path) -> None:
    """Creates a complete database under another name, and moves it into place."""
    new = database.with_name(f"{database.name}.new")
    _remove(new)
    with _translated(f"sqlite:///{new}"):
        prepare()
        from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

        store = SqlAlchemyStore(f"sqlite:///{new}", str(database.parent / ARTIFACTS))
        store.engine.dispose()
    # SQLite would replay the journal of a missing or empty database into the new one.
    _remove(database)
    new.replace(database)


def _remove(database: Path) -> None:
    """Removes a database with its journals, if it exists."""
    for suffix in SUFFIXES:
        database.with_name(database.name + suffix).unlink(missing_ok=True)


def check_server(uri: str) -> None:
    """Raises a `TrackingError` unless the server responds; any response will do. Call it before
    importing MLflow, whose own retries would take minutes to fail."""
    parts = urlsplit(uri)
    host = parts.netloc.rpartition("@")[2]
    address = urlunsplit(parts._replace(netloc=host, path=f"{parts.path}/health"))
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
