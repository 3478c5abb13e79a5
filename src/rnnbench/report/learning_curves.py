"""Learning curves by epoch, and runs in the order of measurement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt
import pandas as pd

from rnnbench.report.figure import Figure
from rnnbench.report.section import Section
from rnnbench.report.speed_panels import colour_of

WIDTH, HEIGHT = 230, 180
LABEL_HEIGHT = 15
DASH = 9


def curves_section(drawn: Sequence[Figure]) -> Section:
    words = (
        "Mean over runs; the band is the range of the runs. Where curves coincide, their colours "
        "alternate.",
    )
    chosen = tuple(figure for figure in drawn if figure.kind == "curve")
    return Section("curves", "Learning curves", words, chosen)


def curve_panel(
    curves: pd.DataFrame, measure: str, palette: Mapping[str, str]
) -> alt.TopLevelMixin:
    """`measure` by epoch: a line per implementation (mean over runs), labelled at its end, with the
    range of the runs as a band. Each line is drawn solid, then again dashed with its own offset, so
    that the colours of coincident curves alternate. `curves`: `implementation`, `epoch`, `shown`,
    `mean`, `low`, `high`, of one device."""
    curves = curves[["implementation", "shown", "epoch", "mean", "low", "high"]]
    names = list(dict.fromkeys(curves["implementation"]))
    low, high = float(curves["low"].min()), float(curves["high"].max())
    edge = 0.04 * ((high - low) or abs(high) or 1)
    axis = alt.Axis(title=None, tickCount=5, format="~g", grid=True)
    scale = alt.Scale(domain=[low - edge, high + edge], nice=False)
    y = alt.Y("mean:Q", axis=axis, scale=scale)
    last = float(curves["epoch"].max())
    x = alt.X("epoch:Q", axis=alt.Axis(title="epoch", tickMinStep=1, tickCount=5, grid=False),
              scale=alt.Scale(domain=[float(curves["epoch"].min()), last], nice=False,
                              zero=False))  # fmt: skip
    colour = colour_of(palette)
    base = alt.Chart(curves).encode(x=x, color=colour)
    layers = [base.mark_line(strokeWidth=2).encode(y=y)]
    if (curves["high"] - curves["low"] > edge / 100).any():
        bottom = alt.Y("low:Q", axis=axis, scale=scale)
        layers.insert(0, base.mark_area(opacity=0.12).encode(y=bottom, y2="high:Q"))
    if len(names) > 1:
        layers += [
            alt.Chart(curves[curves["implementation"] == name])
            .mark_line(
                strokeWidth=2, strokeCap="butt",
                strokeDash=[DASH, DASH * (len(names) - 1)], strokeDashOffset=-DASH * place,
            )
            .encode(x=x, y=y, color=colour)
            for place, name in enumerate(names)
        ]  # fmt: skip
    ends = curves[curves["epoch"] == last].drop_duplicates("implementation")
    per_pixel = (high - low + 2 * edge) / HEIGHT
    places = apart([(high + edge - value) / per_pixel for value in ends["mean"]], HEIGHT)
    labels = pd.DataFrame({name: list(ends[name]) for name in ("implementation", "shown")})
    labels["mean"] = [high + edge - place * per_pixel for place in places]
    named = alt.Chart(labels).encode(y=y)
    marker, text = named.mark_point(filled=True, size=50, opacity=1), named.mark_text(align="left")
    layers.append(marker.encode(x=alt.value(WIDTH + 11), color=colour))
    layers.append(text.encode(x=alt.value(WIDTH + 20), text="shown:N"))
    return alt.layer(*layers, width=WIDTH, height=HEIGHT)


def apart(wanted: list[float], height: float) -> list[float]:
    """Positions for labels, close to `wanted`, one label height apart and within `height`."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    places = [0.0] * len(wanted)
    lowest = -float("inf")
    for index in order:
        lowest = places[index] = max(wanted[index], lowest + LABEL_HEIGHT)
    excess = max(0.0, lowest - height)
    return [place - excess for place in places]


def order_panel(order: pd.DataFrame, palette: Mapping[str, str]) -> alt.TopLevelMixin:
    """Each run's epoch time relative to the mean of its configuration, in the order of measurement:
    a drift of the machine would appear as a slope. `order`: rows of one machine."""
    colour = colour_of(palette, legend=alt.Legend(orient="top", title=None, symbolOpacity=1))
    order = order[["place", "implementation", "suspect"]].assign(
        percent=100 * (order["relative"] - 1)
    )
    reach = max(1.0, 1.1 * float(order["percent"].abs().max()))
    x = alt.X("place:Q", axis=alt.Axis(title="run, in order of measurement", tickMinStep=1,
                                       grid=False))  # fmt: skip
    y = alt.Y("percent:Q", scale=alt.Scale(domain=[-reach, reach]),
              axis=alt.Axis(title=None, tickCount=5, grid=True, labelExpr="datum.label + ' %'"),
              )  # fmt: skip
    zero = alt.Chart(alt.Data(values=[{"zero": 0}])).mark_rule(opacity=0.5).encode(y="zero:Q")
    dots = [
        alt.Chart(chosen)
        .mark_point(filled=filled, size=55, opacity=0.9)
        .encode(x=x, y=y, color=colour)
        for filled, chosen in ((True, order[~order["suspect"]]), (False, order[order["suspect"]]))
        if len(chosen)
    ]
    return alt.layer(zero, *dots, width=2 * WIDTH, height=130)
