"""Figures of speed: one small panel per group and device, drawn for 390 pixels and up."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rnnbench.report import numbers as n
from rnnbench.tables.stats import ONE_RUN
from rnnbench.tables.time import COMPARED, NO_DIFFERENCE

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

WIDTH, ROW = 215, 36
LOG_FROM = 8  # beyond this many times the smallest value, a linear axis hides the small ones
FROM_ZERO_BELOW = 0.5  # closer values than this are told apart only on an axis not from 0
SHOWN = ["implementation", "shown"]
SECONDS = ["epoch_seconds", "epoch_low", "epoch_high"]
SPEEDUP = ["speedup", "speedup_low", "speedup_high"]


def time_panel(
    cells: pd.DataFrame, runs: pd.DataFrame, ink: Mapping[str, str], limits: tuple[float, float]
) -> alt.LayerChart | alt.FacetChart:
    """Seconds per epoch: each run a dot (open where suspect), the mean a bar, its 95 %
    interval a line above the dots. `cells` are rows of the time table, `runs` of
    `run_values`, both of one group and device; `limits` are the ends of the axis."""
    import altair as alt

    cells = cells[[*SHOWN, *SECONDS]].assign(label=list(map(_time_label, _rows_of(cells))))
    runs = runs[["implementation", "seconds", "suspect"]]
    scale, title = _scale(limits)
    x: dict[str, Any] = {"axis": alt.Axis(title=title, tickCount=4, format="~r"), "scale": scale}
    y = _rows(cells)
    base = alt.Chart(cells)
    colour = colour_of(ink)
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
    return alt.layer(interval, *dots, mean, beside(base, y), **_size(cells))


def speedup_panel(
    cells: pd.DataFrame, ink: Mapping[str, str], limits: tuple[float, float]
) -> alt.LayerChart | alt.FacetChart:
    """Speed-up against the reference with its 95 % interval, on a logarithmic axis, a dashed
    line at 1. `cells` are rows of the time table of one group and device."""
    import altair as alt

    cells = cells[[*SHOWN, "words", *SPEEDUP, "speedup_suspect"]].assign(
        label=list(map(_speedup_label, _rows_of(cells)))
    )
    low, high = limits
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    ticks = alt.Axis(
        title="times as fast as the reference", format="~g", values=ratio_ticks(low, high)
    )
    x: dict[str, Any] = {"axis": ticks, "scale": scale}
    y = _rows(cells)
    base, colour = alt.Chart(cells), colour_of(ink)
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
    return alt.layer(one, interval, point, beside(base, y), **_size(cells))


def beside(base: alt.Chart, y: alt.Y, width: int = WIDTH) -> alt.Chart:
    """The text of each row, from its `label`, in a column to the right of a plot of this `width`:
    no gridline runs through it, and the axis is as long as the data need."""
    import altair as alt

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
    import altair as alt

    low, high = limits
    domain = [low, high]
    if low > 0 and high > LOG_FROM * low:
        return alt.Scale(type="log", domain=domain, nice=False), "seconds per epoch, log scale"
    words = " (axis not from 0)" if low > 0 else ""
    return alt.Scale(domain=domain, nice=False, zero=False), f"seconds per epoch{words}"


def _time_label(row: Any) -> str:
    dagger = f" {n.DAGGER}" if row["suspect"] else ""
    return f"{n.seconds(row['epoch_seconds'])} s{dagger}"


def _rows_of(cells: pd.DataFrame) -> list[dict[Any, Any]]:
    return cells.to_dict("records")


def ratio_ticks(low: float, high: float) -> list[float]:
    """At most some six round ratios inside an axis: 1, 2, 5, 10 where it is long, else steps of
    one width, with 1 among them."""
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
    import altair as alt

    names = dict(zip(cells["implementation"], cells["shown"], strict=True))
    # A label per implementation, with its dagger, though the axis sorts by bare names.
    expression = "datum.label"
    for name, shown in names.items():
        if name != shown:
            expression = f"datum.label == {json.dumps(name)} ? {json.dumps(shown)} : ({expression})"
    axis = alt.Axis(title=None, labelExpr=expression, labelFontWeight=500, labelLimit=190)
    return alt.Y("implementation:N", sort=list(names), axis=axis)


def colour_of(ink: Mapping[str, str], legend: alt.Legend | None = None) -> alt.Color:
    import altair as alt

    scale = alt.Scale(domain=list(ink), range=list(ink.values()))
    return alt.Color("implementation:N", scale=scale, legend=legend)


def _size(cells: pd.DataFrame) -> dict[str, int]:
    """For `alt.layer`: `properties` would copy the chart with all its layers."""
    return {"width": WIDTH, "height": ROW * cells["implementation"].nunique()}
