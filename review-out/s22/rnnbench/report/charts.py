"""The charts of a report as Vega-Lite specifications: dots with intervals, lines by size, learning
curves, points, and heat maps. Each gets its rows and the colours of its series."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

Spec = dict[str, Any]
WIDTH, ROW, NARROW_ROW = 215, 36, 30
LOG_FROM = 8  # largest / smallest value from which an axis of seconds is logarithmic
FROM_ZERO_BELOW = 0.5  # smallest / largest value below which a linear axis starts at 0
BLUE = "#0072B2"
LABEL_HEIGHT = 15  # pixels between the labels of curves
DASH = 9
SIZED = ("series", "size", "value", "low", "high")
LEGEND = {"orient": "top", "title": None, "labelLimit": 0}
NAME_LINE = 34  # characters; a longer name takes several lines, or a line of a legend
LETTER = 7  # pixels, in the wide fonts that a browser may use
THIN = {"strokeWidth": 1.2, "opacity": 0.8}
NAMES: Spec = {"title": None, "labelLimit": 150}


def dots(
    rows: pd.DataFrame,
    palette: Mapping[str, str],
    x: Spec,
    names: Spec = NAMES,
    runs: pd.DataFrame | None = None,
    row: int = ROW,
) -> Spec:
    """A line per `place`: its `value` with its interval `low` to `high` (missing: none), and its
    `label` in a column to the right of the plot, clear of gridlines and of the data. Colours are by
    `series`; `x` and `names` are the axes. With `runs`, the values are bars above a dot per run
    (`place`, `series`, `value`, `suspect`: open); without, they are dots, and a dashed line is
    drawn at 1."""
    rows = rows[["place", "series", "value", "low", "high", "label"]]
    height = row * rows["place"].nunique()
    y = _field("place", "nominal", sort=list(dict.fromkeys(rows["place"])), axis=names)
    colour = _colour(palette)
    value, low = (_field(name, **x) for name in ("value", "low"))
    ends = {"x": low, "x2": {"field": "high"}, "y": y, "color": colour}
    interval = _layer("rule", ends, strokeWidth=2.5 if runs is None else 2)
    text = _layer("text", {"x": {"value": WIDTH + 12}, "y": y, "text": _field("label", "nominal")},
                  align="left")  # fmt: skip
    at = {"x": value, "y": y, "color": colour}
    if runs is None:
        one = pd.DataFrame({"value": [1]})
        line = _layer("rule", {"x": value}, one, strokeDash=[4, 3], opacity=0.6)
        layers = [line, interval, _layer("point", at, size=70, filled=True, opacity=1), text]
    else:
        shown = runs[["place", "series", "value", "suspect"]]
        drawn = _filled_and_open(shown, at, size=26, strokeWidth=1.3, opacity=0.8, yOffset=9)
        tick = _layer("tick", at, thickness=3, size=13, opacity=1)
        layers = [interval, *drawn, tick, text]
    return _layered(layers, WIDTH, height, rows)


def names_axis(shown: Mapping[str, str]) -> Spec:
    """The axis of places for `dots`, which are identified by name and labelled as `shown`."""
    lines = {name: textwrap.wrap(text, NAME_LINE) for name, text in shown.items()}
    extent = LETTER * max(len(line) for each in lines.values() for line in each)
    expression = f"({json.dumps(lines)})[datum.label]"
    return {"title": None, "labelExpr": expression, "labelFontWeight": 500, "labelLimit": 0,
            "minExtent": extent}  # fmt: skip


def seconds_axis(limits: tuple[float, float]) -> Spec:
    """Logarithmic if `limits` are far apart; otherwise its title says if it does not start at 0."""
    low, high = limits
    is_log = low > 0 and high > LOG_FROM * low
    note = ", log scale" if is_log else " (axis does not start at 0)" if low > 0 else ""
    scale = {"type": "log"} if is_log else {"zero": False}
    return {
        "axis": {"title": f"seconds per epoch{note}", "tickCount": 4, "format": "~r"},
        "scale": {"domain": [low, high], "nice": False, **scale},
    }


def ratio_axis(title: str, limits: tuple[float, float]) -> Spec:
    return {
        "axis": {"title": title, "format": "~g", "values": ratio_ticks(*limits)},
        "scale": {"type": "log", "domain": list(limits), "nice": False},
    }


def seconds_limits(values: pd.Series[float]) -> tuple[float, float]:
    """The ends of an axis of seconds."""
    low, high = values.min(), values.max()
    if high > LOG_FROM * low:
        return low / 1.2, high * 1.2
    edge = 0.05 * max(high - low, 0.02 * high)
    return (low - edge if low > FROM_ZERO_BELOW * high else 0.0), high + edge


def ratio_limits(values: pd.Series[float]) -> tuple[float, float]:
    """The ends of an axis of ratios, 1 included."""
    low, high = min(1.0, values.min()), max(1.0, values.max())
    edge = max(1.01, (high / low) ** 0.06)
    return low / edge, high * edge


def relative(rows: pd.DataFrame, palette: Mapping[str, str], title: str) -> Spec:
    """`dots` of ratios, whose axis ends 5 % beyond them and 1."""
    values = rows[["value", "low", "high"]].astype(float)
    limits = min(1.0, values.min().min()) / 1.05, max(1.0, values.max().max()) * 1.05
    return dots(rows, palette, ratio_axis(title, limits), row=NARROW_ROW)


def ratio_ticks(low: float, high: float) -> list[float]:
    """About six round ratios inside an axis: 1, 2, 5, 10 on a long axis, otherwise equidistant and
    including 1."""
    if high / low > 4:
        length = math.log10(high / low)
        return _decades(
            low, high, (1, 2, 3, 5) if length < 1.2 else (1, 2, 5) if length < 2.5 else (1,)
        )
    wanted = (high - low) / 5
    width = next(w for w in (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1) if w >= wanted)
    first, last = math.ceil((low - 1) / width), math.floor((high - 1) / width)
    return [round(1 + number * width, 6) for number in range(first, last + 1)]


def _decades(low: float, high: float, within: Sequence[int]) -> list[float]:
    """The powers of ten inside an axis, and their multiples `within` a decade."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = [m * 10.0**power for power in powers for m in within]
    return [float(f"{step:.1g}") for step in steps if low <= step <= high]


