"""How the speed-ups of an experiment changed from one measurement to the next, on one machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Any

import pandas as pd
from msgspec.structs import replace

from rnnbench.axes import KEY, Row
from rnnbench.records import timestamps
from rnnbench.records.interval import Interval
from rnnbench.records.record import Record
from rnnbench.tables.comparison import NOTABLE
from rnnbench.tables.estimates import key_of
from rnnbench.tables.outcome import COMPARED

PAUSE = timedelta(hours=1)  # after which runs belong to another measurement
SPEEDUP = ("speedup", "speedup_low", "speedup_high")
HISTORY_COLUMNS = [
    "measurement",
    "started",
    *KEY,
    "implementation",
    "runs",
    "suspect",
    "epoch_seconds",
    "epoch_low",
    "epoch_high",
    *SPEEDUP,
    "words",
    "before",
    "change",
    "change_low",
    "change_high",
    "trend",
]


class Trend(StrEnum):
    """Of the speed-up of a configuration since its measurement before."""

    REGRESSION = "regression"
    SLOWER = "slower, by less than 2 %"
    NO_CHANGE = "no change shown"
    FASTER = "faster"
    UNKNOWN = "cannot be told: a measurement has no interval"
    FIRST = ""


def measurements(records: Sequence[Record]) -> list[list[Record]]:
    """The records of each measurement of an experiment on one machine, the oldest first.

    Another measurement begins after a `PAUSE`, and with a round in which a configuration has
    another digest, because its version or its settings changed. Of a run that was measured again
    within a measurement, the last record counts.
    """
    rounds: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda record: record.started):
        rounds.setdefault(record.round_id, []).append(record)

    found: list[list[Record]] = []
    versions: dict[str, Any] = {}  # of what was measured so far
    finished = ""
    for own in rounds.values():
        of_own: dict[str, Any] = {}
        for record in own:
            of_own[record.name] = record.run.digest
            of_own[record.run.configuration] = record.run.identity
        is_changed = any(versions.get(name, of_own[name]) != of_own[name] for name in of_own)
        if (
            not found
            or is_changed
            or timestamps.read(own[0].started) - timestamps.read(finished) > PAUSE
        ):
            found.append([])
            versions = {}
        found[-1] += own
        versions |= of_own
        finished = max(record.finished for record in own)
    return [_last_records(own) for own in found]


def _last_records(records: Sequence[Record]) -> list[Record]:
    """The last record of each run, with the companions of its round.

    If only companions of a configuration were measured, because nothing but another one has
    changed, they count as its runs.
    """
    last = {record.name: record for record in records if not record.is_companion}
    rounds = {record.round_id for record in last.values()}
    own = {record.run.configuration for record in last.values()}
    found = list(last.values())
    for record in records:
        if record.is_companion and record.round_id in rounds:
            if record.run.configuration not in own:
                record = replace(record, round=replace(record.round, companion=False))
            found.append(record)
    return found


def history(times: Sequence[pd.DataFrame], starts: Sequence[str]) -> pd.DataFrame:
    """One row per configuration and measurement.

    - `times`: the table of `time` of each measurement, the oldest first; `starts`: when it began.

    Columns:

    - `measurement`: its number, from 1; `started`.
    - the configuration; `runs`, `suspect`; of the table `time`: `epoch_seconds`, `speedup`, each
      with its interval, and `words`.
    - `before`: the number of the measurement that it is compared with, which is the last one in
      which the configuration has a speed-up.
    - `change` = speed-up / speed-up in that measurement (below 1: slower than it was, relative to
      the reference), with its 95 % interval.
    - `trend`: a `Trend`.
    """
    rows = []
    known: dict[tuple[object, ...], Row] = {}
    for number, (table, started) in enumerate(zip(times, starts, strict=True), 1):
        for own in table.to_dict("records"):
            row: Row = {**own, "measurement": number, "started": started, "trend": Trend.FIRST}
            key = key_of(row)
            if row["words"] in COMPARED:
                if key in known:
                    change = quotient(_interval(row), _interval(known[key]))
                    row |= change.columns("change")
                    row["before"] = known[key]["measurement"]
                    row["trend"] = trend_of(change)
                known[key] = row
            rows.append(row)
    return pd.DataFrame(rows, columns=HISTORY_COLUMNS).astype({"before": "Int64"})


def trend_of(change: Interval) -> Trend:
    """What a `change` shows."""
    if change.low is None:
        return Trend.UNKNOWN
    if not change.excludes(1):
        return Trend.NO_CHANGE
    if change.estimate > 1:
        return Trend.FASTER
    return Trend.REGRESSION if change.estimate < 1 / (1 + NOTABLE) else Trend.SLOWER


def _interval(row: Row) -> Interval:
    """The speed-up of a row. Its missing ends are NaN in a table."""
    estimate, low, high = (row[name] for name in SPEEDUP)
    if low is None or math.isnan(low):
        return Interval(estimate, None, None)
    return Interval(estimate, low, high)


def quotient(a: Interval, b: Interval) -> Interval:
    """`a` / `b` of two independent estimates with intervals that are symmetric on a logarithmic
    scale. The squares of the half-widths add up, each with its own quantile (MOVER: Zou and Donner,
    Statistics in Medicine 27, 2008)."""
    half = None
    if a.low and a.high and b.low and b.high:
        half = math.hypot(math.log(a.high / a.low), math.log(b.high / b.low)) / 2
    log = math.log(a.estimate / b.estimate)
    return Interval.around(log, half).map(math.exp)
