"""Records into MLflow, as often as one likes: a record is one run, however often it is told."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnnbench.errors import RecordError
from rnnbench.records.record import Epoch, Phase, Record
from rnnbench.records.timestamps import milliseconds
from rnnbench.tracking import mapping, metrics
from rnnbench.tracking.client import connected, experiment_id
from rnnbench.tracking.mapping import COMPLETE, RECORD
from rnnbench.tracking.metrics import Point
from rnnbench.tracking.run_matching import Found, own, stale_runs
from rnnbench.tracking.store import ensure_store

if TYPE_CHECKING:
    from mlflow import MlflowClient

PARAMS, METRICS = 100, 800  # of one request: MLflow takes 100 params, 100 tags, 1000 in all


def track(records: Sequence[tuple[Record, Path]], root: Path) -> dict[str, str]:
    """Tells MLflow of `records`, each with the file it was read from.

    An MLflow experiment per experiment. A record already there is brought up to date in its
    own run; one that is complete costs nothing. **Returns** record key → MLflow's run id;
    **raises** `TrackingError`, after which the same call goes on where it stopped.
    """
    ensure_store(root)
    runs: dict[str, str] = {}
    with connected(root) as client:
        for name in sorted({record.experiment for record, _ in records}):
            batch = [(record, file) for record, file in records if record.experiment == name]
            experiment = experiment_id(client, root, name)
            running = search(client, experiment, "attributes.status = 'RUNNING'")
            for record, file in batch:
                runs[record.key] = _upsert(client, experiment, record, file, running)
    return runs


def mirror(partial: Mapping[str, Any], root: Path) -> str:
    """Shows a run that is not finished: creates or extends its run, as RUNNING.

    `partial` has ``record`` (the key its record will have), ``experiment`` and ``digest``, and
    so far as known ``choices``, ``config``, ``phases`` and ``epochs`` as a record has them.
    **Returns** MLflow's run id.
    """
    try:
        key, experiment, digest = (str(partial[k]) for k in ("record", "experiment", "digest"))
        _machine, _name, started = key.split("/")
        phases = [Phase(**phase) for phase in partial.get("phases", ())]
        epochs = [Epoch(**epoch) for epoch in partial.get("epochs", ())]
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"is not a run in progress ({error}).", where="live mirror") from error
    ensure_store(root)
    with connected(root) as client:
        place = experiment_id(client, root, experiment)
        runs = of_record(client, place, key)
        if runs and runs[0].complete:
            return runs[0].run_id
        tags = mapping.identity_tags(key, experiment, digest)
        run = runs[0] if runs else _create(client, place, key, tags)
        params = mapping.params(partial.get("choices", {}), partial.get("config", {}))
        _log(client, run, params, {}, metrics.live_metrics(started, phases, epochs))
        return run.run_id


def of_record(client: MlflowClient, experiment: str, key: str) -> list[Found]:
    """The runs of one record, whatever a person has renamed them to."""
    return own(search(client, experiment, f"tags.`{RECORD}` = '{key}'"), key)


def search(client: MlflowClient, experiment: str, condition: str) -> list[Found]:
    """All runs that MLflow lists for this condition."""
    found: list[Found] = []
    token = None
    while True:
        page = client.search_runs([experiment], condition, page_token=token)
        for run in page:
            name, status = run.info.run_name or "", run.info.status
            keys = frozenset(run.data.params)
            found.append(Found(run.info.run_id, name, status, run.data.tags, keys))
        token = page.token
        if not token:
            return found


def _upsert(
    client: MlflowClient, experiment: str, record: Record, file: Path, running: Sequence[Found]
) -> str:
    recorded = {path.stem for path in file.parent.iterdir()}
    _archive_killed(client, record.key, stale_runs(running, record.key, recorded))
    mark = hashlib.sha256(file.read_bytes()).hexdigest()
    runs = of_record(client, experiment, record.key)
    _drop(client, runs[1:])
    if runs and runs[0].tags.get(COMPLETE) == mark:
        return runs[0].run_id
    tags = mapping.tags(record)
    run = runs[0] if runs else _create(client, experiment, record.key, tags)
    params = mapping.params(record.choices, record.config)
    _log(client, run, params, tags if runs else {}, metrics.metrics(record))
    _log_dataset(client, run.run_id, record)
    _log_files(client, run.run_id, record, file)
    status = "FAILED" if record.verdict.status == "void" else "FINISHED"
    end = milliseconds(record.finished)
    client.set_terminated(run.run_id, status, end)
    client.set_tag(run.run_id, COMPLETE, mark)
    if not runs:
        _drop(client, of_record(client, experiment, record.key)[1:])
    return run.run_id


def _create(client: MlflowClient, experiment: str, key: str, tags: Mapping[str, str]) -> Found:
    _, name, started = key.split("/")
    begin = milliseconds(started)
    run = client.create_run(experiment, start_time=begin, tags=dict(tags), run_name=name)
    return Found(run.info.run_id, name, "RUNNING", tags)


def _log(
    client: MlflowClient,
    run: Found,
    params: Mapping[str, str],
    tags: Mapping[str, str],
    points: Sequence[Point],
) -> None:
    from mlflow.entities import Metric, Param, RunTag

    # MLflow refuses a param that changes, so one that is there is left alone.
    new = [Param(key, value) for key, value in params.items() if key not in run.params]
    some = [RunTag(key, value) for key, value in tags.items()]
    numbers = [Metric(point.key, point.value, point.timestamp, point.step) for point in points]
    requests = zip_longest(
        _batches(numbers, METRICS), _batches(new, PARAMS), _batches(some, PARAMS), fillvalue=()
    )
    for metrics_of_one, params_of_one, tags_of_one in requests:
        client.log_batch(run.run_id, metrics_of_one, params_of_one, tags_of_one)


def _log_dataset(client: MlflowClient, run_id: str, record: Record) -> None:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    if seen := mapping.dataset(record):
        dataset = Dataset(seen.name, seen.digest, seen.source_type, seen.source)
        context = InputTag("mlflow.data.context", "training")
        client.log_inputs(run_id, [DatasetInput(dataset, [context])])


def _log_files(client: MlflowClient, run_id: str, record: Record, file: Path) -> None:
    """``record.json``, ``config.json``, ``facts.json``, ``packages.txt``, and the run's log and
    events where they lie beside the record."""
    beside = {"record.json": file}
    beside["run.log"] = file.with_suffix(".log")
    beside["events.jsonl"] = file.with_suffix(".events.jsonl")
    with tempfile.TemporaryDirectory(prefix="rnnbench-") as name:
        folder = Path(name)
        for target, source in beside.items():
            if source.is_file():
                (folder / target).symlink_to(source.resolve())
        (folder / "config.json").write_text(json.dumps(record.config, indent=1, default=str))
        (folder / "facts.json").write_text(json.dumps(mapping.facts(record), indent=1, default=str))
        packages = record.environment.get("packages") or ()
        (folder / "packages.txt").write_text("".join(f"{package}\n" for package in packages))
        client.log_artifacts(run_id, name)


def _archive_killed(client: MlflowClient, key: str, runs: Sequence[Found]) -> None:
    """Puts killed runs away (MLflow keeps them, as deleted): their epochs must not stand
    beside those of the run that took their place, and nothing there is "running" for ever."""
    for run in runs:
        client.set_tag(run.run_id, "rnnbench.superseded_by", key)
        client.set_terminated(run.run_id, "KILLED")
        client.delete_run(run.run_id)


def _drop(client: MlflowClient, twins: Sequence[Found]) -> None:
    """A request that a dying server carried out and the client repeated left a second run."""
    for twin in twins:
        client.delete_run(twin.run_id)


def _batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
