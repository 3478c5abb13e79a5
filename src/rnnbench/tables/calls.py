"""Latency and throughput of ``evaluate()`` and ``predict()``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from rnnbench.axes import CONFIGURATION, KEY
from rnnbench.tables.estimates import Estimates
from rnnbench.tables.grouping import Rows, counts, split
from rnnbench.tables.reference import Key, key_of, keys_of, references
from rnnbench.tables.stats import Interval
from rnnbench.tables.time import COMPARED, IS_REFERENCE, NO_REFERENCE, NOT_EQUAL, ratio_text
from rnnbench.tables.unequal_ratio import unequal
from rnnbench.tables.usable_runs import run_values

CALLS = ("evaluate", "predict")
CALL_COLUMNS = [
    *CONFIGURATION, "call", "runs", "suspect", "samples", "batch", "seconds", "low", "high",
    "ms_per_batch", "samples_per_second", "speedup", "speedup_low", "speedup_high", "words",
    "unequal", "difference",
]  # fmt: skip


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
            row = _row(runs, estimates.seconds(key))
            ratio = _ratio(time_rows.get(key, {}), estimates, key, against[key])
            rows.append({**dict(zip(KEY, key, strict=True)), "call": call, **row, **ratio})
    return pd.DataFrame(rows, columns=CALL_COLUMNS)


def _row(runs: Rows, seconds: Interval) -> dict[str, Any]:
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


def _ratio(
    time_row: Mapping[Any, Any], estimates: Estimates, key: Key, base: Key
) -> dict[str, Any]:
    """The ratio of a configuration to its reference, if its row of the time table has one."""
    words = time_row.get("words", NO_REFERENCE)
    if words == IS_REFERENCE:
        return {"speedup": 1.0, "words": words}
    if base not in estimates or words not in (*COMPARED, NOT_EQUAL):
        return {"words": words if base in estimates else NO_REFERENCE}
    ratio = estimates.ratio(key, base)
    if words == NOT_EQUAL:
        return {"words": words, "unequal": unequal(ratio), "difference": time_row["difference"]}
    return {**ratio.columns("speedup"), "words": ratio_text(ratio)}
