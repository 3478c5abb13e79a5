"""``evaluate()`` and ``predict()``: how long a call takes, and how many samples a second."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rnnbench.tables.frame import CELL
from rnnbench.tables.grouping import Rows, split
from rnnbench.tables.pooling import pooled_spreads, shared
from rnnbench.tables.reference import KEY, key_of, keys_of, references
from rnnbench.tables.stats import mean_interval
from rnnbench.tables.time import (
    COMPARED,
    IS_REFERENCE,
    NO_REFERENCE,
    NOT_EQUAL,
    RUN,
    compare,
    in_words,
)
from rnnbench.tables.unequal_ratio import unequal
from rnnbench.tables.usable_runs import run_values

if TYPE_CHECKING:
    import pandas as pd

CALLS = ("evaluate", "predict")
CALL_COLUMNS = [
    *CELL, "call", "runs", "suspect", "samples", "batch", "seconds", "low", "high", "ms_per_batch",
    "samples_per_second", "speedup", "speedup_low", "speedup_high", "words", "unequal",
    "difference",
]  # fmt: skip


def calls(
    frame: pd.DataFrame, time_table: pd.DataFrame, reference: Mapping[str, str]
) -> pd.DataFrame:
    """One row per cell and kind of `call` (``evaluate``, ``predict``) that was timed.

    Columns: the cell; `runs`, `suspect` (how many of them); `samples` of a call, its `batch` size;
    `seconds` of a call (the median later call of each run, geometric mean over runs) with 95 %
    `low`, `high`; `ms_per_batch` (of a call with one batch its latency), `samples_per_second` (the
    throughput); `speedup` = the reference's seconds / own, with 95 % `speedup_low`, `speedup_high`
    from the seconds (calls are single turns), and `words`, `unequal`, `difference` as in the time
    table, which says of what cell there is a speed-up. Source: the phases of runs that are not
    void.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    judged = {key_of(row): row for row in time_table.to_dict("records")}
    against = references(keys_of(frame), reference)
    every = run_values(frame)
    for call in CALLS:
        values = every.copy()
        told = frame[frame["phase"] == call].drop_duplicates("record").set_index("record")
        values["call_samples"] = told["samples"].reindex(values["record"]).to_numpy()
        values["batch"] = told["batch"].reindex(values["record"]).to_numpy()
        # What turns say of training they do not say of a call.
        values = values.assign(seconds=values[call], effect=float("nan"), sitting=values["block"])
        values = values[values["seconds"] > 0]
        spreads = pooled_spreads(values, KEY)
        cells = split(values, KEY, [*RUN, "implementation", "call_samples", "batch"])
        for key, runs in cells.items():
            cell, base = dict(zip(KEY, key, strict=True)), against[key]
            spread = shared(spreads, cell, dict(zip(KEY, base, strict=True)))
            ratio = _ratio(judged.get(key, {}), runs, cells.get(base), spread)
            rows.append({**cell, "call": call, **_row(runs), **ratio})
    return pd.DataFrame(rows, columns=CALL_COLUMNS)


def _row(runs: Rows) -> dict[str, Any]:
    seconds = mean_interval(runs["seconds"].tolist())
    samples, batch = float(runs["call_samples"][0]), float(runs["batch"][0])
    batches = -(-samples // batch) if batch > 0 else float("nan")
    return {
        "implementation": runs["implementation"][0],
        "runs": len(runs["seconds"]),
        "suspect": int(runs["suspect"].sum()),
        "samples": samples,
        "batch": batch,
        "seconds": seconds.estimate,
        "low": seconds.low,
        "high": seconds.high,
        "ms_per_batch": 1e3 * seconds.estimate / batches,
        "samples_per_second": samples / seconds.estimate,
        "unequal": "",
        "difference": "",
    }


def _ratio(judged: Mapping[Any, Any], runs: Rows, base: Rows | None, spread: Any) -> dict[str, Any]:
    """The ratio of `runs` to those of their reference, where the row of the time table allows."""
    words = judged.get("words", NO_REFERENCE)
    if words == IS_REFERENCE:
        return {"speedup": 1.0, "words": words}
    if base is None or words not in (*COMPARED, NOT_EQUAL):
        return {"words": words if base is not None else NO_REFERENCE}
    ratio = compare(runs, base, spread)
    if words == NOT_EQUAL:
        return {"words": words, "unequal": unequal(ratio), "difference": judged["difference"]}
    return {"speedup": ratio.estimate, "speedup_low": ratio.low, "speedup_high": ratio.high,
            "words": in_words(ratio)}  # fmt: skip
