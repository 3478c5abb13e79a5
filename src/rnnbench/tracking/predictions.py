"""Results of predictions → MLflow: a run for each model and runtime, with the exported files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rnnbench.records.predictions import Results, Runtime
from rnnbench.records.timestamps import milliseconds
from rnnbench.tracking.mapping import COMPLETE, SOURCE, TAG_LENGTH, shortened
from rnnbench.tracking.store import all_runs, connected, ensure_store, experiment_id
from rnnbench.tracking.track import EQUAL

if TYPE_CHECKING:
    from mlflow import MlflowClient

PREDICTION = "rnnbench.prediction"  # the tag with the prediction's name, its runtime and its start


def log_predictions(
    root: Path,
    experiment: str,
    results: Mapping[Path, Results],
) -> None:
    """Logs the results of files. What MLflow has is not logged again.

    Raises `TrackingError`, after which the same call continues where it stopped.
    """
    ensure_store(root)
    with connected(root) as client:
        number = experiment_id(client, root, experiment)
        logged = set()
        for run in all_runs(client, number):
            if COMPLETE in run.data.tags:
                logged.add(run.data.tags.get(PREDICTION))
        for file, each in results.items():
            for runtime in each.runtimes:
                key = f"{each.name}/{runtime.name}/{each.started}"
                if key not in logged:
                    _log(client, number, key, each, runtime, file)


def _log(
    client: MlflowClient,
    experiment: str,
    key: str,
    results: Results,
    runtime: Runtime,
    file: Path,
) -> None:
    """Logs one runtime. `experiment`: the id of the MLflow experiment; `key`: of the run."""
    from mlflow.entities import Metric, Param

    equal = runtime.why_not_timed or "yes"
    tags = {PREDICTION: key, EQUAL: shortened(equal, TAG_LENGTH), **SOURCE}
    for package, version in runtime.versions.items():
        tags[f"version.{package}"] = version
    started = milliseconds(results.started)
    name = f"{results.name} · {runtime.name}"
    run = client.create_run(experiment, started, tags, name).info.run_id

    finished = milliseconds(results.finished)
    metrics = [Metric(name, value, finished, 0) for name, value in metrics_of(runtime).items()]
    params = {
        "runtime": runtime.name,
        "runtime_precision": runtime.precision,
        "threads": str(results.threads),
        **results.choices,
    }
    if results.steps is not None:
        params["steps"] = str(results.steps)
    for name, value in results.overrides.items():
        params[name] = str(value)
    client.log_batch(run, metrics, [Param(name, value) for name, value in params.items()])
    client.log_artifact(run, str(file))
    if runtime.folder:
        exported = file.with_suffix("") / runtime.folder
        if exported.is_dir():
            client.log_artifacts(run, str(exported), "exported")
    status = "FAILED" if runtime.why_not_timed else "FINISHED"
    client.set_terminated(run, status, finished)
    client.set_tag(run, COMPLETE, key)


def metrics_of(runtime: Runtime) -> Mapping[str, float]:
    """The numbers of a runtime that are known, those of a batch with its size at the end."""
    values: dict[str, float | None] = {
        "load_seconds": runtime.load_seconds,
        "file_bytes": runtime.file_bytes,
        "peak_bytes": runtime.peak_bytes,
        "difference": runtime.difference,
        "validation": runtime.validation,
    }
    for batch in runtime.batches:
        numbers = {
            "seconds": batch.seconds.estimate,
            "p50": batch.p50,
            "p95": batch.p95,
            "p99": batch.p99,
            "cpu_seconds": batch.cpu_seconds,
            "us_per_step": batch.us_per_step,
            "samples_per_second": batch.samples_per_second,
            "times_as_fast": batch.ratio.estimate if batch.ratio else None,
        }
        for name, value in numbers.items():
            values[f"{name}_{batch.batch}"] = value
    return {name: float(value) for name, value in values.items() if value is not None}
