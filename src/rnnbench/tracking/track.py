"""Logs records to MLflow. Idempotent: a record is one run, however often it is logged."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnnbench.records.record import Record
from rnnbench.records.timestamps import milliseconds
from rnnbench.tracking import mapping, metrics
from rnnbench.tracking.client import all_runs, connected, experiment_id
from rnnbench.tracking.mapping import COMPLETE, RECORD
from rnnbench.tracking.metrics import Point
from rnnbench.tracking.store import ensure_store

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

PARAMS, METRICS = 100, 800  # per request; MLflow accepts 100 params, 100 tags, 1000 items in all


def track(records: Sequence[tuple[Record, Path]], root: Path) -> dict[str, str]:
    """Logs `records`, each given with the file it was read from.

    Each rnnbench experiment has one MLflow experiment. A record that MLflow already has is updated
    in its own run, or skipped if it is complete. **Returns** record key → MLflow run id; **raises**
    `TrackingError`, after which the same call continues where it stopped.
    """
    ensure_store(root)
    runs: dict[str, str] = {}
    with connected(root) as client:
        for name in sorted({record.experiment for record, _ in records}):
            batch = [(record, file) for record, file in records if record.experiment == name]
            experiment = experiment_id(client, root, name)
            for record, file in batch:
                runs[record.key] = _upsert(client, experiment, record, file)
    return runs


def _runs_of_record(client: MlflowClient, experiment: str, key: str) -> list[Run]:
    """The runs of one record, even if the user has renamed them, with the run to keep first. There
    are several if a server created a run and died before it could respond."""
    found = all_runs(client, experiment, f"tags.`{RECORD}` = '{key}'")
    return kept_first(run for run in found if run.data.tags.get(RECORD) == key)


def kept_first(runs: Iterable[Run]) -> list[Run]:
    def rank(run: Run) -> tuple[bool, int, str]:
        return COMPLETE not in run.data.tags, -len(run.data.params), run.info.run_id

    return sorted(runs, key=rank)


def _upsert(client: MlflowClient, experiment: str, record: Record, file: Path) -> str:
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    runs = _runs_of_record(client, experiment, record.key)
    _delete(client, runs[1:])
    if runs and runs[0].data.tags.get(COMPLETE) == digest:
        return str(runs[0].info.run_id)
    tags, start = mapping.tags(record), milliseconds(record.started)
    run = runs[0] if runs else client.create_run(experiment, start, tags, record.name)
    run_id = str(run.info.run_id)
    params = mapping.params(record.run.choices, record.run.config)
    _log(client, run, params, tags if runs else {}, metrics.metrics(record))
    _log_dataset(client, run_id, record)
    _log_files(client, run_id, record, file)
    status = "FAILED" if record.verdict.status == "void" else "FINISHED"
    client.set_terminated(run_id, status, milliseconds(record.finished))
    client.set_tag(run_id, COMPLETE, digest)
    if not runs:
        _delete(client, _runs_of_record(client, experiment, record.key)[1:])
    return run_id


def _log(
    client: MlflowClient,
    run: Run,
    params: Mapping[str, str],
    tags: Mapping[str, str],
    points: Sequence[Point],
) -> None:
    from mlflow.entities import Metric, Param, RunTag

    # MLflow refuses to change a param, so existing ones are not sent again.
    batches = zip_longest(
        _batches([Metric(p.key, p.value, p.timestamp, p.step) for p in points], METRICS),
        _batches([Param(k, v) for k, v in params.items() if k not in run.data.params], PARAMS),
        _batches([RunTag(key, value) for key, value in tags.items()], PARAMS),
        fillvalue=(),
    )
    for batch in batches:
        client.log_batch(run.info.run_id, *batch)


def _log_dataset(client: MlflowClient, run_id: str, record: Record) -> None:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    if used := mapping.dataset(record):
        dataset = Dataset(used.name, used.digest, used.source_type, used.source)
        context = InputTag("mlflow.data.context", "training")
        client.log_inputs(run_id, [DatasetInput(dataset, [context])])


def _log_files(client: MlflowClient, run_id: str, record: Record, file: Path) -> None:
    """Uploads ``record.json``, ``config.json``, ``facts.json``, ``packages.txt``, and the run's log
    and events if they exist next to the record."""
    sources = {
        "record.json": file,
        "run.log": file.with_suffix(".log"),
        "events.jsonl": file.with_suffix(".events.jsonl"),
    }
    with tempfile.TemporaryDirectory(prefix="rnnbench-") as name:
        folder = Path(name)
        for target, source in sources.items():
            if source.is_file():
                (folder / target).symlink_to(source.resolve())
        (folder / "config.json").write_text(json.dumps(record.run.config, indent=1, default=str))
        (folder / "facts.json").write_text(json.dumps(mapping.facts(record), indent=1, default=str))
        packages = record.environment.get("packages") or ()
        (folder / "packages.txt").write_text("".join(f"{package}\n" for package in packages))
        client.log_artifacts(run_id, name)


def _delete(client: MlflowClient, duplicates: Sequence[Run]) -> None:
    """Deletes duplicate runs, left by a request that a dying server executed and the client
    repeated."""
    for run in duplicates:
        client.delete_run(run.info.run_id)


def _batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
