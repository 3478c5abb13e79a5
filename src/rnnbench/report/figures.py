"""The figures of time, speed-up, learning and order of measurement."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import pandas as pd

from rnnbench.axes import DEVICE_COLUMNS, GROUP
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
from rnnbench.tables.frame import run_values
from rnnbench.tables.learning import curves
from rnnbench.tables.runs import order, thinned_order
from rnnbench.tables.time import COMPARED, IS_REFERENCE

CURVES = {"loss": "training loss", "val_acc": "validation accuracy"}
SQUEEZED = 2  # a device has its own axis of ratios if the common one is longer by this factor
PANELS = 12  # figures of one kind; the tables have every configuration


def figures(
    frame: pd.DataFrame, table: pd.DataFrame, regroup: Callable[[pd.DataFrame], pd.DataFrame]
) -> list[Figure]:
    """The figures that `frame` has data for, of the first `PANELS` places (group and device).
    `table`: the time table of `frame`; `regroup`: from `regrouping`."""
    if table.empty:
        return []
    labelled = with_labels(regroup(table))
    palette = colours(labelled["implementation"])
    return [
        *_speed(first_places(labelled), with_labels(regroup(run_values(frame))), palette),
        *(
            drawn
            for measure in CURVES
            for drawn in _learning(regroup(curves(frame, measure)), measure, palette)
        ),
        *_orders(thinned_order(order(frame)), colours(table["implementation"])),
    ]


def places(table: pd.DataFrame) -> int:
    """The number of pairs of group and device in `table`."""
    return int(table.groupby([*GROUP, *DEVICE_COLUMNS]).ngroups)


def first_places(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the first `PANELS` pairs of `group_name` and `column_name`."""
    place = table.groupby(["group_name", "column_name"], sort=False).ngroup()
    return table[place < PANELS]


def _speed(table: pd.DataFrame, runs: pd.DataFrame, palette: Mapping[str, str]) -> Iterator[Figure]:
    for group, group_rows in table.groupby("group_name", sort=False):
        of_group = runs[runs["group_name"] == group]
        times, ratios = time_limits(group_rows, of_group), speedup_limits(group_rows)
        compared = group_rows["words"].isin(COMPARED).any()
        for device, rows in group_rows.groupby("column_name", sort=False):
            dots = of_group[of_group["column_name"] == device]
            # One axis for all devices, unless it would hide the differences on one of them.
            own_axis = times[0] > 0 and times[1] > LOG_FROM * times[0]
            limits = time_limits(rows, dots) if own_axis else times
            title = f"Seconds per epoch on {device}"
            if len(rows) > 1 or len(dots) > 1:  # a single dot shows nothing
                yield figure("time", str(group), str(device), title,
                             time_panel(rows, dots, palette, limits))  # fmt: skip
            if compared and rows.loc[rows["words"] != IS_REFERENCE, "speedup"].notna().any():
                title = f"Speed-up on {device}"
                own = speedup_limits(rows)
                squeezed = math.log(ratios[1] / ratios[0]) > SQUEEZED * math.log(own[1] / own[0])
                yield figure("speedup", str(group), str(device), title,
                             speedup_panel(rows, palette, own if squeezed else ratios))  # fmt: skip


def _learning(table: pd.DataFrame, measure: str, palette: Mapping[str, str]) -> Iterator[Figure]:
    table = first_places(with_labels(table))
    for (group, device), rows in table.groupby(["group_name", "column_name"], sort=False):
        title = f"{CURVES[measure].capitalize()} on {device}"
        panel = curve_panel(rows, measure, palette)
        yield figure("curve", str(group), f"{device}-{measure}", title, panel)


def _orders(table: pd.DataFrame, palette: Mapping[str, str]) -> Iterator[Figure]:
    for machine, rows in table.groupby("machine", sort=False):
        title = "Epoch time of each run relative to the mean of its configuration"
        title += f", {machine}" if table["machine"].nunique() > 1 else ""
        yield figure("order", "", str(machine), title, order_panel(rows, palette), wide=True)
