"""The roofline of one device and build (Williams, Waterman and Patterson, CACM 52:4, 2009)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import altair as alt
import pandas as pd

from rnnbench.report import numbers as n
from rnnbench.report.relative_charts import decades
from rnnbench.report.speed_panels import colour_of

WIDTH, HEIGHT = 250, 200
LINE = 13  # pixels between labels
LABELS = 9  # labelled points
GREY = "#7d8790"


def roofline(cells: pd.DataFrame, palette: Mapping[str, str]) -> alt.TopLevelMixin:
    """GFLOP/s against FLOP per byte, both logarithmic, with the line min(peak, intensity ×
    bandwidth). `cells`: `label`, `series` (a key of `palette`), `intensity`, `gflops`,
    `gflops_low`, `gflops_high`, `peak_gflops`, `peak_gb_per_s` (the same in all rows)."""
    peak, bandwidth = (cells[name].astype(float).max() for name in ("peak_gflops", "peak_gb_per_s"))
    ridge = peak / bandwidth
    left = min(ridge, cells["intensity"].min()) / 4
    right = max(ridge, cells["intensity"].max()) * 12
    bottom, top = min(cells["gflops"].min(), left * bandwidth) / 2, peak * 2.2
    x = alt.X("intensity:Q", scale=alt.Scale(type="log", domain=[left, right], nice=False),
              axis=alt.Axis(title="FLOP per byte", format="~g", grid=False,
                            values=decades(left, right)))  # fmt: skip
    scale = alt.Scale(type="log", domain=[bottom, top], nice=False)
    axis = alt.Axis(title="GFLOP/s", format="~g", grid=True, values=decades(bottom, top))

    def y(name: str) -> alt.Y:
        return alt.Y(f"{name}:Q", scale=scale, axis=axis)

    names = ["label", "series", "intensity", "gflops", "gflops_low", "gflops_high"]
    cells = cells.sort_values("gflops", ascending=False)[names].copy()
    for name in ("gflops_low", "gflops_high"):
        cells[name] = cells[name].astype(float).fillna(cells["gflops"])
    step = math.log(top / bottom) * LINE / HEIGHT
    named = cells.head(LABELS)
    named = named.assign(place=apart(named["gflops"].tolist(), step))
    roof = pd.DataFrame({
        "intensity": [left, ridge, right],
        "gflops": [left * bandwidth, peak, peak],
        "text": [f"{n.plain(bandwidth)} GB/s", "", f"{n.plain(peak)} GFLOP/s"],
    })  # fmt: skip
    colour = colour_of(palette, "series")
    base, limit = alt.Chart(cells).encode(x=x), alt.Chart(roof).encode(x=x, y=y("gflops"))
    flat, slope = (limit.properties(data=roof.iloc[[end]]) for end in (2, 0))
    return alt.layer(
        limit.mark_line(strokeWidth=2, color=GREY),
        flat.mark_text(align="right", dy=-8).encode(text="text:N"),
        slope.mark_text(align="left", dx=10, dy=6).encode(text="text:N"),
        base.mark_rule(strokeWidth=2).encode(
            y=y("gflops_low"), y2="gflops_high:Q", color=colour),
        base.mark_point(size=60, filled=True, opacity=1).encode(y=y("gflops"), color=colour),
        alt.Chart(named).mark_text(align="left", dx=10).encode(x=x, y=y("place"), text="label:N"),
        width=WIDTH,
        height=HEIGHT,
    )  # fmt: skip


def apart(values: Sequence[float], step: float) -> list[float]:
    """Positions for labels on a logarithmic axis: the decreasing positive `values`, moved so that
    the logarithms of neighbours differ by `step` or more. The geometric mean is unchanged."""
    if not values:
        return []
    placed = [math.log(values[0])]
    for value in values[1:]:
        placed.append(min(math.log(value), placed[-1] - step))
    shift = sum(math.log(value) - place for value, place in zip(values, placed, strict=True))
    return [math.exp(place + shift / len(values)) for place in placed]
