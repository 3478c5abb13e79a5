"""Figures of speed: one panel per group and device, legible from 390 pixels of width."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd

from rnnbench.report import numbers as n
from rnnbench.tables.stats import ONE_RUN
from rnnbench.tables.time import COMPARED, NO_DIFFERENCE

WIDTH, ROW = 215, 36
LEGEND = alt.Legend(orient="top", title=None)
LOG_FROM = 8  # largest / smallest value from which the axis is logarithmic
FROM_ZERO_BELOW = 0.5  # smallest / largest value below which a linear axis starts at 0
SHOWN = ["implementation", "shown"]
SECONDS = ["epoch_seconds", "epoch_low", "epoch_high"]
SPEEDUP = ["speedup", "speedup_low", "speedup_high"]


def time_panel(
    cells: pd.DataFrame, runs: pd.DataFrame, palette: Mapping[str, str], limits: tuple[float, float]
) -> alt.TopLevelMixin:
    """Seconds per epoch: a dot per run (open if suspect), a bar at the mean, and a line for its
    95 % confidence interval above the dots. `cells`: rows of the time table, `runs`: rows of
    `run_values`, both of one group and device; `limits`: the ends of the axis."""
    cells = cells[[*SHOWN, *SECONDS]].assign(label=list(map(_time_label, cells.to_dict("records"))))
    runs = runs[["implementation", "seconds", "suspect"]]
    scale, title = _scale(limits)
    x: dict[str, Any] = {"axis": alt.Axis(title=title, tickCount=4, format="~r"), "scale": scale}
    y, colour = _rows(cells), colour_of(palette)
    base = alt.Chart(cells).encode(y=y)
    interval = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("epoch_low:Q", **x), x2="epoch_high:Q", color=colour
    )
    mean = base.mark_tick(thickness=3, size=13, opacity=1).encode(
        x=alt.X("epoch_seconds:Q", **x), color=colour
    )
    dots = [
        alt.Chart(chosen)
        .mark_point(size=26, filled=filled, strokeWidth=1.3, opacity=0.8, yOffset=9)
        .encode(x=alt.X("seconds:Q", **x), y=y, color=colour)
        for filled, chosen in ((True, runs[~runs["suspect"]]), (False, runs[runs["suspect"]]))
        if len(chosen)
    ]
    return alt.layer(interval, *dots, mean, text_column(base), **_size(cells))


def speedup_panel(
    cells: pd.DataFrame, palette: Mapping[str, str], limits: tuple[float, float]
) -> alt.TopLevelMixin:
    """Speed-up over the reference with its 95 % confidence interval. `cells`: rows of the time
    table of one group and device."""
    rows = cells[SHOWN].assign(
        label=list(map(_speedup_label, cells.to_dict("records"))),
        value=cells["speedup"], low=cells["speedup_low"], high=cells["speedup_high"],
    )  # fmt: skip
    title = "speed-up over the reference"
    return ratio_panel(rows, _rows(rows), colour_of(palette), title, limits, **_size(rows))


def ratio_panel(
    rows: pd.DataFrame,
    y: alt.Y,
    colour: alt.Color,
    title: str,
    limits: tuple[float, float],
    width: int,
    height: int,
) -> alt.TopLevelMixin:
    """Ratios on a logarithmic axis with this `title` and these `limits`, with a dashed line at 1.
    `rows`: `value`, `low`, `high` (missing: no interval), `label`, and the columns of `y` and
    `colour`."""
    axis = alt.Axis(title=title, format="~g", values=ratio_ticks(*limits))
    scale = alt.Scale(type="log", domain=list(limits), nice=False)

    def x(name: str) -> alt.X:
        return alt.X(f"{name}:Q", axis=axis, scale=scale)

    base = alt.Chart(rows).encode(y=y)
    one = alt.Chart(alt.Data(values=[{"one": 1}])).mark_rule(strokeDash=[4, 3], opacity=0.6)
    interval = base.mark_rule(strokeWidth=2.5).encode(x=x("low"), x2="high:Q", color=colour)
    point = base.mark_point(size=70, filled=True, opacity=1).encode(x=x("value"), color=colour)
    layers = (one.encode(x=x("one")), interval, point, text_column(base))
    return alt.layer(*layers, width=width, height=height)


def text_column(base: alt.Chart) -> alt.Chart:
    """The `label` of each row, in a column to the right of a plot of width `WIDTH`, clear of
    gridlines and of the data."""
    return base.mark_text(align="left").encode(x=alt.value(WIDTH + 12), text="label:N")


def time_limits(cells: pd.DataFrame, runs: pd.DataFrame) -> tuple[float, float]:
    """The ends of the axis of seconds for all panels of a group."""
    low = min(cells[SECONDS].min().min(), runs["seconds"].min())
    high = max(cells[SECONDS].max().max(), runs["seconds"].max())
    if high > LOG_FROM * low:
        return low / 1.2, high * 1.2
    edge = 0.05 * max(high - low, 0.02 * high)
    return (low - edge if low > FROM_ZERO_BELOW * high else 0.0), high + edge


def speedup_limits(cells: pd.DataFrame) -> tuple[float, float]:
    """The ends of the axis of ratios for all panels of a group, 1 included."""
    low, high = min(1.0, cells[SPEEDUP].min().min()), max(1.0, cells[SPEEDUP].max().max())
    edge = max(1.01, (high / low) ** 0.06)
    return low / edge, high * edge


def _scale(limits: tuple[float, float]) -> tuple[alt.Scale, str]:
    """The axis of seconds and its title."""
    low, high = limits
    domain = [low, high]
    if low > 0 and high > LOG_FROM * low:
        return alt.Scale(type="log", domain=domain, nice=False), "seconds per epoch, log scale"
    note = " (axis does not start at 0)" if low > 0 else ""
    return alt.Scale(domain=domain, nice=False, zero=False), f"seconds per epoch{note}"


def _time_label(row: Any) -> str:
    return n.marked(f"{n.seconds(row['epoch_seconds'])} s", row["suspect"])


def ratio_ticks(low: float, high: float) -> list[float]:
    """About six round ratios inside an axis: 1, 2, 5, 10 on a long axis, otherwise equidistant and
    including 1."""
    if high / low > 4:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        decades = math.log10(high / low)
        within = (1, 2, 3, 5) if decades < 1.2 else (1, 2, 5) if decades < 2.5 else (1,)
        steps = [m * 10.0**power for power in powers for m in within]
        return [float(f"{step:.1g}") for step in steps if low <= step <= high]
    wanted = (high - low) / 5
    width = next(w for w in (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1) if w >= wanted)
    first, last = math.ceil((low - 1) / width), math.floor((high - 1) / width)
    return [round(1 + number * width, 6) for number in range(first, last + 1)]


def _speedup_label(row: Any) -> str:
    if row["words"] not in COMPARED:
        return str(row["words"])
    words = f" {row['words']}" if row["words"] in (NO_DIFFERENCE, ONE_RUN) else ""
    return n.marked(n.ratio(row["speedup"]), row["speedup_suspect"]) + words


def _rows(cells: pd.DataFrame) -> alt.Y:
    names = dict(zip(cells["implementation"], cells["shown"], strict=True))
    # The axis sorts by the names without daggers, and shows labels with daggers.
    expression = "datum.label"
    for name, shown in names.items():
        if name != shown:
            expression = f"datum.label == {json.dumps(name)} ? {json.dumps(shown)} : ({expression})"
    axis = alt.Axis(title=None, labelExpr=expression, labelFontWeight=500, labelLimit=190)
    return alt.Y("implementation:N", sort=list(names), axis=axis)


def colour_of(
    palette: Mapping[str, str], field: str = "implementation", legend: alt.Legend | None = None
) -> alt.Color:
    """The colour of the values of `field` by `palette`."""
    scale = alt.Scale(domain=list(palette), range=list(palette.values()))
    return alt.Color(f"{field}:N", scale=scale, legend=legend)


def _size(cells: pd.DataFrame) -> dict[str, int]:
    """Arguments for `alt.layer`; `properties` would copy the chart with all its layers."""
    return {"width": WIDTH, "height": ROW * cells["implementation"].nunique()}
