"""MLflow itself: imported here alone, late, quiet, and with its faults in one line."""

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

# Set unless the person has set them. A fault comes as one exception, not as a log of it.
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

# MLflow 3 opens an experiment of unknown kind as one of generative AI, whose runs are evaluations.
KIND = {"mlflow.experimentKind": "custom_model_development"}


@contextmanager
def connected(root: Path) -> Iterator[MlflowClient]:
    """A client of the store; whatever MLflow raises inside becomes a `TrackingError`."""
    uri = tracking_uri(root)
    with _translated(uri):
        prepare()
        from mlflow import MlflowClient

        yield MlflowClient(tracking_uri=uri)


def create_database(uri: str, artifacts: Path) -> None:
    """All tables of an SQLite store that does not exist."""
    with _translated(uri):
        prepare()
        from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

        store = SqlAlchemyStore(uri, str(artifacts))
        store.engine.dispose()


def experiment_id(client: MlflowClient, root: Path, name: str) -> str:
    """The experiment's id; it is created where it does not exist."""
    found = client.get_experiment_by_name(name)
    if found is None:
        location = str(root.resolve() / "mlruns" / name) if _is_own(root) else None
        try:
            return str(client.create_experiment(name, location, KIND))
        except Exception:  # another process may have been faster
            found = client.get_experiment_by_name(name)
            if found is None:
                raise
    if found.lifecycle_stage != "active":
        raise TrackingError(
            f"experiment {name!r} was deleted in MLflow.",
            where=redacted(tracking_uri(root)),
            remedy=f"mlflow experiments restore --experiment-id {found.experiment_id}",
        )
    return str(found.experiment_id)


def prepare() -> None:
    """Telemetry off, chatter off, short time-outs; before MLflow is imported."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    warnings.filterwarnings("ignore", module=r"(mlflow|alembic|sqlalchemy)\b")


def _is_own(root: Path) -> bool:
    return database_file(tracking_uri(root)) == root.resolve() / "mlflow.db"


@contextmanager
def _translated(uri: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if not (isinstance(error, OSError) or _is_of_mlflow(error)):
            raise
        # `from None`: the cause would show the address with its password.
        raise TrackingError(
            redacted(_first_line(error), uri),
            where=redacted(uri, uri),
            remedy=f"see that the store is there and {VARIABLE} is right; the records are safe "
            "and the same command logs them later.",
        ) from None


def _is_of_mlflow(error: BaseException) -> bool:
    """True for what MLflow and the libraries below it raise, without importing them."""
    families = {"mlflow", "sqlalchemy", "alembic", "requests", "urllib3", "sqlite3"}
    return any(kind.__module__.partition(".")[0] in families for kind in type(error).__mro__)


def _first_line(error: Any) -> str:
    text = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return text if len(text) <= 300 else f"{text[:300]}…"
