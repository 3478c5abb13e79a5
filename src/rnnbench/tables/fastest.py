"""Who is fastest, and whether that is shown: one row per contest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rnnbench.tables.frame import CELL
from rnnbench.tables.pooling import Spread, pooled_spreads, shared
from rnnbench.tables.split import Cells, split
from rnnbench.tables.time import IS_REFERENCE, KEY, NOT_EQUAL, RUN, compare
from rnnbench.tables.usable import run_values

if TYPE_CHECKING:
    import pandas as pd

OF_THE_IMPLEMENTATION = {"rnn", "options", "alias"}
FASTEST_COLUMNS = [
    *CELL, "contestants", "suspect", "seconds", "speedup", "low", "high", "words", "runner_up",
    "lead", "lead_low", "lead_high", "lead_shown", "lead_is_speedup",
    "left_out", "equal",
]  # fmt: skip


def fastest(
    frame: pd.DataFrame, time_table: pd.DataFrame, reference: Mapping[str, str]
) -> pd.DataFrame:
    """One row per contest: cells that differ in implementation or in the reference's axes only.

    Columns: the fastest cell; `name` (what tells it from the others); `contestants` (how many);
    `suspect` (bool: runs of it, the reference or the runner-up are); `seconds` per epoch;
    `speedup`, `low`, `high`, `words` as in the time table; `runner_up` (its name, ``""`` for none)
    and `lead` = runner-up's seconds / own, with `lead_low`, `lead_high`, `lead_shown`
    and `lead_is_speedup` (the time table shows this ratio already); `left_out`: names and reasons
    of cells that do not compute the reference's function and so are no contestants; `equal`:
    whether the fastest is certified to compute the reference's.
    """
    import pandas as pd

    usable = run_values(frame)
    values, spreads = split(usable, KEY, RUN), pooled_spreads(usable, KEY)
    told_by = {*OF_THE_IMPLEMENTATION, *reference}
    same = [name for name in KEY if name not in told_by]
    rows = []
    contests: dict[tuple[Any, ...], list[dict[Any, Any]]] = {}
    for row in time_table.to_dict("records"):
        contests.setdefault(tuple(row[name] for name in same), []).append(row)
    for cells in contests.values():
        ordered = sorted(cells, key=lambda row: row["epoch_seconds"])
        ranked = [row for row in ordered if row["words"] != NOT_EQUAL]
        axes = sorted(
            a for a in told_by - OF_THE_IMPLEMENTATION if len({row[a] for row in cells}) > 1
        )
        if not ranked:
            continue
        unequal = [row for row in ordered if row["words"] == NOT_EQUAL]
        left_out = "; ".join(f"`{_name(row, axes)}` ({row['equal_why']})" for row in unequal)
        spread = shared(spreads, ranked[0], ranked[1]) if len(ranked) > 1 else None
        rows.append({**_contest(ranked, values, axes, spread), "left_out": left_out})
    return pd.DataFrame(rows, columns=["name", *FASTEST_COLUMNS])


def _contest(
    ranked: list[dict[Any, Any]],
    values: Cells,
    axes: list[str],
    spread: Spread | None,
) -> dict[str, Any]:
    first = ranked[0]
    row = {
        **{name: first[name] for name in CELL},
        "name": _name(first, axes),
        "contestants": len(ranked),
        "suspect": bool(first["speedup_suspect"]),
        "seconds": first["epoch_seconds"],
        "speedup": first["speedup"],
        "low": first["speedup_low"],
        "high": first["speedup_high"],
        "words": first["words"],
        "equal": first["equal"],
        "runner_up": "",
    }
    if len(ranked) < 2:
        return row
    second = ranked[1]
    own, other = (values[tuple(row[name] for name in KEY)] for row in (first, second))
    lead = compare(own, other, spread)
    return {
        **row,
        "suspect": row["suspect"] or bool(second["suspect"]),
        "runner_up": _name(second, axes),
        "lead": lead.estimate,
        "lead_low": lead.low,
        "lead_high": lead.high,
        "lead_shown": lead.shown_different,
        "lead_is_speedup": IS_REFERENCE in (first["words"], second["words"]),
    }


def extra_ratios(table: pd.DataFrame) -> int:
    """Leads over a runner-up that are not already a ratio of the time table."""
    return int((table["lead_low"].notna() & ~table["lead_is_speedup"].eq(True)).sum())


def _name(cell: Mapping[Any, Any], axes: list[str]) -> str:
    parts = [cell["implementation"], *(cell[axis] for axis in axes)]
    return ", ".join(str(part) for part in parts if part) or str(cell["model"])
