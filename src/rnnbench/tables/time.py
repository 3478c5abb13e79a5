"""How fast: one row per cell, with its interval and its speed-up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rnnbench.tables.frame import CELL
from rnnbench.tables.stats import ONE_RUN, Ratio, mean_interval, ratio_interval
from rnnbench.tables.usable import run_values

if TYPE_CHECKING:
    import pandas as pd

NO_DIFFERENCE = "no difference shown"
IS_REFERENCE = "reference"
NO_REFERENCE = "no reference run"

FASTER, SLOWER = "faster", "slower"
COMPARED = (FASTER, SLOWER, NO_DIFFERENCE, ONE_RUN)

# What a reference may name, beside which everything else of a cell stays as it is.
KEY = [name for name in CELL if name != "implementation"]


def time(frame: pd.DataFrame, reference: Mapping[str, str]) -> pd.DataFrame:
    """One row per cell on one machine, from runs that are not void.

    Columns: the cell (`model`, `cell`, `build`, `dataset`, `variant`, `rnn`, `alias`,
    `implementation`, `device`, `machine`); `runs`, `suspect` (how many of them);
    `epoch_seconds` (geometric mean of the runs' medians) with `epoch_low`, `epoch_high`
    (95 %); `ms_per_step`, `us_per_sample`; `evaluate_seconds`, `predict_seconds` (median
    later call, geometric mean over runs); `speedup` = reference's seconds / own seconds on
    the same machine, with `speedup_low`, `speedup_high`, `method`, `shown_different`,
    `words`, `speedup_suspect` (bool: own or the reference's runs are). Source: the records' epochs.

    `reference` (axis → choice) is what a speed-up is relative to: the cell with the same
    choices but these, without an alias unless `reference` names one.
    """
    import pandas as pd

    cells = dict(iter(run_values(frame).groupby(KEY, sort=False)))
    rows = []
    for key, runs in cells.items():
        wanted = reference_key(dict(zip(KEY, key, strict=True)), reference)
        rows.append(_row(runs, cells.get(wanted), is_reference=wanted == key))
    return pd.DataFrame(rows, columns=TIME_COLUMNS)


TIME_COLUMNS = [
    *CELL, "runs", "suspect", "epoch_seconds", "epoch_low", "epoch_high", "ms_per_step",
    "us_per_sample", "evaluate_seconds", "predict_seconds", "speedup", "speedup_low",
    "speedup_high", "method", "shown_different", "words", "speedup_suspect",
]  # fmt: skip


def reference_key(cell: Mapping[str, Any], reference: Mapping[str, str]) -> tuple[Any, ...]:
    """The key (values of `KEY`) of the cell that `cell` is compared with."""
    return tuple({**cell, "alias": "", **reference}[name] for name in KEY)


def compare(runs: pd.DataFrame, base: pd.DataFrame) -> Ratio:
    """The speed-up of `runs` against `base`: base's seconds / own seconds."""
    return ratio_interval(
        base["seconds"].tolist(),
        runs["seconds"].tolist(),
        base["block"].astype(int).tolist(),
        runs["block"].astype(int).tolist(),
    )


def in_words(ratio: Ratio) -> str:
    if ratio.low is None:
        return ONE_RUN
    if not ratio.shown_different:
        return NO_DIFFERENCE
    return FASTER if ratio.estimate > 1 else SLOWER


def ratios_shown(table: pd.DataFrame) -> int:
    """How many ratios with an interval the time table shows."""
    return int(table["speedup_low"].notna().sum())


def _row(runs: pd.DataFrame, base: pd.DataFrame | None, is_reference: bool) -> dict[str, Any]:
    seconds = mean_interval(runs["seconds"].tolist())
    row: dict[Any, Any] = {
        **runs.iloc[0][CELL].to_dict(),
        "runs": len(runs),
        "suspect": int(runs["suspect"].sum()),
        "epoch_seconds": seconds.estimate,
        "epoch_low": seconds.low,
        "epoch_high": seconds.high,
        "ms_per_step": 1e3 * seconds.estimate / runs["steps"].median(),
        "us_per_sample": 1e6 * seconds.estimate / runs["samples"].median(),
        "evaluate_seconds": _mean(runs["evaluate"]),
        "predict_seconds": _mean(runs["predict"]),
        "speedup_suspect": bool(runs["suspect"].any()),
    }
    if is_reference:
        return {**row, "speedup": 1.0, "method": "", "shown_different": False,
                "words": IS_REFERENCE}  # fmt: skip
    if base is None:
        return {**row, "method": "", "shown_different": False, "words": NO_REFERENCE}
    ratio = compare(runs, base)
    return {
        **row,
        "speedup": ratio.estimate,
        "speedup_low": ratio.low,
        "speedup_high": ratio.high,
        "method": ratio.method,
        "shown_different": ratio.shown_different,
        "words": in_words(ratio),
        "speedup_suspect": bool(runs["suspect"].any() or base["suspect"].any()),
    }


def _mean(seconds: pd.Series) -> float | None:
    measured = [value for value in seconds.dropna().tolist() if value > 0]
    return mean_interval(measured).estimate if measured else None
