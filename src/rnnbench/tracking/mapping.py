"""Record → MLflow params, tags, metrics and dataset. No side effects; MLflow is not imported.

Every point of a metric, including its timestamp, is derived from the record alone, so logging a
record twice adds nothing. Values that are not finite are omitted.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

from rnnbench.records.overrides import flat
from rnnbench.records.record import Epoch, Record, run_seconds
from rnnbench.records.timestamps import milliseconds

VERSION = 2  # of what is logged of a record; a run of an earlier version is logged again
# MLflow's limits, in characters.
KEY_LENGTH = 250
PARAM_LENGTH = 6000
TAG_LENGTH = 5000
DIGEST_LENGTH = 36
NAME_LENGTH = 500  # of a dataset
TRUNCATED = " …[truncated]"
# The tags with a record's key, and with the digest of a record that is logged completely.
RECORD = "rnnbench.record"
COMPLETE = "rnnbench.complete"
# MLflow's own tags for a note and for the name of a run.
NOTE = "mlflow.note.content"
NAME = "mlflow.runName"
SOURCE = {
    "mlflow.source.name": "rnnbench",
    "mlflow.source.type": "LOCAL",
}
# The facts that are tags because users filter by them. All facts are in ``facts.json``.
FACTS_AS_TAGS = (
    "hardware.cpu",
    "hardware.available_cores",
    "hardware.gpu_models",
    "environment.tensorflow",
    "environment.torch",
    "environment.jax",
    "environment.keras",
    "measured.kernel.found",
    "measured.kernel.why_not_cudnn",
    "measured.precision.policy",
    "measured.revision",
    "measured.loss",
    "measured.optimizer.class_name",
)
# Keys that describe a choice and are not hyperparameters.
NOT_A_PARAM = ("about", "requires", "source")
# The phases whose seconds are metrics.
SECONDS = ("import", "build", "first_step", "warmup")
# The phases of which the seconds of the median call are a metric.
CALLS = ("evaluate", "predict")
# The values of an epoch that are metrics, besides its seconds.
EPOCH = ("loss", "acc", "val_loss", "val_acc", "val_seconds")


def params(choices: Mapping[str, str], config: Mapping[str, Any]) -> dict[str, str]:
    """The choice of every axis, then every hyperparameter of the config by its dotted key.

    `choices`: axis → choice. Values are texts, JSON unless they were texts, within MLflow's limits.
    """
    values: dict[str, Any] = dict(choices)
    for key, value in flat(config):
        section = key.partition(".")[0]
        parents, _, last = key.rpartition(".")
        repeats_axis = last == "name" and parents in choices
        if section in ("limits", "alias") or last in NOT_A_PARAM or repeats_axis:
            continue
        values.setdefault(key, value)

    texts = {}
    for key, value in values.items():
        texts[mlflow_key(key)] = shortened(_text(value), PARAM_LENGTH)
    return texts


def tags(record: Record) -> dict[str, str]:
    """The tags of a finished run: its identity, verdict, note, and the facts to filter by.

    Values are texts within MLflow's limits; empty ones are left out.
    """
    verdict = record.verdict
    values: dict[str, Any] = {
        RECORD: record.key,
        "rnnbench.machine": record.machine,
        "rnnbench.started": record.started,
        "rnnbench.experiment": record.experiment,
        "rnnbench.digest": record.run.digest,
        NAME: record.name,
        **SOURCE,
        # Without a dot, so that a search needs no backticks.
        "verdict": verdict.status,
        "reasons": ", ".join(reason.code for reason in verdict.reasons),
        "rnnbench.site": record.site,
        "rnnbench.block": record.run.block,
        "rnnbench.order": record.run.order,
        "rnnbench.alias": record.run.alias,
        "rnnbench.round": record.round_id,
        "rnnbench.companion": record.is_companion or None,
        "dataset.md5": record.run.identity.get("dataset_md5"),
        NOTE: note(record),
    }
    for key, value in flat(facts(record)):
        if key in FACTS_AS_TAGS:
            values[key] = value

    texts = {}
    for key, value in values.items():
        if value not in (None, ""):
            texts[mlflow_key(key)] = shortened(_text(value), TAG_LENGTH)
    return texts


def facts(record: Record) -> dict[str, Any]:
    """Hardware, environment (without its packages) and the measured values that are not numbers."""
    environment = dict(record.environment)
    environment.pop("packages", None)
    measured = {}
    for key, value in record.facts.items():
        if not is_number(value):
            measured[key] = value
    return {
        "hardware": record.hardware,
        "environment": environment,
        "measured": measured,
    }


def note(record: Record) -> str:
    """A summary of the run in one sentence."""
    choices = " ".join(record.run.choices.values())
    summary = f"{choices} on {record.machine}"
    epochs = record.epochs
    if epochs:
        seconds = run_seconds([epoch.seconds for epoch in epochs])
        timed = max(1, len(epochs) - 1)
        summary += f", {seconds:.4g} s per epoch (median of {timed})"
        acc = epochs[-1].val_acc
        if acc is not None:
            summary += f", validation accuracy {acc:.4g}"
    summary += f"; {record.verdict.status}"
    if record.why:
        return f"{summary}: {record.why}"
    return f"{summary}."


def dataset(record: Record) -> dict[str, str]:
    """The arguments of MLflow's ``Dataset`` for the run's dataset, empty if it has none.

    - `digest`: the md5 that DVC pins;
    - `source`: JSON in the form of `source_type`;
    - `profile`: JSON. MLflow keeps one for each name and digest, so it has nothing of a single run.
    """
    config = record.run.config.get("dataset") or {}
    md5 = record.run.identity.get("dataset_md5")
    if not md5:
        return {}

    source_type = "local"
    source = {"uri": config.get("path") or ""}
    if config.get("url"):
        source_type = "http"
        source = {"url": config["url"]}
    profile = {}
    for key in ("about", "file", "url"):
        if config.get(key):
            profile[key] = config[key]
    return {
        "name": str(config.get("name", "dataset"))[:NAME_LENGTH],
        "digest": str(md5)[:DIGEST_LENGTH],
        "source_type": source_type,
        "source": json.dumps(source),
        "profile": json.dumps(profile, ensure_ascii=False),
    }


def shortened(text: str, length: int) -> str:
    """`text`, cut to `length` characters with a mark at the end if it is longer."""
    if len(text) <= length:
        return text
    return text[: length - len(TRUNCATED)] + TRUNCATED


def _text(value: Any) -> str:
    """A text as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


