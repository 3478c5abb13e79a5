"""Time per epoch and speed-up of each configuration, and the same for ``evaluate()`` and
``predict()``."""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rnnbench.axes import CONFIGURATION, KEY, Row
from rnnbench.tables.certificates import Judgement
from rnnbench.tables.estimates import Key, Measurements, key_of
from rnnbench.tables.frame import (
    CALLS,
    COUNTED,
    identified,
    phase_of,
    runs_for_estimates,
    split,
)
from rnnbench.tables.outcome import Equality, Outcome
from rnnbench.tables.ratios import Estimates, Method, Ratio, Unequal
from rnnbench.tables.stats import mean_interval

TIME_COLUMNS = [
    *COUNTED,
    "epoch_seconds",
    "epoch_low",
    "epoch_high",
    "ms_per_step",
    "us_per_sample",
    "samples",
    "evaluate_seconds",
    "predict_seconds",
    "speedup",
    "speedup_low",
    "speedup_high",
    "method",
    "shown_different",
    "words",
    "speedup_suspect",
    "equal",
    "equal_why",
    "is_another_function",
    "unequal",
    "difference",
    "not_learning",
]
CALL_COLUMNS = [
    *CONFIGURATION,
    "call",
    "runs",
    "suspect",
    "samples",
    "batch",
    "seconds",
    "low",
    "high",
    "ms_per_batch",
    "samples_per_second",
    "speedup",
    "speedup_low",
    "speedup_high",
    "words",
    "unequal",
    "difference",
]


@dataclass(frozen=True)
class Compared:
    """The result of comparing two configurations.

    - `outcome`: what was found.
    - `judged`: whether both compute the same function.
    - `speedup` = seconds of the base / own seconds; None if there is no speed-up.
    - `unequal`: the same ratio, if they do not compute the same function; else None.
    - `method`: that of the ratio; None without one.
    """

    outcome: Outcome
    judged: Judgement
    speedup: Ratio | None = None
    unequal: Unequal | None = None
    method: Method | None = None

    def as_row(self) -> Row:
        """The result as the columns of `compared`."""
        row: Row = {
            "words": self.outcome,
            "method": self.method,
            "shown_different": False,
            "equal": self.judged.equal,
            "equal_why": self.judged.why,
            "is_another_function": bool(self.judged.differences),
            "unequal": "",
            "difference": "",
        }
        if self.outcome == Outcome.REFERENCE:
            row["speedup"] = 1.0
        if self.unequal:
            row["unequal"] = self.unequal
            row["difference"] = self.judged.differences or self.judged.why
        if self.speedup:
            row |= self.speedup.columns("speedup")
            row["shown_different"] = self.speedup.shown_different
        return row


def compared(
    measured: Measurements,
    own: Key,
    base: Key,
    estimates: Estimates | None = None,
) -> Compared:
    """Compares two configurations. If one of them applies wrong gradients, there is no ratio.

    - `own`: the configuration; `base`: what it is compared with, which may have no runs.
    - `estimates`: from other seconds than those of an epoch.

    Columns:

    - `speedup` with its interval and `method`; `shown_different` (bool: the interval excludes 1);
      `words`.
    - `equal` (``certified``, ``not certified``, ``not equal``, ``""``), and `equal_why`.
    - `is_another_function` (bool: both compute different functions by design).
    - `unequal` (``""`` for none), marked with ≠; `difference`: how the functions differ.
    """
    estimates = estimates or measured.estimates
    exists = base in estimates
    judged = Judgement()
    if exists and own != base:
        judged = measured.judge(own, base)
    if measured.why_not_learning(own):
        return Compared(Outcome.NOT_LEARNING, judged)
    if exists and measured.why_not_learning(base):
        return Compared(Outcome.WRONG_REFERENCE, judged)
    if own == base:
        return Compared(Outcome.REFERENCE, judged)
    if not exists:
        return Compared(Outcome.NO_REFERENCE, judged)

    ratio = estimates.ratio(own, base)
    if judged.equal == Equality.UNEQUAL:
        unequal = Unequal(ratio.estimate, ratio.low, ratio.high)
        return Compared(
            Outcome.ANOTHER_FUNCTION,
            judged,
            unequal=unequal,
            method=ratio.method,
        )
    return Compared(
        outcome_of(ratio),
        judged,
        speedup=ratio,
        method=ratio.method,
    )


def outcome_of(ratio: Ratio) -> Outcome:
    """The result of a comparison: one of `COMPARED`."""
    if ratio.low is None:
        return Outcome.ONE_RUN
    if not ratio.shown_different:
        return Outcome.NO_DIFFERENCE
    return Outcome.FASTER if ratio.estimate > 1 else Outcome.SLOWER


