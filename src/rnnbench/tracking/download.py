"""MLflow → the files of an experiment's records, as `track` uploaded them."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rnnbench.errors import RecordError, TrackingError
from rnnbench.records import strict_json
from rnnbench.records.record import Record
from rnnbench.tracking.address import redacted, tracking_uri
from rnnbench.tracking.client import connected
from rnnbench.tracking.mapping import COMPLETE, RECORD
from rnnbench.tracking.track import TrackedRun, search

if TYPE_CHECKING:
    from mlflow import MlflowClient

# MLflow artifact → suffix of the local file.
RECORD_FILE = {"record.json": ".json"}
ALL_FILES = {**RECORD_FILE, "events.jsonl": ".events.jsonl", "run.log": ".log"}


def fetch(
    root: Path, experiment: str, known: Callable[[str, str], bool]
) -> Iterator[tuple[str, dict[str, bytes] | None]]:
    """Yields, for each completely logged record of the experiment, its key and its files by suffix
    (``.json``, ``.events.jsonl``, ``.log``), or None if `known(key, sha256)` says that the record
    exists locally. Raises `RecordError` if a record differs from what was logged.
    """
    with connected(root) as client:
        for run in _complete_runs(client, root, experiment):
            key = run.tags.get(RECORD, "")
            exists = known(key, run.tags[COMPLETE])
            yield key, None if exists else _files(client, run, key, ALL_FILES)


def fetch_records(root: Path, experiment: str) -> list[Record]:
    """The completely logged records of the experiment; writes no file. Raises `RecordError` if a
    record differs from what was logged."""
    with connected(root) as client:
        records = []
        for run in _complete_runs(client, root, experiment):
            files = _files(client, run, run.tags.get(RECORD, ""), RECORD_FILE)
            data = strict_json.loads(files[".json"])
            where = f"record.json of the MLflow run {run.run_id}"
            records.append(Record.from_json(data, where=where))
        return records


def _complete_runs(client: MlflowClient, root: Path, name: str) -> list[TrackedRun]:
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        raise TrackingError(
            f"has no experiment {name!r}.",
            where=redacted(tracking_uri(root)),
            remedy="open its page to see which experiments it has.",
        )
    return search(client, experiment.experiment_id, f"tags.`{COMPLETE}` != ''")


def _files(
    client: MlflowClient, run: TrackedRun, key: str, suffixes: Mapping[str, str]
) -> dict[str, bytes]:
    available = {file.path for file in client.list_artifacts(run.run_id)}
    files: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory(prefix="rnnbench-") as folder:
        for artifact, suffix in suffixes.items():
            if artifact in available:
                path = client.download_artifacts(run.run_id, artifact, folder)
                files[suffix] = Path(path).read_bytes()
    if hashlib.sha256(files.get(".json", b"")).hexdigest() != run.tags[COMPLETE]:
        raise RecordError(
            "differs from what was logged; nothing was imported.",
            where=f"record.json of the MLflow run {run.run_id} ({key})",
            remedy="delete that run in MLflow, then run `rnnbench track --all` on the machine that "
            "measured it.",
        )
    return files
