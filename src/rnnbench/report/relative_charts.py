"""Charts of time and cost relative to a reference, and of time against cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd

from rnnbench.report.speed_panels import colour_of, ratio_ticks, text_column

WIDTH, ROW = 215, 30


def relative_panel(rows: pd.DataFrame, palette: Mapping[str, str], title: str) -> alt.TopLevelMixin:
    """One line per row on a logarithmic axis, with a dashed line at 1. `rows`: `label`, `value`,
    `low`, `high` (missing: no interval), `text`, `series` (a key of `palette`)."""
    rows = rows[["label", "value", "low", "high", "text", "series"]].rename(
        columns={"label": "place", "text": "label"}
    )
    values = rows[["value", "low", "high"]].astype(float)
    low, high = min(1.0, values.min().min()) / 1.05, max(1.0, values.max().max()) * 1.05
    axis = alt.Axis(title=title, values=ratio_ticks(low, high), format="~g")
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    x: dict[str, Any] = {"axis": axis, "scale": scale}
    order = list(dict.fromkeys(rows["place"]))
    y = alt.Y("place:N", sort=order, axis=alt.Axis(title=None, labelLimit=150))
    colour = colour_of(palette, field="series")
    base = alt.Chart(rows)
    one = alt.Chart(alt.Data(values=[{"one": 1}])).mark_rule(strokeDash=[4, 3], opacity=0.6)
    return alt.layer(
        one.encode(x=alt.X("one:Q", **x)),
        base.mark_rule(strokeWidth=2.5).encode(
            x=alt.X("low:Q", **x), x2="high:Q", y=y, color=colour
        ),
        base.mark_point(size=70, filled=True, opacity=1).encode(
            x=alt.X("value:Q", **x), y=y, color=colour
        ),
        text_column(base, y, WIDTH),
        width=WIDTH,
        height=ROW * len(order),
    )


def decades(low: float, high: float) -> list[float]:
    """The powers of ten inside an axis, on a short axis also their triples."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    few = math.log10(high / low) < 2.5
    steps = [m * 10.0**power for power in powers for m in ((1, 3) if few else (1,))]
    return [float(f"{step:.1g}") for step in steps if low <= step <= high]


def front_panel(rows: pd.DataFrame, palette: Mapping[str, str]) -> alt.TopLevelMixin:
    """Seconds against USD of one training, both logarithmic; points on the Pareto front are
    labelled and connected. `rows`: `label`, `seconds`, `usd`, `on_front`, `series`."""
    rows = rows[["label", "seconds", "usd", "on_front", "series"]]
    low, high = rows["seconds"].min(), rows["seconds"].max()
    domain = [low / 1.3, high * 1.3 * (high / low) ** 0.5 + low / 5]
    bottom, top = rows["usd"].min() / 1.6, rows["usd"].max() * 1.6
    below = alt.Axis(title="seconds of training", format="~g", values=decades(*domain))
    x = alt.X("seconds:Q", scale=alt.Scale(type="log", domain=domain, nice=False), axis=below)
    y = alt.Y("usd:Q", scale=alt.Scale(type="log", domain=[bottom, top], nice=False),
              axis=alt.Axis(title="USD", format="~g", grid=True,
                            values=decades(bottom, top)))  # fmt: skip
    colour = colour_of(palette, field="series")
    base = alt.Chart(rows)
    front = alt.Chart(rows[rows["on_front"].astype(bool)].sort_values("seconds"))
    return alt.layer(
        front.mark_line(strokeDash=[2, 3], opacity=0.7, color="#5d7f95").encode(x=x, y=y),
        base.mark_point(size=70, filled=True, opacity=1).encode(x=x, y=y, color=colour),
        front.mark_text(align="left", dx=9).encode(x=x, y=y, text="label:N"),
        width=WIDTH,
        height=180,
    )
