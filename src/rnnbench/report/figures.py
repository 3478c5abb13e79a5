"""All figures of a report, as SVG text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rnnbench.report.colours import colours
from rnnbench.report.curves import curve_panel, order_panel
from rnnbench.report.labels import with_labels
from rnnbench.report.panels import speedup_limits, speedup_panel, time_limits, time_panel
from rnnbench.report.svg import render
from rnnbench.tables.curves import curves
from rnnbench.tables.order import order
from rnnbench.tables.time import COMPARED, time
from rnnbench.tables.usable import run_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    import altair as alt
    import pandas as pd

CURVES = {"loss": "training loss", "val_acc": "validation accuracy"}


@dataclass(frozen=True)
class Figure:
    """`id` is unique in a report and the name of its file; `kind`: ``time``, ``speedup``,
    ``curve`` or ``order``; `title` says what is shown; `svg` stands in a page as it is."""

    id: str
    kind: str
    group: str
    title: str
    svg: str


def figures(frame: pd.DataFrame, reference: Mapping[str, str]) -> list[Figure]:
    """Every figure that `frame` has data for."""
    table = time(frame, reference)
    if table.empty:
        return []
    ink = colours(table["implementation"])
    return [
        *_speed(with_labels(table), with_labels(run_values(frame)), ink),
        *(figure for measure in CURVES for figure in _learning(frame, measure, ink)),
        *_orders(order(frame), ink),
    ]


def _speed(table: pd.DataFrame, runs: pd.DataFrame, ink: Mapping[str, str]) -> Iterator[Figure]:
    for group, cells in table.groupby("group_name", sort=False):
        of_group = runs[runs["group_name"] == group]
        times, ratios = time_limits(cells, of_group), speedup_limits(cells)
        compared = cells["words"].isin(COMPARED).any()
        for device, here in cells.groupby("column_name", sort=False):
            dots = of_group[of_group["column_name"] == device]
            title = f"Seconds per epoch on {device}"
            yield _figure("time", str(group), str(device), title,
                          time_panel(here, dots, ink, times))  # fmt: skip
            if compared and here["speedup"].notna().any():
                title = f"Speed-up on {device}"
                yield _figure("speedup", str(group), str(device), title,
                              speedup_panel(here, ink, ratios))  # fmt: skip


def _learning(frame: pd.DataFrame, measure: str, ink: Mapping[str, str]) -> Iterator[Figure]:
    table = with_labels(curves(frame, measure))
    for (group, device), here in table.groupby(["group_name", "column_name"], sort=False):
        title = f"{CURVES[measure].capitalize()} on {device}"
        panel = curve_panel(here, measure, ink)
        yield _figure("curve", str(group), f"{device}-{measure}", title, panel)


def _orders(table: pd.DataFrame, ink: Mapping[str, str]) -> Iterator[Figure]:
    for machine, here in table.groupby("machine", sort=False):
        title = "Epoch time of each run against the mean of its cell"
        title += f", {machine}" if table["machine"].nunique() > 1 else ""
        yield _figure("order", "", str(machine), title, order_panel(here, ink))


def _figure(
    kind: str, group: str, which: str, title: str, chart: alt.LayerChart | alt.FacetChart
) -> Figure:
    id = re.sub(r"[^A-Za-z0-9_]+", "-", f"{kind}-{group}-{which}").strip("-")
    return Figure(id, kind, group, title, render(chart.properties(title=title), id, title))
