"""The figures of time, learning and order, as SVG text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from rnnbench.report.colours import colours
from rnnbench.report.figure import Figure, figure
from rnnbench.report.labels import with_labels
from rnnbench.report.learning_curves import curve_panel, order_panel
from rnnbench.report.speed_panels import (
    LOG_FROM,
    speedup_limits,
    speedup_panel,
    time_limits,
    time_panel,
)
from rnnbench.tables.curves import curves
from rnnbench.tables.frame import COLUMN, GROUP
from rnnbench.tables.measuring_order import binned, order
from rnnbench.tables.time import COMPARED
from rnnbench.tables.usable_runs import run_values

if TYPE_CHECKING:
    import pandas as pd

CURVES = {"loss": "training loss", "val_acc": "validation accuracy"}
SQUEEZED = 2  # times as long as a device's own axis of ratios: the common one would hide them
PANELS = 12  # of a kind: what a person scrolls through; the tables hold every cell


def figures(
    frame: pd.DataFrame, table: pd.DataFrame, moved: Callable[[pd.DataFrame], pd.DataFrame]
) -> list[Figure]:
    """Figures of time, speed-up, learning and order that `frame` has data for, of the first
    `PANELS` places (group and device). `table` is the time table of `frame`, `moved` what
    `side_by_side` makes of such tables."""
    if table.empty:
        return []
    labelled = with_labels(moved(table))
    ink = colours(labelled["implementation"])
    return [
        *_speed(first_places(labelled), with_labels(moved(run_values(frame))), ink),
        *(
            one
            for measure in CURVES
            for one in _learning(moved(curves(frame, measure)), measure, ink)
        ),
        *_orders(binned(order(frame)), colours(table["implementation"])),
    ]


def places(table: pd.DataFrame) -> int:
    """How many pairs of group and device `table` has."""
    return int(table.groupby([*GROUP, *COLUMN]).ngroups)


def first_places(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the first `PANELS` pairs of `group_name` and `column_name`."""
    place = table.groupby(["group_name", "column_name"], sort=False).ngroup()
    return table[place < PANELS]


def _speed(table: pd.DataFrame, runs: pd.DataFrame, ink: Mapping[str, str]) -> Iterator[Figure]:
    for group, cells in table.groupby("group_name", sort=False):
        of_group = runs[runs["group_name"] == group]
        times, ratios = time_limits(cells, of_group), speedup_limits(cells)
        compared = cells["words"].isin(COMPARED).any()
        for device, here in cells.groupby("column_name", sort=False):
            dots = of_group[of_group["column_name"] == device]
            # One axis for all devices, unless it would hide what differs inside one of them.
            apart = times[0] > 0 and times[1] > LOG_FROM * times[0]
            limits = time_limits(here, dots) if apart else times
            title = f"Seconds per epoch on {device}"
            if len(here) > 1 or len(dots) > 1:  # one dot is no picture of anything
                yield figure("time", str(group), str(device), title,
                             time_panel(here, dots, ink, limits))  # fmt: skip
            if compared and here["speedup"].notna().any():
                title = f"Speed-up on {device}"
                own = speedup_limits(here)
                squeezed = math.log(ratios[1] / ratios[0]) > SQUEEZED * math.log(own[1] / own[0])
                yield figure("speedup", str(group), str(device), title,
                             speedup_panel(here, ink, own if squeezed else ratios))  # fmt: skip


def _learning(table: pd.DataFrame, measure: str, ink: Mapping[str, str]) -> Iterator[Figure]:
    table = first_places(with_labels(table))
    for (group, device), here in table.groupby(["group_name", "column_name"], sort=False):
        title = f"{CURVES[measure].capitalize()} on {device}"
        panel = curve_panel(here, measure, ink)
        yield figure("curve", str(group), f"{device}-{measure}", title, panel)


def _orders(table: pd.DataFrame, ink: Mapping[str, str]) -> Iterator[Figure]:
    for machine, here in table.groupby("machine", sort=False):
        title = "Epoch time of each run against the mean of its cell"
        title += f", {machine}" if table["machine"].nunique() > 1 else ""
        yield figure("order", "", str(machine), title, order_panel(here, ink), wide=True)