class Point(NamedTuple):
    """One value of a metric.

    - `key`: its name, as MLflow accepts it.
    - `timestamp`: milliseconds since 1970 (UTC).
    - `step`: the number of the epoch, or 0.
    """

    key: str
    value: float
    timestamp: int
    step: int


def metrics(record: Record) -> list[Point]:
    """All metrics of a finished run: seconds, losses and accuracies of its epochs, seconds of its
    phases, and the measured values that are numbers."""
    start = milliseconds(record.started)
    end = milliseconds(record.finished)
    epochs: Sequence[Epoch] = ()
    zero = 0.0
    if record.phases:
        epochs = record.epochs
        zero = record.phases[0].start

    def at(seconds: float) -> int:
        return start + round((seconds - zero) * 1000)

    points = []
    for epoch in epochs:
        values = {"epoch_seconds": epoch.seconds}
        for name in EPOCH:
            values[name] = getattr(epoch, name)
        values["samples_per_second"] = epoch.samples / epoch.seconds
        time = at(epoch.start + epoch.seconds)
        for name, value in values.items():
            if is_number(value):
                points.append(Point(name, float(value), time, epoch.epoch))

    for phase in record.phases:
        seconds = None
        if phase.name in SECONDS:
            seconds = phase.took
        elif phase.name in CALLS and phase.details.calls:
            seconds = statistics.median(phase.details.calls)
        if seconds is not None:
            points.append(Point(f"{phase.name}_seconds", seconds, at(phase.end), 0))

    if record.epochs:
        all_seconds = [epoch.seconds for epoch in record.epochs]
        points.append(Point("median_epoch_seconds", run_seconds(all_seconds), end, 0))
        # The phase "train" also includes the turns of the others and the validations.
        points.append(Point("train_seconds", sum(all_seconds), end, 0))

    taken = {point.key for point in points}
    for key, fact in record.facts.items():
        if is_number(fact) and key not in taken:
            points.append(Point(mlflow_key(key), float(fact), end, 0))

    taken = {point.key for point in points}
    for epoch in epochs:
        time = at(epoch.start + epoch.seconds)
        for name, result in epoch.metrics.items():
            if result is None or not is_number(result):
                continue
            key = mlflow_key(name)
            if key in taken:
                key = mlflow_key(f"{name}_metric")
            points.append(Point(key, float(result), time, epoch.epoch))
    return points


def mlflow_key(key: str) -> str:
    """`key` reduced to the characters and the length that MLflow accepts."""
    return re.sub(r"[^\w\-. :]", "_", key, flags=re.ASCII)[:KEY_LENGTH]


def is_number(value: object) -> TypeGuard[float]:
    """Whether `value` is a finite number; booleans are not numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= sys.float_info.max
