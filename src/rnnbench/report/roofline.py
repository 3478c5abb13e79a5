"""The roofline of one device and build (Williams, Waterman and Patterson, CACM 52:4, 2009)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rnnbench.report import numbers as n
from rnnbench.report.relative_charts import decades

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

WIDTH, HEIGHT = 250, 200
LINE = 13  # pixels from a label to the next
LABELS = 9  # of points: more would only be a list
GREY = "#7d8790"


def roofline(cells: pd.DataFrame, ink: Mapping[str, str]) -> alt.TopLevelMixin:
    """GFLOP/s reached against FLOP per byte, both logarithmic, below the line min(peak,
    intensity × bandwidth). `cells`: `label`, `series` (a key of `ink`), `intensity`, `gflops`,
    `gflops_low`, `gflops_high`, `peak_gflops`, `peak_gb_per_s` (the same in all rows)."""
    import altair as alt
    import pandas as pd

    peak, bandwidth = (cells[name].astype(float).max() for name in ("peak_gflops", "peak_gb_per_s"))
    ridge = peak / bandwidth
    left = min(ridge, cells["intensity"].min()) / 4
    right = max(ridge, cells["intensity"].max()) * 12
    bottom, top = min(cells["gflops"].min(), left * bandwidth) / 2, peak * 2.2
    x = alt.X("intensity:Q", scale=alt.Scale(type="log", domain=[left, right], nice=False),
              axis=alt.Axis(title="FLOP per byte", format="~g", grid=False,
                            values=decades(left, right)))  # fmt: skip
    scale = alt.Scale(type="log", domain=[bottom, top], nice=False)
    y = _on(scale, decades(bottom, top))
    names = ["label", "series", "intensity", "gflops", "gflops_low", "gflops_high"]
    cells = cells.sort_values("gflops", ascending=False)[names].copy()
    for name in ("gflops_low", "gflops_high"):
        cells[name] = cells[name].astype(float).fillna(cells["gflops"])
    step = math.log(top / bottom) * LINE / HEIGHT
    some = cells.head(LABELS)
    some = some.assign(place=apart(some["gflops"].tolist(), step))
    roof = pd.DataFrame(
        {"intensity": [left, ridge, right], "gflops": [left * bandwidth, peak, peak]}
    )
    flat = pd.DataFrame([{"intensity": right, "gflops": peak, "text": f"{n.plain(peak)} GFLOP/s"}])
    slope = pd.DataFrame(
        [{"intensity": left, "gflops": left * bandwidth, "text": f"{n.plain(bandwidth)} GB/s"}]
    )
    colour = alt.Color("series:N", legend=None,
                       scale=alt.Scale(domain=list(ink), range=list(ink.values())))  # fmt: skip
    base = alt.Chart(cells)
    return alt.layer(
        alt.Chart(roof).mark_line(strokeWidth=2, color=GREY).encode(x=x, y=y("gflops")),
        alt.Chart(flat).mark_text(align="right", dy=-8).encode(x=x, y=y("gflops"), text="text:N"),
        alt.Chart(slope).mark_text(align="left", dx=10, dy=6).encode(
            x=x, y=y("gflops"), text="text:N"),
        base.mark_rule(strokeWidth=2).encode(
            x=x, y=y("gflops_low"), y2="gflops_high:Q", color=colour),
        base.mark_point(size=60, filled=True, opacity=1).encode(x=x, y=y("gflops"), color=colour),
        alt.Chart(some).mark_text(align="left", dx=10).encode(x=x, y=y("place"), text="label:N"),
        width=WIDTH,
        height=HEIGHT,
    )  # fmt: skip


def apart(values: Sequence[float], step: float) -> list[float]:
    """Falling positive `values` moved so that the logarithms of neighbours are `step` or more
    apart: labels on a logarithmic axis that do not cover each other. The middle stays."""
    if not values:
        return []
    placed = [math.log(values[0])]
    for value in values[1:]:
        placed.append(min(math.log(value), placed[-1] - step))
    moved = sum(math.log(value) - place for value, place in zip(values, placed, strict=True))
    return [math.exp(place + moved / len(values)) for place in placed]


def _on(scale: alt.Scale, ticks: list[float]) -> Any:
    """Column → the axis of GFLOP/s."""
    import altair as alt

    axis = alt.Axis(title="GFLOP/s", format="~g", grid=True, values=ticks)
    return lambda name: alt.Y(f"{name}:Q", scale=scale, axis=axis)
