"""The order in which runs were measured, and what drift it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rnnbench.tables.frame import CELL
from rnnbench.tables.usable import run_values

if TYPE_CHECKING:
    import pandas as pd


def order(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per run that is not void, as started on its machine.

    Columns: `place` (1, 2, … on its machine), `implementation`, `device`, `machine`, `block`,
    `planned` (place in the plan), `relative` (epoch seconds / mean of the cell, 1 = average),
    `suspect`, `name`. Source: start times and epochs of the records.
    """
    values = run_values(frame).sort_values(["machine", "started"], ignore_index=True)
    values["place"] = values.groupby("machine").cumcount() + 1
    values["relative"] = values["seconds"] / values.groupby(CELL)["seconds"].transform("mean")
    values["planned"] = values["order"]
    return values[["place", "implementation", "device", "machine", "block", "planned",
                   "relative", "suspect", "name"]]  # fmt: skip


def as_planned(table: pd.DataFrame) -> bool:
    """Whether each machine measured its runs in the planned order."""
    return all(places.is_monotonic_increasing for _, places in table.groupby("machine")["planned"])