def time(measured: Measurements) -> pd.DataFrame:
    """One row per configuration and machine, from runs that are not void.

    Columns:

    - the configuration; `runs`, `suspect`.
    - `epoch_seconds` of the `Estimates` with the 95 % interval `epoch_low`, `epoch_high`.
    - `ms_per_step`, `us_per_sample`.
    - `samples` per epoch.
    - `evaluate_seconds`, `predict_seconds`: seconds per call (median later call, geometric mean
      over runs).
    - those of `compared` with its reference on the same machine.
    - `speedup_suspect` (bool: own or reference runs are suspect).
    - `not_learning`: why the training steps apply a gradient other than the computed one (``""`` if
      no certificate shows this).

    Source: the epochs of the records.
    """
    rows = []
    for key, runs in measured.groups.items():
        base = measured.against[key]
        result = compared(measured, key, base)
        is_suspect = runs["suspect"].any()
        if result.method:
            is_suspect = is_suspect or measured.groups[base]["suspect"].any()
        seconds = measured.estimates.seconds(key)
        steps = statistics.median(runs["steps"].tolist())
        samples = statistics.median(runs["samples"].tolist())
        rows.append(
            {
                **identified(key, runs),
                **seconds.columns("epoch_seconds", "epoch_low", "epoch_high"),
                "ms_per_step": 1e3 * seconds.estimate / steps,
                "us_per_sample": 1e6 * seconds.estimate / samples,
                "samples": int(samples),
                "evaluate_seconds": _mean(runs["evaluate"]),
                "predict_seconds": _mean(runs["predict"]),
                **result.as_row(),
                "speedup_suspect": bool(is_suspect),
                "not_learning": measured.why_not_learning(key) or "",
            }
        )
    return pd.DataFrame(rows, columns=TIME_COLUMNS)


def _mean(seconds: np.ndarray) -> float | None:
    """The geometric mean of the seconds of the runs that were timed, None if no run was."""
    timed = seconds[seconds > 0].tolist()  # also excludes NaN
    if not timed:
        return None
    return mean_interval(timed).estimate


def ratios_shown(table: pd.DataFrame, low: str = "speedup_low") -> int:
    """The number of ratios with an interval, of equal and of different functions.

    - `table`: of training times, calls or pairs.
    - `low`: the column with the lower ends of the intervals of speed-ups.
    """
    count = int(table[low].notna().sum())
    for unequal in table["unequal"]:
        if unequal and unequal.low is not None:
            count += 1
    return count


def by_run(frame: pd.DataFrame, configurations: pd.DataFrame) -> dict[str, dict[Hashable, object]]:
    """Record key → the row of its configuration in `configurations`, for each run of the tidy
    `frame` that is not void and has one."""
    rows = {key_of(row): row for row in configurations.to_dict("records")}
    runs = frame[(frame["phase"] == "run") & (frame["verdict"] != "void")]
    keys = runs[KEY].itertuples(index=False, name=None)
    found = {}
    for record, key in zip(runs["record"], keys, strict=True):
        if key in rows:
            found[record] = rows[key]
    return found


def calls(measured: Measurements) -> pd.DataFrame:
    """One row per configuration and kind of `call` (``evaluate``, ``predict``) that was timed.

    Columns:

    - the configuration; `runs`, `suspect`.
    - `samples` per call and `batch` size.
    - `seconds` per call (the median later call of each run, geometric mean over runs) with the 95 %
      interval `low`, `high`.
    - `ms_per_batch`: the latency, for a call of one batch.
    - `samples_per_second`: the throughput.
    - `speedup`, `words`, `unequal` and `difference` of `compared`, from the seconds of the calls
      alone (calls are not timed in turns).

    Source: the phases of runs that are not void.
    """
    rows = []
    runs = measured.runs
    for call in CALLS:
        samples_of = phase_of(measured.frame, call, ["samples"])["samples"]
        values = runs.assign(call_samples=samples_of.reindex(runs["record"]).to_numpy())
        values = values[values[call] > 0]
        of_calls = []
        for value, took in zip(values["value"], values[call], strict=True):
            of_calls.append(value.with_seconds(took))
        values = values.assign(value=of_calls)
        estimates = Estimates(runs_for_estimates(values))
        columns = ["suspect", "implementation", "call_samples", "batch"]
        for key, own in split(values, KEY, columns).items():
            seconds = estimates.seconds(key)
            samples = float(own["call_samples"][0])
            batch = float(own["batch"][0])
            batches = math.nan
            if batch > 0:
                batches = math.ceil(samples / batch)
            result = compared(
                measured,
                key,
                measured.against[key],
                estimates,
            )
            rows.append(
                {
                    **identified(key, own),
                    **result.as_row(),
                    "call": call,
                    "samples": samples,
                    "batch": batch,
                    **seconds.columns("seconds", "low", "high"),
                    "ms_per_batch": 1e3 * seconds.estimate / batches,
                    "samples_per_second": samples / seconds.estimate,
                }
            )
    return pd.DataFrame(rows, columns=CALL_COLUMNS)
