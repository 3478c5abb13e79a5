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
LOG_FROM = 8  # largest / smallest value from which the axis is logarithmic
FROM_ZERO_BELOW = 0.5  # smallest / largest value below which a linear axis starts at 0
SHOWN = ["implementation", "shown"]
SECONDS = ["epoch_seconds", "epoch_low", "epoch_high"]
SPEEDUP = ["speedup", "speedup_low", "speedup_high"]


def time_panel(
    cells: pd.DataFrame, runs: pd.DataFrame, palette: Mapping[str, str], limits: tuple[float, float]
) -> alt.LayerChart | alt.FacetChart:
    """Seconds per epoch: a dot per run (open if suspect), a bar at the mean, and a line for its
    95 % confidence interval above the dots. `cells`: rows of the time table, `runs`: rows of
    `run_values`, both of one group and device; `limits`: the ends of the axis."""
    cells = cells[[*SHOWN, *SECONDS]].assign(label=list(map(_time_label, cells.to_dict("records"))))
    runs = runs[["implementation", "seconds", "suspect"]]
    scale, title = _scale(limits)
    x: dict[str, Any] = {"axis": alt.Axis(title=title, tickCount=4, format="~r"), "scale": scale}
    y = _rows(cells)
    base = alt.Chart(cells)
    colour = colour_of(palette)
    interval = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("epoch_low:Q", **x), x2="epoch_high:Q", y=y, color=colour
    )
    mean = base.mark_tick(thickness=3, size=13, opacity=1).encode(
        x=alt.X("epoch_seconds:Q", **x), y=y, color=colour
    )
    dots = [
        alt.Chart(chosen)
        .mark_point(size=26, filled=filled, strokeWidth=1.3, opacity=0.8, yOffset=9)
        .encode(x=alt.X("seconds:Q", **x), y=y, color=colour)
        for filled, chosen in ((True, runs[~runs["suspect"]]), (False, runs[runs["suspect"]]))
        if len(chosen)
    ]
    return alt.layer(interval, *dots, mean, text_column(base, y), **_size(cells))


def speedup_panel(
    cells: pd.DataFrame, palette: Mapping[str, str], limits: tuple[float, float]
) -> alt.LayerChart | alt.FacetChart:
    """Speed-up over the reference with its 95 % confidence interval, on a logarithmic axis with a
    dashed line at 1. `cells`: rows of the time table of one group and device."""
    cells = cells[[*SHOWN, "words", *SPEEDUP, "speedup_suspect"]].assign(
        label=list(map(_speedup_label, cells.to_dict("records")))
    )
    low, high = limits
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    ticks = alt.Axis(
        title="speed-up over the reference", format="~g", values=ratio_ticks(low, high)
    )
    x: dict[str, Any] = {"axis": ticks, "scale": scale}
    y = _rows(cells)
    base, colour = alt.Chart(cells), colour_of(palette)
    one = (
        alt.Chart(alt.Data(values=[{"one": 1}]))
        .mark_rule(strokeDash=[4, 3], opacity=0.6)
        .encode(x=alt.X("one:Q", **x))
    )
    interval = base.mark_rule(strokeWidth=2.5).encode(
        x=alt.X("speedup_low:Q", **x), x2="speedup_high:Q", y=y, color=colour
    )
    point = base.mark_point(size=70, filled=True, opacity=1).encode(
        x=alt.X("speedup:Q", **x), y=y, color=colour
    )
    return alt.layer(one, interval, point, text_column(base, y), **_size(cells))


def text_column(base: alt.Chart, y: alt.Y, width: int = WIDTH) -> alt.Chart:
    """The `label` of each row, in a column to the right of a plot of this `width`, clear of
    gridlines and of the data."""
    return base.mark_text(align="left").encode(x=alt.value(width + 12), y=y, text="label:N")


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
    dagger = f" {n.DAGGER}" if row["suspect"] else ""
    return f"{n.seconds(row['epoch_seconds'])} s{dagger}"


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
    dagger = f" {n.DAGGER}" if row["speedup_suspect"] else ""
    words = f" {row['words']}" if row["words"] in (NO_DIFFERENCE, ONE_RUN) else ""
    return f"{n.ratio(row['speedup'])}{dagger}{words}"


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
    palette: Mapping[str, str], legend: alt.Legend | None = None, field: str = "implementation"
) -> alt.Color:
    """The colour of the values of `field` by `palette`."""
    scale = alt.Scale(domain=list(palette), range=list(palette.values()))
    return alt.Color(f"{field}:N", scale=scale, legend=legend)


def _size(cells: pd.DataFrame) -> dict[str, int]:
    """Arguments for `alt.layer`; `properties` would copy the chart with all its layers."""
    return {"width": WIDTH, "height": ROW * cells["implementation"].nunique()}
