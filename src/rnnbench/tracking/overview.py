"""Logs the results of a report to MLflow: the experiment's note and view, speed-ups, report files.

The note and the view are tags of the experiment (``mlflow.note.content``,
``mlflow.sharedViewState.KEY``) in the format of MLflow's web page (tested with MLflow 3).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnnbench.records.record import Run as PlannedRun
from rnnbench.tracking.client import KIND, all_runs, connected
from rnnbench.tracking.mapping import RECORD, TAG_LENGTH, shortened
from rnnbench.tracking.store import ensure_store

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

VIEW = "rnnbench"
UNEQUAL, SPEEDUP, REPORT = "rnnbench.unequal", "speedup", "rnnbench.report"
METRICS = (SPEEDUP, "median_epoch_seconds", "val_acc")
TAGS = ("rnnbench.verdict", "rnnbench.reasons")
NAME = "mlflow.runName"


@dataclass(frozen=True)
class Overview:
    """The results of an experiment.

    - `text`: Markdown for its note.
    - `axes`: the choices that differ between its runs.
    - `speedups`: record key → speed-up of its configuration.
    - `unequal`: record key → marked ratio, if the two runs do not compute the same function.
    - `labels`: run name → shorter name.
    - `files`: the report folder.
    """

    experiment: str
    text: str
    axes: Sequence[str]
    speedups: Mapping[str, float]
    unequal: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    files: Path | None = None


def publish_overview(root: Path, overview: Overview) -> str | None:
    """Updates the MLflow experiment; writes only what has changed. Returns the address of the page
    that shows its runs (`address_of`), or None if MLflow has no such experiment. Raises
    `TrackingError`."""
    ensure_store(root)
    with connected(root) as client:
        experiment = client.get_experiment_by_name(overview.experiment)
        if experiment is None:
            return None
        number = experiment.experiment_id
        for key, value in tags_of(number, overview).items():
            if experiment.tags.get(key) != value:
                client.set_experiment_tag(number, key, value)
        report = None
        for run in all_runs(client, number):
            if REPORT in run.data.tags:
                report = run.info.run_id
            elif RECORD in run.data.tags:
                _update_run(client, run, overview)
        if overview.files:
            _upload_report(client, number, report, overview)
        return address_of(number)


def address_of(number: str) -> str:
    """The path, on MLflow's web page, of the runs of experiment `number` in the shared view. It
    requests the page for training runs; MLflow 3 defaults to the one for generative AI."""
    return f"#/experiments/{number}/runs?viewStateShareKey={VIEW}&workflowType=machine_learning"


def tags_of(number: str, overview: Overview) -> dict[str, str]:
    """The tags of experiment `number`."""
    link = f"[All runs, with the columns that matter]({address_of(number)})"
    return {
        **KIND,
        "mlflow.note.content": shortened(f"{overview.text}\n\n{link}\n", TAG_LENGTH),
        f"mlflow.sharedViewState.{VIEW}": json.dumps(view(overview.axes)),
    }


def view(axes: Sequence[str]) -> dict[str, Any]:
    """The state of MLflow's list of runs: columns for the axes, metrics and verdict, fastest run
    first."""
    columns = [
        *(f"params.`{axis}`" for axis in axes),
        *(f"metrics.`{metric}`" for metric in METRICS),
        *(f"tags.`{tag}`" for tag in TAGS),
    ]
    return {
        "selectedColumns": columns,
        "orderByKey": "metrics.`median_epoch_seconds`",
        "orderByAsc": True,
    }


def differing_keys(runs: Sequence[PlannedRun]) -> list[str]:
    """The keys in which the planned `runs` differ: axes, overrides, ``seed`` and ``repeat``."""
    flat = [
        {**run.choices, **run.overrides, "seed": run.seed, "repeat": run.repeat} for run in runs
    ]
    keys = dict.fromkeys(key for run in flat for key in run)
    return [key for key in keys if len({json.dumps(run.get(key)) for run in flat}) > 1]


def labels_of(runs: Sequence[PlannedRun]) -> dict[str, str]:
    """Run name → what distinguishes it from the other runs, such as ``block · cpu_1 · r2``."""
    keys = differing_keys(runs)
    return {run.name: _label(run, keys) or run.name for run in runs}


def _label(run: PlannedRun, keys: Sequence[str]) -> str:
    parts = []
    for key in keys:
        if key in ("seed", "repeat"):
            parts.append(f"{key[0]}{getattr(run, key)}")
        elif key in run.choices:
            parts.append(run.choices[key])
        elif key in run.overrides:
            parts.append(f"{key}={run.overrides[key]}")
    return " · ".join(filter(None, parts))


def _update_run(client: MlflowClient, run: Run, overview: Overview) -> None:
    """Logs what has changed of a run in one request."""
    from mlflow.entities import Metric, RunTag

    run_id, tags, key = run.info.run_id, run.data.tags, run.data.tags[RECORD]
    new_tags, metrics = [], []
    marked = shortened(overview.unequal.get(key, ""), TAG_LENGTH)
    if marked and tags.get(UNEQUAL) != marked:
        new_tags.append(RunTag(UNEQUAL, marked))
    elif not marked and UNEQUAL in tags:
        client.delete_tag(run_id, UNEQUAL)
    name = key.split("/")[1]
    label = overview.labels.get(name, name)
    if run.info.run_name == name != label:  # keep a name that the user gave it
        new_tags.append(RunTag(NAME, label))
    speedup = overview.speedups.get(key)
    if speedup is not None and run.data.metrics.get(SPEEDUP) != speedup:
        metrics.append(Metric(SPEEDUP, speedup, round(1000 * time.time()), 0))
    if new_tags or metrics:
        client.log_batch(run_id, metrics=metrics, tags=new_tags)


def _upload_report(
    client: MlflowClient, experiment: str, run_id: str | None, overview: Overview
) -> None:
    """Uploads the report with its figures and tables to a run that all reports share."""
    if run_id is None:
        tags = {REPORT: "true", "mlflow.source.name": "rnnbench"}
        run_id = client.create_run(experiment, tags=tags, run_name="report").info.run_id
    client.set_tag(run_id, "mlflow.note.content", shortened(overview.text, TAG_LENGTH))
    client.log_artifacts(run_id, str(overview.files))
    client.set_terminated(run_id)
