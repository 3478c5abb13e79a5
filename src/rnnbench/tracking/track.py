"""Logs records, and the results of a report, to MLflow. Idempotent: a record is one run, however
often it is logged.

An experiment's note and view are tags of the MLflow experiment (``mlflow.note.content``,
``mlflow.sharedViewState.KEY``) in the format of MLflow's web page (tested with MLflow 3).
"""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnnbench.errors import RecordError
from rnnbench.records.overrides import option_of
from rnnbench.records.record import ComparedRun, Record, differing
from rnnbench.records.record import Run as PlannedRun
from rnnbench.records.store import read_json
from rnnbench.records.timestamps import milliseconds
from rnnbench.tracking import mapping
from rnnbench.tracking.mapping import (
    COMPLETE,
    NAME,
    NOTE,
    RECORD,
    SOURCE,
    TAG_LENGTH,
    shortened,
)
from rnnbench.tracking.store import (
    KIND,
    all_runs,
    check_active,
    connected,
    ensure_store,
    experiment_id,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

# Items per request: MLflow accepts 100 params, 100 tags, 1000 items in all.
PARAMS = 100
METRICS = 800
VIEW = "rnnbench"
SHARED = f"mlflow.sharedViewState.{VIEW}"  # the tag of an experiment that has the view
SPEEDUP = "speedup"
UNEQUAL = "rnnbench.unequal"
# The tag that says whether a run computes the same function as the reference, and why not. Without
# a dot, so that a search needs no backticks.
EQUAL = "equal"
# The MLflow experiment with one run for each report, and the tag with its experiment's name. Among
# the runs that it is about, a report would be counted as one of them.
REPORTS = "rnnbench reports"
REPORT = "rnnbench.report"
# The columns of the view, after the axes.
COLUMNS = [
    "metrics.`speedup`",
    "tags.`equal`",
    "metrics.`median_epoch_seconds`",
    "metrics.`val_acc`",
    "tags.`verdict`",
    "tags.`reasons`",
]


def track(records: Sequence[tuple[Record, Path]], root: Path) -> dict[str, str]:
    """Logs `records`, each given with the file it was read from.

    Each rnnbench experiment has one MLflow experiment. A record that MLflow already has is updated
    in its own run, or skipped if it is complete. **Returns** record key → MLflow run id; **raises**
    `TrackingError`, after which the same call continues where it stopped.
    """
    ensure_store(root)
    experiments: dict[str, str] = {}
    run_ids = {}
    with connected(root) as client:
        for record, file in records:
            name = record.experiment
            if name not in experiments:
                experiments[name] = experiment_id(client, root, name)
            run_ids[record.key] = _upsert(
                client,
                experiments[name],
                record,
                file,
            )
    return run_ids


def _runs_of_record(client: MlflowClient, experiment: str, key: str) -> list[Run]:
    """The runs of one record, even if the user has renamed them, with the run to keep first. There
    are several if a server created a run and died before it could respond."""
    found = all_runs(client, experiment, f"tags.`{RECORD}` = '{key}'")
    return kept_first(run for run in found if run.data.tags.get(RECORD) == key)


def kept_first(runs: Iterable[Run]) -> list[Run]:
    """The runs of one record in a fixed order: the run to keep is complete or has most params."""

    def rank(run: Run) -> tuple[bool, int, str]:
        return COMPLETE not in run.data.tags, -len(run.data.params), run.info.run_id

    return sorted(runs, key=rank)


def _upsert(
    client: MlflowClient,
    experiment: str,
    record: Record,
    file: Path,
) -> str:
    """Logs a record to its run, which is created if it does not exist.

    - `experiment`: the id of the MLflow experiment.
    - `file`: the record's, next to which its log and events are.

    Returns the id of the run.
    """
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    digest = f"{sha256}-{mapping.VERSION}"
    runs = _runs_of_record(client, experiment, record.key)
    _delete(client, runs[1:])
    if runs and runs[0].data.tags.get(COMPLETE) == digest:
        return str(runs[0].info.run_id)

    tags = mapping.tags(record)
    if runs:
        run = runs[0]
    else:
        run = client.create_run(
            experiment,
            milliseconds(record.started),
            tags,
            record.name,
        )
        tags = {}  # it has them
    _log_values(
        client,
        run,
        record,
        tags,
    )

    run_id = str(run.info.run_id)
    _log_files(
        client,
        run_id,
        record,
        file,
    )
    status = "FINISHED"
    if record.verdict.status == "void":
        status = "FAILED"
    client.set_terminated(run_id, status, milliseconds(record.finished))
    client.set_tag(run_id, COMPLETE, digest)
    if not runs:
        _delete(client, _runs_of_record(client, experiment, record.key)[1:])
    return run_id


def _log_values(
    client: MlflowClient,
    run: Run,
    record: Record,
    tags: Mapping[str, str],
) -> None:
    """Logs the metrics, params, `tags` and the dataset of a record."""
    from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunTag

    metrics = [Metric(*point) for point in mapping.metrics(record)]
    params = []
    for key, value in mapping.params(record.run.choices, record.run.config).items():
        # MLflow refuses to change a param, so existing ones are not sent again.
        if key not in run.data.params:
            params.append(Param(key, value))
    run_tags = [RunTag(key, value) for key, value in tags.items()]
    while metrics or params or run_tags:
        client.log_batch(
            run.info.run_id,
            metrics[:METRICS],
            params[:PARAMS],
            run_tags[:PARAMS],
        )
        metrics = metrics[METRICS:]
        params = params[PARAMS:]
        run_tags = run_tags[PARAMS:]

    used = mapping.dataset(record)
    if used:
        context = InputTag("mlflow.data.context", "training")
        dataset = DatasetInput(Dataset(**used), [context])
        client.log_inputs(run.info.run_id, [dataset])


def _log_files(
    client: MlflowClient,
    run_id: str,
    record: Record,
    file: Path,
) -> None:
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

        contents = {
            "config.json": record.run.config,
            "facts.json": mapping.facts(record),
        }
        for target, content in contents.items():
            text = json.dumps(content, indent=1, default=str)
            (folder / target).write_text(text)

        packages = record.environment.get("packages") or ()
        lines = [f"{package}\n" for package in packages]
        (folder / "packages.txt").write_text("".join(lines))
        client.log_artifacts(run_id, name)


def _delete(client: MlflowClient, duplicates: Sequence[Run]) -> None:
    """Deletes duplicate runs, left by a request that a dying server executed and the client
    repeated."""
    for run in duplicates:
        client.delete_run(run.info.run_id)


def publish(
    root: Path,
    experiment: str,
    text: str,
    planned: Sequence[PlannedRun],
    compared: Mapping[str, ComparedRun],
    files: Path,
) -> str | None:
    """Updates the MLflow experiment after a report; writes only what has changed.

    **Arguments:**

    - `text`: Markdown for the experiment's note.
    - `planned`: its runs.
    - `compared`: record key → how its configuration compares with the reference.
    - `files`: the report's folder.

    **Returns** the `address_of` the experiment, or None if MLflow has none. **Raises**
    `TrackingError`.
    """
    ensure_store(root)
    keys = differing_keys(planned)
    labels = {run.name: label_of(run, keys) for run in planned}
    with connected(root) as client:
        found = client.get_experiment_by_name(experiment)
        if found is None:
            return None
        check_active(found, root)
        number = found.experiment_id
        address = address_of(number)
        note = f"{text}\n\n[All runs, with the columns that matter]({address})\n"
        tags = KIND | {
            NOTE: shortened(note, TAG_LENGTH),
            SHARED: json.dumps(view_of(keys)),
        }
        for tag, value in tags.items():
            if found.tags.get(tag) != value:
                client.set_experiment_tag(number, tag, value)

        for run in all_runs(client, number):
            if REPORT in run.data.tags:  # of an earlier version, among the experiment's runs
                client.delete_run(run.info.run_id)
                continue
            key = run.data.tags.get(RECORD)
            if not key:
                continue
            name = key.split("/")[1]
            label = labels.get(name, name)
            # MLflow's own list has no column for the verdict.
            if run.data.tags.get("verdict") == "suspect":
                label += " †"
            _update_run(client, run, name, label, compared.get(key, ComparedRun()))

        _log_report(client, root, experiment, text, files)
    return address


def _log_report(
    client: MlflowClient,
    root: Path,
    experiment: str,
    text: str,
    files: Path,
) -> None:
    """Uploads the report of `experiment` into its run in `REPORTS`.

    - `text`: Markdown for its note.
    - `files`: the report's folder.
    """
    number = experiment_id(client, root, REPORTS)
    runs = all_runs(client, number, f"tags.`{REPORT}` = '{experiment}'")
    if runs:
        report = runs[0].info.run_id
    else:
        about = {REPORT: experiment, **SOURCE}
        report = client.create_run(number, tags=about, run_name=experiment).info.run_id
    client.set_tag(report, NOTE, shortened(text, TAG_LENGTH))
    client.log_artifacts(report, str(files))
    client.set_terminated(report)


def address_of(number: str) -> str:
    """The path, on MLflow's web page, of an experiment's runs in the shared view. It requests the
    page for training runs; MLflow 3 defaults to the one for generative AI."""
    return f"#/experiments/{number}/runs?viewStateShareKey={VIEW}&workflowType=machine_learning"


def addresses(root: Path) -> dict[str, str]:
    """Experiment → its `address_of`, of those with a report, the one with the latest report
    first. Raises `TrackingError`."""
    found: dict[str, str] = {}
    with connected(root) as client:
        reports = client.get_experiment_by_name(REPORTS)
        if reports is None:
            return found
        numbers = {}
        for each in client.search_experiments():
            if SHARED in each.tags:
                numbers[each.name] = each.experiment_id

        latest_first = ["attributes.end_time DESC"]
        for run in client.search_runs([reports.experiment_id], order_by=latest_first):
            name = run.data.tags.get(REPORT)
            if name in numbers:
                found[name] = address_of(numbers[name])
    return found


def view_of(axes: Sequence[str]) -> dict[str, Any]:
    """The state of MLflow's list of runs: columns for the axes, metrics and verdict, fastest run
    first."""
    columns = [f"params.`{axis}`" for axis in axes]
    return {
        "selectedColumns": columns + COLUMNS,
        "orderByKey": "metrics.`median_epoch_seconds`",
        "orderByAsc": True,
    }


def differing_keys(runs: Sequence[PlannedRun]) -> list[str]:
    """The keys in which the planned `runs` differ: axes, overrides, ``seed`` and ``repeat``."""
    keys = differing(runs)
    for key in ("seed", "repeat"):
        if len({getattr(run, key) for run in runs}) > 1:
            keys.append(key)
    return keys


def label_of(run: PlannedRun, keys: Sequence[str]) -> str:
    """The values of a run's `keys`, such as ``block · cpu_1 · r2``; its name if it has none."""
    values = dict(run.choices)
    for key, value in run.overrides.items():
        values[key] = f"{option_of(key) or key}={value}"
    values["seed"] = f"s{run.seed}"
    values["repeat"] = f"r{run.repeat}"
    parts = [values[key] for key in keys if values.get(key)]
    return " · ".join(parts) or run.name


def _update_run(
    client: MlflowClient,
    run: Run,
    name: str,
    label: str,
    compared: ComparedRun,
) -> None:
    """Logs what has changed of a run in one request.

    - `name`: that of its planned run.
    - `label`: what MLflow shows instead, unless the user has renamed the run.
    - `compared`: how its configuration compares with the reference.
    """
    from mlflow.entities import Metric, RunTag

    run_id = run.info.run_id
    tags = run.data.tags
    new_tags = []
    for tag, mark in ((UNEQUAL, compared.unequal), (EQUAL, compared.equal)):
        text = shortened(mark, TAG_LENGTH)
        if text and tags.get(tag) != text:
            new_tags.append(RunTag(tag, text))
        elif not text and tag in tags:
            client.delete_tag(run_id, tag)

    if run.info.run_name == name != label:  # keep a name that the user gave it
        new_tags.append(RunTag(NAME, label))

    values = dict(compared.speedup)
    for key, old in run.data.metrics.items():
        # MLflow keeps a metric: that of an earlier report is void if this one finds no speed-up.
        if key.startswith(SPEEDUP) and compared.equal and math.isfinite(old):
            values.setdefault(key, math.nan)

    now = round(1000 * time.time())
    metrics = []
    for key, value in values.items():
        if run.data.metrics.get(key) != value:
            metrics.append(Metric(key, value, now, 0))
    if new_tags or metrics:
        client.log_batch(run_id, metrics=metrics, tags=new_tags)


def read_tracked(folders: Iterable[Path]) -> dict[str, str]:
    """Record key → MLflow run id, from ``tracked/*.json`` in an experiment's `folders`. Unreadable
    files are skipped: the next ``rnnbench track`` writes them again."""
    run_ids: dict[str, str] = {}
    for folder in folders:
        for file in sorted(folder.glob("tracked/*.json")):
            try:
                entries = read_json(file).values()
                run_ids |= {str(entry["record"]): str(entry["run_id"]) for entry in entries}
            except (RecordError, AttributeError, TypeError, KeyError):
                continue
    return run_ids
