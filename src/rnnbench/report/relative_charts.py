"""Charts of time and cost relative to a reference, and of time against cost."""

from __future__ import annotations

import math
from collections.abc import Mapping

import altair as alt
import pandas as pd

from rnnbench.report.speed_panels import WIDTH, colour_of, ratio_panel

ROW = 30


def relative_panel(rows: pd.DataFrame, palette: Mapping[str, str], title: str) -> alt.TopLevelMixin:
    """One line per row. `rows`: `label`, `value`, `low`, `high` (missing: no interval), `text`,
    `series` (a key of `palette`)."""
    rows = rows[["label", "value", "low", "high", "text", "series"]].rename(
        columns={"label": "place", "text": "label"}
    )
    values = rows[["value", "low", "high"]].astype(float)
    limits = min(1.0, values.min().min()) / 1.05, max(1.0, values.max().max()) * 1.05
    order = list(dict.fromkeys(rows["place"]))
    y = alt.Y("place:N", sort=order, axis=alt.Axis(title=None, labelLimit=150))
    colour = colour_of(palette, "series")
    return ratio_panel(rows, y, colour, title, limits, WIDTH, ROW * len(order))


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
    x = alt.X("seconds:Q", scale=alt.Scale(type="log", domain=domain, nice=False),
              axis=alt.Axis(title="seconds of training", format="~g",
                            values=decades(*domain)))  # fmt: skip
    y = alt.Y("usd:Q", scale=alt.Scale(type="log", domain=[bottom, top], nice=False),
              axis=alt.Axis(title="USD", format="~g", grid=True,
                            values=decades(bottom, top)))  # fmt: skip
    base = alt.Chart(rows).encode(x=x, y=y)
    front = base.properties(data=rows[rows["on_front"].astype(bool)].sort_values("seconds"))
    return alt.layer(
        front.mark_line(strokeDash=[2, 3], opacity=0.7, color="#5d7f95"),
        base.mark_point(size=70, filled=True, opacity=1).encode(color=colour_of(palette, "series")),
        front.mark_text(align="left", dx=9).encode(text="label:N"),
        width=WIDTH,
        height=180,
    )
