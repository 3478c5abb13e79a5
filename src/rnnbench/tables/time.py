"""Time per epoch and speed-up of each configuration, and the same for ``evaluate()`` and
``predict()``, with intervals."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from rnnbench.axes import CONFIGURATION, KEY
from rnnbench.sources.certificates import NOT_LEARNING
from rnnbench.tables.certificates import ANOTHER_FUNCTION, UNEQUAL, Certificates
from rnnbench.tables.estimates import Estimates
from rnnbench.tables.frame import Rows, counts, run_values, split
from rnnbench.tables.reference import Key, key_of, keys_of, references
from rnnbench.tables.stats import ONE_RUN, Interval, Ratio, mean_interval

NO_DIFFERENCE = "no difference shown"
IS_REFERENCE = "reference"
NO_REFERENCE = "no reference run"
NOT_EQUAL = "not the same function"
WRONG_REFERENCE = f"the reference {NOT_LEARNING}"

FASTER, SLOWER = "faster", "slower"
COMPARED = (FASTER, SLOWER, NO_DIFFERENCE, ONE_RUN)
MEAN_COLUMNS = ["steps", "samples", "evaluate", "predict"]
TIME_COLUMNS = [
    *CONFIGURATION, "runs", "suspect", "epoch_seconds", "epoch_low", "epoch_high", "ms_per_step",
    "us_per_sample", "samples", "evaluate_seconds", "predict_seconds", "speedup", "speedup_low",
    "speedup_high", "method", "shown_different", "words", "speedup_suspect",
    "equal", "equal_why", "unequal", "difference", "not_learning",
]  # fmt: skip
MARK = "≠"
Value = TypeVar("Value")
CALLS = ("evaluate", "predict")
CALL_COLUMNS = [
    *CONFIGURATION, "call", "runs", "suspect", "samples", "batch", "seconds", "low", "high",
    "ms_per_batch", "samples_per_second", "speedup", "speedup_low", "speedup_high", "words",
    "unequal", "difference",
]  # fmt: skip


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
            row |= {**ratio_columns(ratio, equal, "speedup"), "speedup_suspect": suspect}
        rows.append(row)
    return pd.DataFrame(rows, columns=TIME_COLUMNS)


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


def ratio_columns(ratio: Ratio, equal: tuple[str, str], *names: str) -> dict[Any, Any]:
    """The columns of a `ratio`, whose estimate and ends have these `names`, or those of an
    `Unequal`; `equal`: the judgement (`Certificates.judge`) on its two configurations."""
    if equal[0] == UNEQUAL:
        return {
            "method": ratio.method,
            "words": NOT_EQUAL,
            "unequal": Unequal(ratio.estimate, ratio.low, ratio.high),
            "difference": equal[1].removeprefix(ANOTHER_FUNCTION),
        }
    return {
        **ratio.columns(*names),
        "method": ratio.method,
        "shown_different": ratio.shown_different,
        "words": ratio_text(ratio),
        "unequal": "",
        "difference": "",
    }


def _mean(seconds: np.ndarray) -> float | None:
    measured = seconds[seconds > 0].tolist()  # also excludes NaN
    return mean_interval(measured).estimate if measured else None


@dataclass(frozen=True)
class Unequal(Interval):
    """A ratio of seconds with its 95 % interval. It is not a speed-up, so its text always carries
    the mark ≠."""

    def __str__(self) -> str:
        """``≠1.2134 (1.1902–1.2371)``."""
        if self.low is None or self.high is None:
            return f"{MARK}{self.estimate:.4f}"
        return f"{MARK}{self.estimate:.4f} ({self.low:.4f}–{self.high:.4f})"


def unequal_runs(frame: pd.DataFrame, time_table: pd.DataFrame, reference: str) -> dict[str, str]:
    """Record key → ``≠1.2134 (1.1902–1.2371) against keras: activation relu instead of tanh``, for
    each run of the tidy `frame` whose configuration has such a ratio in `time_table`. `reference`
    is the reference as text."""
    texts = {
        key_of(row): f"{row['unequal']} against {reference}: {row['difference']}"
        for row in time_table.to_dict("records")
        if isinstance(row["unequal"], Unequal)
    }
    return _by_run(frame, texts)


def run_speedups(frame: pd.DataFrame, time_table: pd.DataFrame) -> dict[str, float]:
    """Record key → speed-up of its configuration in `time_table`, for each run of the tidy `frame`
    that has one."""
    table = time_table[time_table["speedup"].notna()]
    return _by_run(frame, {key_of(row): row["speedup"] for row in table.to_dict("records")})


def _by_run(frame: pd.DataFrame, by_key: Mapping[Any, Value]) -> dict[str, Value]:
    if not by_key:
        return {}
    runs = frame[(frame["phase"] == "run") & (frame["verdict"] != "void")]
    values = ((row["record"], by_key.get(key_of(row))) for row in runs.to_dict("records"))
    return {record: value for record, value in values if value is not None}


def calls(
    frame: pd.DataFrame, time_table: pd.DataFrame, reference: Mapping[str, str]
) -> pd.DataFrame:
    """One row per configuration and kind of `call` (``evaluate``, ``predict``) that was timed.

    Columns: the configuration; `runs`, `suspect` (numbers of runs); `samples` per call and `batch`
    size; `seconds` per call (the median later call of each run, geometric mean over runs) with the
    95 % interval `low`, `high`; `ms_per_batch` (the latency, for a call of one batch) and
    `samples_per_second` (the throughput); `speedup` = seconds of the reference / own seconds, with
    the 95 % interval `speedup_low`, `speedup_high`, from the seconds alone (calls are not timed in
    turns); `words`, `unequal` and `difference` as in the time table, which decides whether a
    configuration has a speed-up. Source: the phases of runs that are not void.
    """
    rows: list[dict[str, Any]] = []
    time_rows = {key_of(row): row for row in time_table.to_dict("records")}
    against = references(keys_of(frame), reference)
    all_values = run_values(frame)
    for call in CALLS:
        phases = frame[frame["phase"] == call].drop_duplicates("record").set_index("record")
        # Effects are measured for training only, so calls are compared by their seconds.
        values = all_values.assign(
            call_samples=phases["samples"].reindex(all_values["record"]).to_numpy(),
            batch=phases["batch"].reindex(all_values["record"]).to_numpy(),
            seconds=all_values[call],
            effect=float("nan"),
            pairing=all_values["block"],
        )
        values = values[values["seconds"] > 0]
        estimates = Estimates(values)
        groups = split(values, KEY, ["suspect", "implementation", "call_samples", "batch"])
        for key, runs in groups.items():
            row = _call_row(runs, estimates.seconds(key))
            ratio = _call_ratio(time_rows.get(key, {}), estimates, key, against[key])
            rows.append({**dict(zip(KEY, key, strict=True)), "call": call, **row, **ratio})
    return pd.DataFrame(rows, columns=CALL_COLUMNS)


def _call_row(runs: Rows, seconds: Interval) -> dict[str, Any]:
    samples, batch = float(runs["call_samples"][0]), float(runs["batch"][0])
    batches = -(-samples // batch) if batch > 0 else float("nan")
    return {
        **counts(runs),
        "samples": samples,
        "batch": batch,
        **seconds.columns("seconds", "low", "high"),
        "ms_per_batch": 1e3 * seconds.estimate / batches,
        "samples_per_second": samples / seconds.estimate,
        "unequal": "",
        "difference": "",
    }


def _call_ratio(
    time_row: Mapping[Any, Any], estimates: Estimates, key: Key, base: Key
) -> dict[str, Any]:
    """The ratio of a configuration to its reference, if its row of the time table has one."""
    words = time_row.get("words", NO_REFERENCE)
    if words == IS_REFERENCE:
        return {"speedup": 1.0, "words": words}
    if base not in estimates or words not in (*COMPARED, NOT_EQUAL):
        return {"words": words if base in estimates else NO_REFERENCE}
    equal = time_row["equal"], time_row["equal_why"]
    return ratio_columns(estimates.ratio(key, base), equal, "speedup")
