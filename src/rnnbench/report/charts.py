"""Charts of builds, thread counts, batch sizes, and learning over time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd

from rnnbench.report.speed_panels import LEGEND, colour_of

WIDTH, HEIGHT, ROW = 250, 190, 46
BLUE = "#0072B2"


def build_heatmap(cells: pd.DataFrame) -> alt.TopLevelMixin:
    """Builds as rows, devices as columns; each field has its `text` above its `span`, and a colour
    that is stronger the closer its build is to the fastest on the device. `cells`: `build`,
    `device`, `share` (seconds / the fastest build's), `text`, `span`."""
    cells = cells[["build", "device", "share", "text", "span"]]
    high = cells["share"].max()
    # Light enough for the text of both colour schemes.
    scale = alt.Scale(type="log", domain=[1, max(high, 1.01)], range=[0.42, 0.05])
    x = alt.X("device:N", sort=list(dict.fromkeys(cells["device"])),
              axis=alt.Axis(title=None, orient="top", labelAngle=0))  # fmt: skip
    y = alt.Y("build:N", sort=list(dict.fromkeys(cells["build"])),
              axis=alt.Axis(title=None, labelLimit=130))  # fmt: skip
    base = alt.Chart(cells).encode(x=x, y=y)
    tint = alt.Opacity("share:Q", scale=scale, legend=None)
    return alt.layer(
        base.mark_rect(color=BLUE).encode(opacity=tint),
        base.mark_text(dy=-7, fontWeight=600).encode(text="text:N"),
        base.mark_text(dy=8, fontSize=9.5).encode(text="span:N"),
        width=84 * cells["device"].nunique(),
        height=ROW * cells["build"].nunique(),
    )


def _by_size(
    cells: pd.DataFrame,
    title: str,
    base: int,
    ticks: list[float],
    palette: Mapping[str, str],
    lines: Mapping[str, dict[str, Any]],
) -> alt.TopLevelMixin:
    """`value` by `size` on logarithmic axes, with the intervals `low` to `high` (missing: none),
    below `lines` (column → properties of its line, in the colour of the implementation unless it
    has one)."""
    for name in ("low", "high"):
        cells[name] = cells[name].astype(float).fillna(cells["value"])
    sizes = [int(size) for size in sorted(cells["size"].unique())]
    x = alt.X("size:Q", scale=alt.Scale(type="log", base=2, nice=False),
              axis=alt.Axis(title=title, values=sizes, grid=False))  # fmt: skip
    scale = alt.Scale(type="log", base=base, nice=False)
    axis = alt.Axis(title=None, values=ticks, grid=True, format="~g")
    colour = {"color": colour_of(palette, legend=LEGEND)}
    chart = alt.Chart(cells).encode(x=x)

    def y(name: str) -> alt.Y:
        return alt.Y(f"{name}:Q", scale=scale, axis=axis)

    return alt.layer(
        *(
            chart.mark_line(**line).encode(y=y(name), **({} if "color" in line else colour))
            for name, line in lines.items()
        ),
        chart.mark_rule(strokeWidth=2).encode(y=y("low"), y2="high:Q", **colour),
        chart.mark_point(size=60, filled=True, opacity=1).encode(y=y("value"), **colour),
        width=WIDTH,
        height=HEIGHT,
    )


THIN = {"strokeWidth": 1.2, "opacity": 0.8}


def thread_panel(cells: pd.DataFrame, palette: Mapping[str, str]) -> alt.TopLevelMixin:
    """Speed-up by threads with intervals; the ideal speed-up as a dashed line, the fit as a thin
    one. `cells`: `shown` (the implementation), `threads`, `speedup`, `speedup_low`,
    `speedup_high`, `ideal`, `fitted`."""
    rows = cells[["ideal", "fitted"]].assign(
        implementation=cells["shown"], size=cells["threads"], value=cells["speedup"],
        low=cells["speedup_low"], high=cells["speedup_high"],
    )  # fmt: skip
    ticks = [2.0**power for power in range(11) if 2**power <= cells["ideal"].max() * 1.01]
    ideal = {"strokeDash": [4, 3], "opacity": 0.6, "color": "#7d8790"}
    return _by_size(rows, "threads", 2, ticks, palette, {"ideal": ideal, "fitted": THIN})


def latency_panel(calls: pd.DataFrame, palette: Mapping[str, str]) -> alt.TopLevelMixin:
    """Milliseconds of a call by batch, on logarithmic axes, with intervals. `calls`:
    `implementation`, `batch`, `seconds`, `low`, `high`."""
    rows = calls[["implementation"]].assign(
        size=calls["batch"], value=1e3 * calls["seconds"],
        low=1e3 * calls["low"].astype(float), high=1e3 * calls["high"].astype(float),
    )  # fmt: skip
    low, high = rows[["low", "value"]].min().min(), rows[["high", "value"]].max().max()
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [10.0**power for power in powers]
    return _by_size(rows, "batch", 10, ticks, palette, {"value": THIN})


def second_panel(curves: pd.DataFrame, palette: Mapping[str, str]) -> alt.TopLevelMixin:
    """Mean over runs by seconds of training, with a dot at the end of each epoch. `curves`:
    `implementation`, `elapsed`, `mean`, of one device."""
    curves = curves[["implementation", "elapsed", "mean"]]
    x = alt.X("elapsed:Q", axis=alt.Axis(title="seconds of training", tickCount=5, grid=False))
    y = alt.Y("mean:Q", scale=alt.Scale(zero=False),
              axis=alt.Axis(title=None, tickCount=5, format="~g", grid=True))  # fmt: skip
    base = alt.Chart(curves).encode(x=x, y=y, color=colour_of(palette, legend=LEGEND))
    return alt.layer(
        base.mark_line(strokeWidth=2),
        base.mark_point(filled=True, size=30, opacity=1),
        width=WIDTH,
        height=HEIGHT,
    )
