"""The MLflow client: imported lazily, silenced, and with its errors reduced to one line."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnnbench.errors import TrackingError
from rnnbench.tracking.address import VARIABLE, database_file, redacted, tracking_uri

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

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


def create_database(uri: str, artifacts: Path) -> None:
    """Creates an SQLite store with all its tables."""
    with _translated(uri):
        prepare()
        from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

        store = SqlAlchemyStore(uri, str(artifacts))
        store.engine.dispose()


def experiment_id(client: MlflowClient, root: Path, name: str) -> str:
    """The id of the experiment, which is created if it does not exist."""
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        location = str(root.resolve() / "mlruns" / name) if _is_project_store(root) else None
        try:
            return str(client.create_experiment(name, location, KIND))
        except Exception:  # another process may have created it first
            experiment = client.get_experiment_by_name(name)
            if experiment is None:
                raise
    if experiment.lifecycle_stage != "active":
        raise TrackingError(
            f"the experiment {name!r} was deleted in MLflow.",
            where=redacted(tracking_uri(root)),
            remedy=f"run `mlflow experiments restore --experiment-id {experiment.experiment_id}`.",
        )
    return str(experiment.experiment_id)


def all_runs(client: MlflowClient, experiment: str, condition: str = "") -> list[Run]:
    """All runs of the experiment `experiment` (an id) that satisfy the condition."""
    runs: list[Run] = []
    token = None
    while True:
        page = client.search_runs([experiment], condition, page_token=token)
        runs += page
        token = page.token
        if not token:
            return runs


def prepare() -> None:
    """Disables telemetry and logging and shortens timeouts. Call it before importing MLflow."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    warnings.filterwarnings("ignore", module=r"(mlflow|alembic|sqlalchemy)\b")


def _is_project_store(root: Path) -> bool:
    return database_file(tracking_uri(root)) == root.resolve() / "mlflow.db"


@contextmanager
def _translated(uri: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if not (isinstance(error, OSError) or _is_mlflow_error(error)):
            raise
        # `from None`: the cause would reveal the password in the address.
        raise TrackingError(
            redacted(_first_line(error), uri),
            where=redacted(uri, uri),
            remedy=f"check that the store exists and has space, and that {VARIABLE} is correct. "
            "The records are safe; run the same command again to log them.",
        ) from None


def _is_mlflow_error(error: BaseException) -> bool:
    """Whether MLflow or a library it uses raised the error; imports neither."""
    families = {"mlflow", "sqlalchemy", "alembic", "requests", "urllib3", "sqlite3"}
    return any(kind.__module__.partition(".")[0] in families for kind in type(error).__mro__)


def _first_line(error: Any) -> str:
    # SQLAlchemy puts a hint about its own use before some errors.
    lines = (line for line in str(error).splitlines() if not line.startswith("(raised as a result"))
    text = next(filter(str.strip, lines), type(error).__name__)
    return text if len(text) <= 300 else f"{text[:300]}…"
