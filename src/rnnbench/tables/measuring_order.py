"""The order in which runs were measured, and what drift it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rnnbench.tables.frame import CELL
from rnnbench.tables.usable_runs import run_values

if TYPE_CHECKING:
    import pandas as pd

DRAWN = 600


def order(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per run that is not void, as started on its machine.

    Columns: `place` (1, 2, … on its machine), `implementation`, `device`, `machine`, `block`
    (its number in the plan, text), `planned` (place in the plan), `relative` (epoch seconds / mean
    of the cell, 1 = average), `suspect`, `name`, `together` (runs with the same text took turns).
    Source: start times and epochs of the records.
    """
    values = run_values(frame).sort_values(["machine", "started"], ignore_index=True)
    values["place"] = values.groupby("machine").cumcount() + 1
    values["relative"] = values["seconds"] / values.groupby(CELL)["seconds"].transform("mean")
    values["planned"] = values["order"]
    values["block"] = values["block"].str.replace(r"^.*/", "", regex=True)
    values["together"] = values["round"].where(values["round"] != "", values["record"])
    return values[["place", "implementation", "device", "machine", "block", "planned",
                   "relative", "suspect", "name", "together"]]  # fmt: skip


def binned(table: pd.DataFrame) -> pd.DataFrame:
    """`table` thinned for drawing: where a machine has more than `DRAWN` runs, the medians of
    that many stretches of equal length, one implementation each at a time."""
    import pandas as pd

    thin = []
    for machine, runs in table.groupby("machine", sort=False):
        if len(runs) <= DRAWN:
            thin.append(runs)
            continue
        stretch = (runs["place"] - 1) * (DRAWN // runs["implementation"].nunique()) // len(runs)
        medians = runs.groupby([stretch, "implementation"], sort=False).agg(
            place=("place", "median"), relative=("relative", "median"), suspect=("suspect", "any")
        )
        thin.append(medians.reset_index(level="implementation").assign(machine=machine))
    return pd.concat(thin, ignore_index=True) if thin else table


def as_planned(table: pd.DataFrame) -> bool:
    """Whether each machine measured its runs, or those that took turns together, in the planned
    order."""
    first = table.groupby(["machine", "together"], sort=False)["planned"].min()
    return all(places.is_monotonic_increasing for _, places in first.groupby("machine", sort=False))
