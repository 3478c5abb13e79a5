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
from rnnbench.tracking.run_matching import Found
from rnnbench.tracking.track import search

if TYPE_CHECKING:
    from mlflow import MlflowClient

OWN = {"record.json": ".json"}
BESIDE = {"events.jsonl": ".events.jsonl", "run.log": ".log"}


def fetch(
    root: Path, experiment: str, known: Callable[[str, str], bool]
) -> Iterator[tuple[str, dict[str, bytes] | None]]:
    """Record key → its files by suffix (``.json``, ``.events.jsonl``, ``.log``), for each record
    of the experiment that was logged whole; None where `known(key, sha256)` says that it is
    here. A record that is not, byte for byte, what was logged raises a `RecordError`.
    """
    with connected(root) as client:
        for run in _complete(client, root, experiment):
            key = run.tags.get(RECORD, "")
            here = known(key, run.tags[COMPLETE])
            yield key, None if here else _files(client, run, key, {**OWN, **BESIDE})


def fetch_records(root: Path, experiment: str) -> list[Record]:
    """The records of the experiment that MLflow has, without a file written here; each is, byte
    for byte, what was logged (or a `RecordError`)."""
    with connected(root) as client:
        found = []
        for run in _complete(client, root, experiment):
            key = run.tags.get(RECORD, "")
            data = strict_json.loads(_files(client, run, key, OWN)[".json"])
            found.append(Record.from_json(data, where=f"record.json of MLflow's run {run.run_id}"))
        return found


def _complete(client: MlflowClient, root: Path, experiment: str) -> list[Found]:
    """The runs of the experiment that were logged whole."""
    found = client.get_experiment_by_name(experiment)
    if found is None:
        raise TrackingError(
            f"has no experiment {experiment!r}.",
            where=redacted(tracking_uri(root)),
            remedy="see its page for those it has.",
        )
    return search(client, found.experiment_id, f"tags.`{COMPLETE}` != ''")


def _files(
    client: MlflowClient, run: Found, key: str, wanted: Mapping[str, str]
) -> dict[str, bytes]:
    there = {file.path for file in client.list_artifacts(run.run_id)}
    files: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory(prefix="rnnbench-") as folder:
        for artifact, suffix in wanted.items():
            if artifact in there:
                path = client.download_artifacts(run.run_id, artifact, folder)
                files[suffix] = Path(path).read_bytes()
    if hashlib.sha256(files.get(".json", b"")).hexdigest() != run.tags[COMPLETE]:
        raise RecordError(
            "is not what was logged; nothing was imported.",
            where=f"record.json of MLflow's run {run.run_id} ({key})",
            remedy="delete that run in MLflow; at its machine `rnnbench track --all` logs it anew.",
        )
    return files
