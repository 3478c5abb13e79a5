"""Charts of builds, thread counts, batch sizes, and learning over time."""

from __future__ import annotations

import math
from collections.abc import Mapping

import altair as alt
import pandas as pd

from rnnbench.report.speed_panels import colour_of

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


def thread_panel(cells: pd.DataFrame, palette: Mapping[str, str]) -> alt.TopLevelMixin:
    """Speed-up by threads with intervals; the ideal speed-up as a dashed line, the fit as a thin
    one. `cells`: `shown` (the implementation), `threads`, `speedup`, `speedup_low`,
    `speedup_high`, `ideal`, `fitted`."""
    names = ["threads", "speedup", "speedup_low", "speedup_high", "ideal", "fitted"]
    cells = cells[names].assign(implementation=cells["shown"])
    for name in ("speedup_low", "speedup_high"):
        cells[name] = cells[name].astype(float).fillna(cells["speedup"])
    counts = sorted(cells["threads"].unique())
    below = alt.Axis(title="threads", values=[int(count) for count in counts], grid=False)
    x = alt.X("threads:Q", scale=alt.Scale(type="log", base=2, nice=False), axis=below)
    ticks = [2**power for power in range(11) if 2**power <= cells["ideal"].max() * 1.01]
    scale = alt.Scale(type="log", base=2, nice=False)
    axis = alt.Axis(title=None, values=ticks, grid=True, format="~g")
    y = alt.Y("speedup:Q", scale=scale, axis=axis)
    colour = colour_of(palette, alt.Legend(orient="top", title=None))
    base = alt.Chart(cells)
    return alt.layer(
        base.mark_line(strokeDash=[4, 3], opacity=0.6, color="#7d8790").encode(
            x=x, y=alt.Y("ideal:Q", scale=scale, axis=axis)
        ),
        base.mark_line(strokeWidth=1.2, opacity=0.8).encode(
            x=x, y=alt.Y("fitted:Q", scale=scale, axis=axis), color=colour
        ),
        base.mark_rule(strokeWidth=2).encode(
            x=x, y=alt.Y("speedup_low:Q", scale=scale, axis=axis), y2="speedup_high:Q",
            color=colour,
        ),
        base.mark_point(size=60, filled=True, opacity=1).encode(x=x, y=y, color=colour),
        width=WIDTH,
        height=HEIGHT,
    )  # fmt: skip


def latency_panel(calls: pd.DataFrame, palette: Mapping[str, str]) -> alt.TopLevelMixin:
    """Milliseconds of a call by batch, on logarithmic axes, with intervals. `calls`:
    `implementation`, `batch`, `seconds`, `low`, `high`."""
    calls = calls[["implementation", "batch"]].assign(
        ms=1e3 * calls["seconds"],
        **{name: 1e3 * calls[name].astype(float).fillna(calls["seconds"])
           for name in ("low", "high")},
    )  # fmt: skip
    sizes = [int(size) for size in sorted(calls["batch"].unique())]
    below = alt.Axis(title="batch", values=sizes, grid=False)
    x = alt.X("batch:Q", scale=alt.Scale(type="log", base=2, nice=False), axis=below)
    scale = alt.Scale(type="log", nice=False)
    lowest, highest = math.floor(math.log10(calls["low"].min())), math.log10(calls["high"].max())
    decades = [10.0**power for power in range(lowest, math.ceil(highest) + 1)]
    axis = alt.Axis(title=None, values=decades, grid=True, format="~g")
    y = alt.Y("ms:Q", scale=scale, axis=axis)
    colour = colour_of(palette, alt.Legend(orient="top", title=None))
    base = alt.Chart(calls).encode(x=x, color=colour)
    return alt.layer(
        base.mark_line(strokeWidth=1.2, opacity=0.8).encode(y=y),
        base.mark_rule(strokeWidth=2).encode(
            y=alt.Y("low:Q", scale=scale, axis=axis), y2="high:Q"
        ),
        base.mark_point(size=60, filled=True, opacity=1).encode(y=y),
        width=WIDTH,
        height=HEIGHT,
    )  # fmt: skip


def second_panel(curves: pd.DataFrame, palette: Mapping[str, str]) -> alt.TopLevelMixin:
    """Mean over runs by seconds of training, with a dot at the end of each epoch. `curves`:
    `implementation`, `elapsed`, `mean`, of one device."""
    curves = curves[["implementation", "elapsed", "mean"]]
    x = alt.X("elapsed:Q", axis=alt.Axis(title="seconds of training", tickCount=5, grid=False))
    y = alt.Y("mean:Q", scale=alt.Scale(zero=False),
              axis=alt.Axis(title=None, tickCount=5, format="~g", grid=True))  # fmt: skip
    colour = colour_of(palette, alt.Legend(orient="top", title=None))
    base = alt.Chart(curves)
    return alt.layer(
        base.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour),
        base.mark_point(filled=True, size=30, opacity=1).encode(x=x, y=y, color=colour),
        width=WIDTH,
        height=HEIGHT,
    )