def by_size(
    rows: pd.DataFrame,
    palette: Mapping[str, str],
    title: str,
    lines: Mapping[str, Spec],
    base: int = 10,
) -> Spec:
    """`value` by `size` on logarithmic axes, with intervals `low` to `high` (missing: none), below
    `lines` (column → properties of its line, in the colour of the series unless it has one). `base`
    of the ticks of values: 2 for speed-ups by threads (with the line `ideal`), else 10."""
    rows = rows[list(dict.fromkeys([*SIZED, *lines]))].copy()
    for name in ("low", "high"):
        rows[name] = rows[name].astype(float).fillna(rows["value"])
    if base == 2:
        ticks = [2.0**power for power in range(11) if 2**power <= rows["ideal"].max() * 1.01]
    else:
        low, high = rows["low"].min(), rows["high"].max()
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        ticks = [10.0**power for power in powers]
    sizes = [int(size) for size in sorted(rows["size"].unique())]
    x = _field("size", scale={"type": "log", "base": 2, "nice": False},
               axis={"title": title, "values": sizes, "grid": False})  # fmt: skip
    y: Spec = {
        "scale": {"type": "log", "base": base, "nice": False},
        "axis": {"title": None, "values": ticks, "grid": True, "format": "~g"},
    }
    colour = {"color": _colour(palette, LEGEND)}
    layers = [
        _layer("line", {"x": x, "y": _field(name, **y), **({} if "color" in line else colour)},
               **line)
        for name, line in lines.items()
    ]  # fmt: skip
    ends = {"x": x, "y": _field("low", **y), "y2": {"field": "high"}, **colour}
    at = {"x": x, "y": _field("value", **y), **colour}
    layers += [
        _layer("rule", ends, strokeWidth=2),
        _layer("point", at, size=60, filled=True, opacity=1),
    ]
    return _layered(layers, 250, 190, rows)


def by_seconds(rows: pd.DataFrame, palette: Mapping[str, str]) -> Spec:
    """`mean` by `elapsed` seconds of training, with a dot at the end of each epoch."""
    axis = {"title": "seconds of training", "tickCount": 5, "grid": False}
    at = {
        "x": _field("elapsed", axis=axis),
        "y": _field("mean", scale={"zero": False}, axis=_grid(5)),
        "color": _colour(palette, LEGEND),
    }
    layers = [
        _layer("line", at, strokeWidth=2),
        _layer("point", at, filled=True, size=30, opacity=1),
    ]
    return _layered(layers, 250, 190, rows[["series", "elapsed", "mean"]])


