"""The order in which runs were measured, which shows drift."""

from __future__ import annotations

import pandas as pd

from rnnbench.axes import CONFIGURATION
from rnnbench.tables.usable_runs import run_values

MAX_POINTS = 600  # drawn per machine


def order(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per run that is not void, in the order of the start on its machine.

    Columns: `place` (1, 2, … on its machine), `implementation`, `device`, `machine`, `block` (its
    number in the plan, as text), `planned` (position in the plan), `relative` (epoch seconds / mean
    of the configuration; 1 = average), `suspect` (bool), `name`, `together` (equal for runs that
    trained in turns). Source: start times and epochs of the records.
    """
    values = run_values(frame).sort_values(["machine", "started"], ignore_index=True)
    values["place"] = values.groupby("machine").cumcount() + 1
    values["relative"] = values["seconds"] / values.groupby(CONFIGURATION)["seconds"].transform(
        "mean"
    )
    values["planned"] = values["order"]
    values["block"] = values["block"].str.replace(r"^.*/", "", regex=True)
    values["together"] = values["round"].where(values["round"] != "", values["record"])
    return values[["place", "implementation", "device", "machine", "block", "planned",
                   "relative", "suspect", "name", "together"]]  # fmt: skip


def thinned_order(table: pd.DataFrame) -> pd.DataFrame:
    """`table` thinned for plotting: a machine with more than `MAX_POINTS` runs is reduced to about
    that many rows, the medians of each implementation over sections of equal length."""
    parts = []
    for machine, runs in table.groupby("machine", sort=False):
        if len(runs) <= MAX_POINTS:
            parts.append(runs)
            continue
        sections = MAX_POINTS // runs["implementation"].nunique()
        section = (runs["place"] - 1) * sections // len(runs)
        medians = runs.groupby([section, "implementation"], sort=False).agg(
            place=("place", "median"), relative=("relative", "median"), suspect=("suspect", "any")
        )
        parts.append(medians.reset_index(level="implementation").assign(machine=machine))
    return pd.concat(parts, ignore_index=True) if parts else table


def in_planned_order(table: pd.DataFrame) -> bool:
    """Whether each machine measured its runs, or groups of runs in turns, in the planned order."""
    first = table.groupby(["machine", "together"], sort=False)["planned"].min()
    return all(
        positions.is_monotonic_increasing for _, positions in first.groupby("machine", sort=False)
    )
