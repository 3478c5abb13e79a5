"""Time per epoch and speed-up of each configuration, with intervals."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from rnnbench.axes import CONFIGURATION, KEY
from rnnbench.sources.certificates import NOT_LEARNING
from rnnbench.tables.certificates import UNEQUAL, Certificates
from rnnbench.tables.estimates import Estimates
from rnnbench.tables.grouping import Rows, counts, split
from rnnbench.tables.reference import keys_of, references
from rnnbench.tables.stats import ONE_RUN, Interval, Ratio, mean_interval
from rnnbench.tables.unequal_ratio import Unequal, difference, unequal
from rnnbench.tables.usable_runs import run_values

NO_DIFFERENCE = "no difference shown"
IS_REFERENCE = "reference"
NO_REFERENCE = "no reference run"
NOT_EQUAL = "not the same function"
WRONG_REFERENCE = f"the reference {NOT_LEARNING}"

FASTER, SLOWER = "faster", "slower"
COMPARED = (FASTER, SLOWER, NO_DIFFERENCE, ONE_RUN)


def time(
    frame: pd.DataFrame,
    reference: Mapping[str, str],
    certificates: Certificates = Certificates(),  # noqa: B008 (frozen)
) -> pd.DataFrame:
    """One row per configuration and machine, from runs that are not void.

    `reference` (axis → choice) names the reference of the speed-ups (see `references`).

    Columns:

    - the configuration: `model`, `cell` (RNN cell), `build`, `dataset`, `variant`, `rnn`,
      `options`, `alias`, `implementation`, `device`, `machine`.
    - `runs`, `suspect`: numbers of runs.
    - `epoch_seconds`: seconds of the `Estimates`, with the 95 % interval `epoch_low`,
      `epoch_high`; `ms_per_step`, `us_per_sample`; `samples` per epoch.
    - `evaluate_seconds`, `predict_seconds`: seconds per call (median later call, geometric mean
      over runs).
    - `speedup` = `epoch_seconds` of the reference / own on the same machine, with the 95 % interval
      `speedup_low`, `speedup_high` and its `method`; `shown_different` (bool: the interval excludes
      1); `words`: the result as text; `speedup_suspect` (bool: own or reference runs are suspect).
    - `equal`: whether it computes the function of the reference (``certified``, ``not certified``,
      ``not equal``, ``""``), and `equal_why`: the reason.
    - `unequal`: the ratio of the times (`Unequal`, marked with ≠) if the certificate shows that the
      functions differ, which excludes a speed-up (else ``""``); `difference`: how they differ.
    - `not_learning`: why the training steps apply a gradient other than the computed one (``""`` if
      no certificate shows this). If this holds for the configuration or its reference, it has
      neither `speedup` nor `unequal`.

    Source: the epochs of the records.
    """
    values = run_values(frame, companions=True)
    estimates = Estimates(values)
    runs = values[~values["companion"]]
    groups = split(runs, KEY, ["suspect", "implementation", *MEAN_COLUMNS])
    # Keys of the whole frame: a void reference is not replaced by another configuration.
    against = references(keys_of(frame), reference)
    rows = []
    for key, own_runs in groups.items():
        own, base = (dict(zip(KEY, choices, strict=True)) for choices in (key, against[key]))
        exists = against[key] in groups
        equal = certificates.judge(own, base) if exists and against[key] != key else ("", "")
        row = {
            **own,
            **_times(own_runs, estimates.seconds(key)),
            "equal": equal[0],
            "equal_why": equal[1],
            "not_learning": certificates.why_not_learning(own) or "",
        }
        if wrong := wrong_steps(certificates, own, base if exists else own):
            row |= {"words": wrong}
        elif against[key] == key:
            row |= {"speedup": 1.0, "words": IS_REFERENCE}
        elif not exists:
            row |= {"words": NO_REFERENCE}
        else:
            ratio = estimates.ratio(key, against[key])
            suspect = bool(own_runs["suspect"].any() or groups[against[key]]["suspect"].any())
            row |= {**_speedup(ratio, equal), "speedup_suspect": suspect}
        rows.append(row)
    return pd.DataFrame(rows, columns=TIME_COLUMNS)


MEAN_COLUMNS = ["steps", "samples", "evaluate", "predict"]
TIME_COLUMNS = [
    *CONFIGURATION, "runs", "suspect", "epoch_seconds", "epoch_low", "epoch_high", "ms_per_step",
    "us_per_sample", "samples", "evaluate_seconds", "predict_seconds", "speedup", "speedup_low",
    "speedup_high", "method", "shown_different", "words", "speedup_suspect",
    "equal", "equal_why", "unequal", "difference", "not_learning",
]  # fmt: skip


def wrong_steps(
    certificates: Certificates, configuration: Mapping[str, Any], base: Mapping[str, Any]
) -> str:
    """Which of the two applies wrong gradients, as text, so that they have no ratio; ``""`` if
    neither does."""
    if certificates.why_not_learning(configuration):
        return NOT_LEARNING
    return WRONG_REFERENCE if certificates.why_not_learning(base) else ""


def ratio_text(ratio: Ratio) -> str:
    """The result of a comparison as text: one of `COMPARED`."""
    if ratio.low is None:
        return ONE_RUN
    if not ratio.shown_different:
        return NO_DIFFERENCE
    return FASTER if ratio.estimate > 1 else SLOWER


def ratios_shown(table: pd.DataFrame) -> int:
    """The number of ratios with an interval in a table of training times or calls."""
    unequal = sum(isinstance(x, Unequal) and x.low is not None for x in table["unequal"])
    return int(table["speedup_low"].notna().sum()) + unequal


def _times(runs: Rows, seconds: Interval) -> dict[Any, Any]:
    return {
        **counts(runs),
        **seconds.columns("epoch_seconds", "epoch_low", "epoch_high"),
        "ms_per_step": 1e3 * seconds.estimate / statistics.median(runs["steps"].tolist()),
        "us_per_sample": 1e6 * seconds.estimate / statistics.median(runs["samples"].tolist()),
        "samples": int(statistics.median(runs["samples"].tolist())),
        "evaluate_seconds": _mean(runs["evaluate"]),
        "predict_seconds": _mean(runs["predict"]),
        "speedup_suspect": bool(runs["suspect"].any()),
        "method": "",
        "shown_different": False,
        "unequal": "",
        "difference": "",
    }


def _speedup(ratio: Ratio, equal: tuple[str, str]) -> dict[Any, Any]:
    """The columns of a `ratio` to the reference; `equal`: from `Certificates.judge`."""
    if equal[0] == UNEQUAL:
        return {"method": ratio.method, "words": NOT_EQUAL, "unequal": unequal(ratio),
                "difference": difference(equal[1])}  # fmt: skip
    return {
        **ratio.columns("speedup"),
        "method": ratio.method,
        "shown_different": ratio.shown_different,
        "words": ratio_text(ratio),
    }


def _mean(seconds: np.ndarray) -> float | None:
    measured = seconds[seconds > 0].tolist()  # also excludes NaN
    return mean_interval(measured).estimate if measured else None