def learning_curves(rows: pd.DataFrame, palette: Mapping[str, str]) -> Spec:
    """`mean` by `epoch`: a line per series, labelled as `shown` at its end, with a band from `low`
    to `high`. Each line is drawn solid, then again dashed with its own offset, so that the colours
    of coincident curves alternate."""
    rows = rows[["series", "shown", "epoch", "mean", "low", "high"]]
    width, height = 230, 180
    names = list(dict.fromkeys(rows["series"]))
    low, high = float(rows["low"].min()), float(rows["high"].max())
    edge = 0.04 * ((high - low) or abs(high) or 1)
    first, last = float(rows["epoch"].min()), float(rows["epoch"].max())
    y: Spec = {"axis": _grid(5), "scale": {"domain": [low - edge, high + edge], "nice": False}}
    at = {
        "x": _field(
            "epoch",
            axis={"title": "epoch", "tickMinStep": 1, "tickCount": 5, "grid": False},
            scale={"domain": [first, last], "nice": False, "zero": False},
        ),
        "y": _field("mean", **y),
        "color": _colour(palette),
    }
    layers = [_layer("line", at, strokeWidth=2)]
    if (rows["high"] - rows["low"] > edge / 100).any():
        band = {**at, "y": _field("low", **y), "y2": {"field": "high"}}
        layers.insert(0, _layer("area", band, opacity=0.12))
    for place, name in enumerate(names if len(names) > 1 else ()):
        own = rows[rows["series"] == name]
        dash = {"strokeDash": [DASH, DASH * (len(names) - 1)], "strokeDashOffset": -DASH * place}
        layers.append(_layer("line", at, own, strokeWidth=2, strokeCap="butt", **dash))
    ends = rows[rows["epoch"] == last].drop_duplicates("series")
    per_pixel = (high - low + 2 * edge) / height
    places = _apart([(high + edge - value) / per_pixel for value in ends["mean"]], height)
    labels = ends[["series", "shown"]].assign(mean=[high + edge - p * per_pixel for p in places])
    marker = {**at, "x": {"value": width + 11}}
    text = {"y": at["y"], "x": {"value": width + 20}, "text": _field("shown", "nominal")}
    layers += [
        _layer("point", marker, labels, filled=True, size=50, opacity=1),
        _layer("text", text, labels, align="left"),
    ]
    return _layered(layers, width, height, rows)


