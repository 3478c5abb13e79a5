"""What a report says, told to MLflow: the experiment's note and view, speed-ups, the page.

The note and the view are tags of the experiment (``mlflow.note.content``,
``mlflow.sharedViewState.KEY``), as MLflow's own page writes and reads them (tried with MLflow 3).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnnbench.tracking.client import KIND, connected
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
    """Of an experiment. `text`: Markdown for its note. `axes`: the choices that differ between its
    runs. `speedups` and `unequal`: record key → the speed-up of its cell, or the marked ratio of
    two functions. `labels`: a run's name → a shorter one. `files`: folder of the report."""

    experiment: str
    text: str
    axes: Sequence[str]
    speedups: Mapping[str, float]
    unequal: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    files: Path | None = None


def tell(root: Path, overview: Overview) -> str | None:
    """Brings MLflow's experiment up to date; what is there already costs a look. Returns where its
    page shows the runs (`address_of`), None where it has no such experiment. Raises a
    `TrackingError`."""
    ensure_store(root)
    with connected(root) as client:
        place = client.get_experiment_by_name(overview.experiment)
        if place is None:
            return None
        wanted = tags_of(place.experiment_id, overview)
        for key, value in wanted.items():
            if place.tags.get(key) != value:
                client.set_experiment_tag(place.experiment_id, key, value)
        report = None
        for run in _runs(client, place.experiment_id):
            if REPORT in run.data.tags:
                report = run.info.run_id
            elif RECORD in run.data.tags:
                _tell_run(client, run, overview)
        if overview.files:
            _keep_report(client, place.experiment_id, report, overview)
        return address_of(place.experiment_id)


def address_of(number: str) -> str:
    """Where MLflow's page shows the runs of the experiment `number`, as training runs (MLflow 3
    would open its pages for generative AI) in the shared view."""
    return f"#/experiments/{number}/runs?viewStateShareKey={VIEW}&workflowType=machine_learning"


def tags_of(number: str, overview: Overview) -> dict[str, str]:
    """The tags of the experiment `number`."""
    link = f"[All runs, with the columns that matter]({address_of(number)})"
    return {
        **KIND,
        "mlflow.note.content": shortened(f"{overview.text}\n\n{link}\n", TAG_LENGTH),
        f"mlflow.sharedViewState.{VIEW}": json.dumps(view(overview.axes)),
    }


def view(axes: Sequence[str]) -> dict[str, Any]:
    """The state of MLflow's list of runs: what differs, what was measured, what to think of it,
    the fastest first."""
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


def differing(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The axes and overrides in which the planned `runs` differ, and ``seed``, ``repeat``."""
    flat = [
        {
            **one.get("choices", {}),
            **one.get("overrides", {}),
            **{key: one[key] for key in ("seed", "repeat") if key in one},
        }
        for one in runs
    ]
    keys = dict.fromkeys(key for one in flat for key in one)
    return [key for key in keys if len({json.dumps(one.get(key)) for one in flat}) > 1]


def labels_of(runs: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """A run's name → what tells it from the others: ``block · cpu_1 · r2``."""
    keys = differing(runs)
    return {one["name"]: _label(one, keys) or one["name"] for one in runs}


def _label(run: Mapping[str, Any], keys: Sequence[str]) -> str:
    parts = []
    for key in keys:
        if key in ("seed", "repeat"):
            parts.append(f"{key[0]}{run[key]}")
        elif key in run.get("choices", {}):
            parts.append(str(run["choices"][key]))
        elif key in run.get("overrides", {}):
            parts.append(f"{key}={run['overrides'][key]}")
    return " · ".join(filter(None, parts))


def _tell_run(client: MlflowClient, run: Run, overview: Overview) -> None:
    """What is new of a run, in one request."""
    from mlflow.entities import Metric, RunTag

    number, tags, key = run.info.run_id, run.data.tags, run.data.tags[RECORD]
    new = []
    marked = shortened(overview.unequal.get(key, ""), TAG_LENGTH)
    if marked and tags.get(UNEQUAL) != marked:
        new.append(RunTag(UNEQUAL, marked))
    elif not marked and UNEQUAL in tags:
        client.delete_tag(number, UNEQUAL)
    name = key.split("/")[1]
    label = overview.labels.get(name, name)
    if run.info.run_name == name != label:  # a person's own name for it stays
        new.append(RunTag(NAME, label))
    ratio = overview.speedups.get(key)
    metrics = []
    if ratio is not None and run.data.metrics.get(SPEEDUP) != ratio:
        metrics.append(Metric(SPEEDUP, ratio, round(1000 * time.time()), 0))
    if new or metrics:
        client.log_batch(number, metrics=metrics, tags=new)


def _keep_report(
    client: MlflowClient, experiment: str, number: str | None, overview: Overview
) -> None:
    """The page with its figures and tables, as files of one run that every report writes anew."""
    if number is None:
        tags = {REPORT: "true", "mlflow.source.name": "rnnbench"}
        number = client.create_run(experiment, tags=tags, run_name="report").info.run_id
    client.set_tag(number, "mlflow.note.content", shortened(overview.text, TAG_LENGTH))
    client.log_artifacts(number, str(overview.files))
    client.set_terminated(number)


def _runs(client: MlflowClient, experiment: str) -> list[Run]:
    found: list[Run] = []
    token = None
    while True:
        page = client.search_runs([experiment], page_token=token)
        found += page
        token = page.token
        if not token:
            return found
