"""Record → MLflow metrics. No side effects; MLflow is not imported.

Every point, including its timestamp, is derived from the record alone, so logging a record twice
adds nothing. Values that are not finite are omitted.
"""

from __future__ import annotations

import re
import statistics
import sys
from typing import Any, NamedTuple

from rnnbench.records.record import Epoch, Record, run_value
from rnnbench.records.timestamps import milliseconds

KEY_LENGTH = 250
SECONDS = ("import", "build", "first_step", "warmup", "train")
CALLS = ("evaluate", "predict")


class Point(NamedTuple):
    """One value of a metric; `timestamp` is in milliseconds since 1970 (UTC)."""

    key: str
    value: float
    timestamp: int
    step: int


def metrics(record: Record) -> list[Point]:
    """All metrics of a finished run."""
    end = milliseconds(record.finished)
    points = _phase_points(record) if record.phases else []
    seconds = [epoch.seconds for epoch in record.epochs if is_number(epoch.seconds)]
    if seconds:
        points.append(Point("median_epoch_seconds", run_value(seconds), end, 0))
    existing = {point.key for point in points}
    points += [
        Point(mlflow_key(key), float(value), end, 0)
        for key, value in record.measured.items()
        if is_number(value) and key not in existing
    ]
    return points


def _phase_points(record: Record) -> list[Point]:
    """The metrics of the phases and epochs."""
    start, zero = milliseconds(record.started), record.phases[0].start

    def at(seconds: float) -> int:
        return start + round((seconds - zero) * 1000)

    points = []
    for epoch in record.epochs:
        time = at(epoch.start + epoch.seconds)
        values = _epoch_values(epoch).items()
        points += [Point(k, float(v), time, epoch.epoch) for k, v in values if is_number(v)]
    for phase in record.phases:
        if phase.name in SECONDS:
            points.append(Point(f"{phase.name}_seconds", phase.seconds, at(phase.end), 0))
        calls = [call for call in phase.details.get("calls") or () if is_number(call)]
        if phase.name in CALLS and calls:
            median = statistics.median(calls)
            points.append(Point(f"{phase.name}_seconds", median, at(phase.end), 0))
    return points


def _epoch_values(epoch: Epoch) -> dict[str, Any]:
    rate = epoch.samples / epoch.seconds if epoch.seconds else None
    return {
        "epoch_seconds": epoch.seconds,
        "loss": epoch.loss,
        "acc": epoch.acc,
        "val_loss": epoch.val_loss,
        "val_acc": epoch.val_acc,
        "val_seconds": epoch.val_seconds,
        "samples_per_second": rate,
    }


def mlflow_key(key: str) -> str:
    """`key` reduced to the characters and the length that MLflow accepts."""
    return re.sub(r"[^\w\-. :]", "_", key, flags=re.ASCII)[:KEY_LENGTH]


def is_number(value: Any) -> bool:
    """Whether `value` is a finite number; booleans are not numbers."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and abs(value) <= sys.float_info.max