def _apart(wanted: list[float], height: float) -> list[float]:
    """Positions for labels, close to `wanted`, one label height apart and within `height`."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    places = [0.0] * len(wanted)
    lowest = -float("inf")
    for index in order:
        lowest = places[index] = max(wanted[index], lowest + LABEL_HEIGHT)
    excess = max(0.0, lowest - height)
    return [place - excess for place in places]


def in_order(rows: pd.DataFrame, palette: Mapping[str, str]) -> Spec:
    """A point per run, open if `suspect`, by its `place` in the order of measurement: its epoch
    time `relative` to the mean of its configuration. A drift of the machine would appear as a
    slope."""
    rows = rows[["place", "series", "suspect"]].assign(percent=100 * (rows["relative"] - 1))
    reach = max(1.0, 1.1 * float(rows["percent"].abs().max()))
    axis = {"title": None, "tickCount": 5, "grid": True, "labelExpr": "datum.label + ' %'"}
    x_axis = {"title": "run, in order of measurement", "tickMinStep": 1, "grid": False}
    percent = _field("percent", scale={"domain": [-reach, reach]}, axis=axis)
    at = {
        "x": _field("place", axis=x_axis),
        "y": percent,
        "color": _colour(palette, {**LEGEND, "symbolOpacity": 1}),
    }
    zero = _layer("rule", {"y": _field("zero")}, pd.DataFrame({"zero": [0]}), opacity=0.5)
    return _layered([zero, *_filled_and_open(rows, at, size=55, opacity=0.9)], 460, 130)


def cost_front(rows: pd.DataFrame, palette: Mapping[str, str]) -> Spec:
    """`seconds` against `usd` of one training, both logarithmic; the rows that are `on_front`, the
    Pareto front, are connected and labelled with their `place`."""
    rows = rows[["place", "seconds", "usd", "on_front", "series"]]
    low, high = rows["seconds"].min(), rows["seconds"].max()

    def log(name: str, title: str, ends: list[float], **axis: Any) -> Spec:
        few = math.log10(ends[1] / ends[0]) < 2.5
        ticks = _decades(ends[0], ends[1], (1, 3) if few else (1,))
        return _field(name, scale={"type": "log", "domain": ends, "nice": False},
                      axis={"title": title, "format": "~g", **axis, "values": ticks})  # fmt: skip

    at = {
        "x": log("seconds", "seconds of training",
                 [low / 1.3, high * 1.3 * (high / low) ** 0.5 + low / 5]),
        "y": log("usd", "USD", [rows["usd"].min() / 1.6, rows["usd"].max() * 1.6], grid=True),
    }  # fmt: skip
    front = rows[rows["on_front"].astype(bool)].sort_values("seconds")
    point = {**at, "color": _colour(palette)}
    layers = [
        _layer("line", at, front, strokeDash=[2, 3], opacity=0.7, color="#5d7f95"),
        _layer("point", point, size=70, filled=True, opacity=1),
        _layer("text", {**at, "text": _field("place", "nominal")}, front, align="left", dx=9),
    ]
    return _layered(layers, WIDTH, 180, rows)


def heat_map(rows: pd.DataFrame) -> Spec:
    """`build` by `device`; each field has its `text` above its `span`, and a colour that is the
    stronger, the lower its `share` (≥ 1: seconds / those of the fastest build)."""
    rows = rows[["build", "device", "share", "text", "span"]]
    devices, builds = (list(dict.fromkeys(rows[name])) for name in ("device", "build"))
    # Light enough for the text of both colour schemes.
    domain, light = [1, max(rows["share"].max(), 1.01)], [0.42, 0.05]
    scale = {"type": "log", "domain": domain, "range": light}
    top = {"title": None, "orient": "top", "labelAngle": 0}
    at = {
        "x": _field("device", "nominal", sort=devices, axis=top),
        "y": _field("build", "nominal", sort=builds, axis={"title": None, "labelLimit": 130}),
    }
    tinted = {**at, "opacity": _field("share", scale=scale, legend=None)}
    text, span = ({**at, "text": _field(name, "nominal")} for name in ("text", "span"))
    layers = [
        _layer("rect", tinted, color=BLUE),
        _layer("text", text, dy=-7, fontWeight=600),
        _layer("text", span, dy=8, fontSize=9.5),
    ]
    return _layered(layers, 84 * len(devices), 46 * len(builds), rows)


def _grid(ticks: int) -> Spec:
    return {"title": None, "tickCount": ticks, "format": "~g", "grid": True}


def _field(name: str, type: str = "quantitative", **more: Any) -> Spec:
    return {"field": name, "type": type, **more}


def _colour(palette: Mapping[str, str], legend: Spec | None = None) -> Spec:
    scale = {"domain": list(palette), "range": list(palette.values())}
    if legend and max(map(len, palette), default=0) > NAME_LINE:
        legend = {**legend, "columns": 1}
    return _field("series", "nominal", scale=scale, legend=legend)


def _layer(mark: str, encoding: Spec, rows: pd.DataFrame | None = None, **style: Any) -> Spec:
    """A layer of marks. `rows`: its own; None: those of the chart."""
    return {**_data(rows), "mark": {"type": mark, **style}, "encoding": encoding}


def _filled_and_open(rows: pd.DataFrame, encoding: Spec, **style: Any) -> list[Spec]:
    """Layers of points; those that are `suspect` are open."""
    chosen = ((True, rows[~rows["suspect"]]), (False, rows[rows["suspect"]]))
    return [
        _layer("point", encoding, own, filled=filled, **style) for filled, own in chosen if len(own)
    ]


def _layered(layers: list[Spec], width: int, height: int, rows: pd.DataFrame | None = None) -> Spec:
    return {**_data(rows), "layer": layers, "width": width, "height": height}


def _data(rows: pd.DataFrame | None) -> Spec:
    if rows is None:
        return {}
    # JSON has no NaN, which differs from itself.
    values = [
        {name: value if value == value else None for name, value in row.items()}
        for row in rows.to_dict("records")
    ]
    return {"data": {"values": values}}
