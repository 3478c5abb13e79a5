"""The charts of a report as Vega-Lite specifications: `specs.json` has their marks, and a function
for each fills in its rows, its axes and the colours of its series."""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import pandas as pd

Spec = dict[str, Any]
Palette = Mapping[str, str]  # implementation → colour
Limits = tuple[float, float]  # the ends of an axis
TEMPLATES = resources.files("rnnbench.report") / "templates"
SPECS_TEXT = (TEMPLATES / "specs.json").read_text("utf-8")
SPECS: Spec = json.loads(SPECS_TEXT)
FIELDS = {"series", *re.findall(r'"field": "(\w+)"', SPECS_TEXT)}  # what is drawn of rows
ROW = 36
NARROW_ROW = 30
LOG_FROM = 8  # largest / smallest value from which an axis of seconds is logarithmic
FROM_ZERO_BELOW = 0.5  # smallest / largest value below which a linear axis starts at 0
LABEL_HEIGHT = 15  # pixels between the labels of curves
CURVES_HEIGHT = 180
DASH = 9
LEGEND: Spec = {"orient": "top", "title": None, "labelLimit": 0}
LEGEND_LINE = 60  # characters; in a longer line, a legend would shrink its chart
NAME_LINE = 34  # characters; a longer name takes several lines
LETTER = 7  # pixels, in the wide fonts that a browser may use
VALUE = ["value", "low", "high"]
NO_DATA: Spec = {"values": []}


def _chart(
    name: str,
    rows: pd.DataFrame,
    palette: Palette,
    legend: Spec | None = None,
    **slots: Any,
) -> Spec:
    """A chart of `rows`.

    - `name`: of its specification.
    - `palette`, `legend`: of its series, see `_colour`.
    - `slots`: what stands in the specification for texts like ``"$low"``.

    A layer whose own data have no rows is not drawn.
    """
    if palette:
        slots["colour"] = _colour(rows, palette, legend)
    spec = _filled(SPECS[name], slots)
    layers = [layer for layer in spec["layer"] if layer.get("data") != NO_DATA]
    return {**spec, "data": _data(rows), "layer": layers}


def _filled(part: Any, slots: Mapping[str, Any]) -> Any:
    """A `part` of a specification with its slots filled in."""
    if isinstance(part, dict):
        return {key: _filled(value, slots) for key, value in part.items()}
    if isinstance(part, list):
        return [_filled(each, slots) for each in part]
    if isinstance(part, str) and part.startswith("$"):
        return slots[part.removeprefix("$")]
    return part


def _data(rows: pd.DataFrame) -> Spec:
    """The `FIELDS` that `rows` have as columns."""
    names = [name for name in rows if name in FIELDS]
    columns = []
    for name in names:
        # JSON has no NaN.
        known = rows[name].notna().tolist()
        pairs = zip(rows[name].tolist(), known, strict=True)
        columns.append([value if is_known else None for value, is_known in pairs])
    # Not by pandas, which needs four times as long for the few rows of a chart.
    return {"values": [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]}


def values(rows: pd.DataFrame, measure: Sequence[str]) -> pd.DataFrame:
    """`rows` with the columns `value`, `low` and `high`, from the three columns of a `measure`."""
    value, low, high = measure
    return rows.assign(value=rows[value], low=rows[low], high=rows[high])


def _colour(rows: pd.DataFrame, palette: Palette, legend: Spec | None = None) -> Spec:
    """How the colours follow from `series`.

    `legend`: how it looks, None for no legend. It lists only what is drawn, in the order of the
    palette.
    """
    names = set(rows["series"])
    drawn = {name: colour for name, colour in palette.items() if name in names}
    lengths = [len(name) + 4 for name in drawn]  # with its symbol
    if legend and sum(lengths) > LEGEND_LINE:
        columns = max(LEGEND_LINE // max(lengths), 1)
        # A browser's fonts may be wider than those by which the columns are placed.
        legend = {**legend, "columns": columns, "columnPadding": 3 * LETTER}
    return {
        "field": "series",
        "type": "nominal",
        "scale": {"domain": list(drawn), "range": list(drawn.values())},
        "legend": legend,
    }


def times(
    rows: pd.DataFrame,
    palette: Palette,
    x: Spec,
    names: Spec,
    runs: pd.DataFrame,
) -> Spec:
    """A bar per `place` at its `value`, with its interval `low` to `high` (missing: none), above a
    dot per run, and its `label` to the right of the plot, clear of gridlines and of the data.

    - `rows`: `place`, `series`, which has the colour, `value`, `low`, `high`, `label`.
    - `x`, `names`: the axes.
    - `runs`: `place`, `series`, `value`, `suspect` (bool: the dot is open).
    """
    places = list(rows["place"].unique())
    return _chart(
        "times",
        rows,
        palette,
        height=ROW * len(places),
        places=places,
        names=names,
        clean_runs=_data(runs[~runs["suspect"]]),
        suspect_runs=_data(runs[runs["suspect"]]),
        **x,
    )


def ratios(
    rows: pd.DataFrame,
    palette: Palette,
    x: Spec,
    names: Spec,
    row: int = ROW,
) -> Spec:
    """A dot per `place`, otherwise as `times`; a dashed line is drawn at 1.

    `row`: the height of a place in pixels.
    """
    places = list(rows["place"].unique())
    return _chart(
        "ratios",
        rows,
        palette,
        height=row * len(places),
        places=places,
        names=names,
        **x,
    )


def names_axis(shown: Mapping[str, str]) -> Spec:
    """The axis of places.

    `shown`: name → label. A long label takes several lines.
    """
    lines = {}
    longest = 0
    for name, text in shown.items():
        lines[name] = textwrap.wrap(text, NAME_LINE)
        for line in lines[name]:
            longest = max(longest, len(line))
    return {
        "title": None,
        "labelExpr": f"({json.dumps(lines)})[datum.label]",
        "labelFontWeight": 500,
        "labelLimit": 0,
        "minExtent": LETTER * longest,
    }


def seconds_axis(limits: Limits) -> Spec:
    """An axis of seconds per epoch between `limits`.

    It is logarithmic if they are far apart. Otherwise its title says if it does not start at 0.
    """
    low, high = limits
    title = "seconds per epoch"
    scale: Spec = {"domain": [low, high], "nice": False}
    if low > 0 and high > LOG_FROM * low:
        title += ", log scale"
        scale["type"] = "log"
    else:
        scale["zero"] = False
        if low > 0:
            title += " (axis does not start at 0)"
    return {
        "axis": {"title": title, "tickCount": 4, "format": "~r"},
        "scale": scale,
    }


def ratio_axis(title: str, limits: Limits) -> Spec:
    """A logarithmic axis between `limits`."""
    return {
        "axis": {"title": title, "format": "~g", "values": ratio_ticks(*limits)},
        "scale": {"type": "log", "domain": list(limits), "nice": False},
    }


def seconds_limits(intervals: pd.DataFrame, runs: pd.Series[float]) -> Limits:
    """The ends of an axis of seconds for all `intervals` and `runs`."""
    known = intervals.astype(float)
    low = min(known.min().min(), runs.min())
    high = max(known.max().max(), runs.max())
    if high > LOG_FROM * low:
        return low / 1.2, high * 1.2
    edge = 0.05 * max(high - low, 0.02 * high)
    if low > FROM_ZERO_BELOW * high:
        return low - edge, high + edge
    return 0.0, high + edge


def ratio_limits(intervals: pd.DataFrame, edge: float | None = None) -> Limits:
    """The ends of an axis of ratios, 1 included. They are beyond all `intervals` by the factor
    `edge`, by default at least 1.01."""
    known = intervals.astype(float)
    low = min(1.0, known.min().min())
    high = max(1.0, known.max().max())
    if edge is None:
        edge = max(1.01, (high / low) ** 0.06)
    return low / edge, high * edge


def relative(rows: pd.DataFrame, palette: Palette, title: str) -> Spec:
    """`ratios` whose axis ends 5 % beyond them and 1.

    `rows`: `place`, `series`, `value`, `low`, `high`, `label`.
    """
    x = ratio_axis(title, ratio_limits(rows[VALUE], 1.05))
    names = {"title": None, "labelLimit": 150}
    return ratios(
        rows,
        palette,
        x,
        names,
        NARROW_ROW,
    )


def ratio_ticks(low: float, high: float) -> list[float]:
    """About six round ratios inside an axis from `low` to `high`.

    On a long axis these are 1, 2, 5, 10; otherwise they are equidistant and include 1.
    """
    if high / low > 4:
        length = math.log10(high / low)
        if length < 1.2:
            return _decades(low, high, (1, 2, 3, 5))
        if length < 2.5:
            return _decades(low, high, (1, 2, 5))
        return _decades(low, high, (1,))
    for width in (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1):
        if width >= (high - low) / 5:
            break
    first = math.ceil((low - 1) / width)
    last = math.floor((high - 1) / width)
    return [round(1 + number * width, 6) for number in range(first, last + 1)]


def _decades(low: float, high: float, within: Sequence[int]) -> list[float]:
    """The powers of ten inside an axis, and their multiples `within` a decade.

    `low`, `high`: the ends of the axis.
    """
    first = math.floor(math.log10(low))
    last = math.ceil(math.log10(high))
    ticks = []
    for power in range(first, last + 1):
        for multiple in within:
            tick = multiple * 10.0**power
            if low <= tick <= high:
                ticks.append(float(f"{tick:.1g}"))
    return ticks


def by_threads(rows: pd.DataFrame, palette: Palette) -> Spec:
    """`speedup` by `threads` with intervals and the line `ideal`.

    `rows`: has also the columns `series`, `speedup_low` and `speedup_high`.
    """
    rows = values(rows, ["speedup", "speedup_low", "speedup_high"]).assign(size=rows["threads"])
    most = rows["ideal"].max() * 1.01
    ticks = [2.0**power for power in range(11) if 2**power <= most]
    return _by_size(
        "by_threads",
        rows,
        palette,
        ticks,
    )


def by_batch(rows: pd.DataFrame, palette: Palette) -> Spec:
    """Milliseconds by `batch` with intervals, from `seconds`, `low` and `high`.

    `rows`: has also the column `series`.
    """
    milliseconds = 1e3 * rows[["seconds", "low", "high"]].astype(float)
    rows = rows.assign(low=milliseconds["low"], high=milliseconds["high"])
    rows = rows.assign(value=milliseconds["seconds"], size=rows["batch"])
    ticks = _decades(milliseconds.min().min(), milliseconds.max().max(), (1,))
    return _by_size(
        "by_batch",
        rows,
        palette,
        ticks,
    )


def throughput(rows: pd.DataFrame, palette: Palette) -> Spec:
    """Samples per second by `batch` with intervals, from `seconds`, `low` and `high` of a call.

    `rows`: has also the column `series`.
    """
    rates = {"size": rows["batch"]}
    for name, seconds in (("value", "seconds"), ("low", "high"), ("high", "low")):
        rates[name] = rows["batch"] / rows[seconds].astype(float)
    rows = rows.assign(**rates)
    ticks = _decades(rows["value"].min(), rows["value"].max(), (1,))
    return _by_size("by_batch", rows, palette, ticks)


def _by_size(
    name: str,
    rows: pd.DataFrame,
    palette: Palette,
    ticks: list[float],
) -> Spec:
    """On logarithmic axes, with `ticks` of values.

    - `name`: of the specification.
    - `rows`: `series`, `size`, `value`, `low`, `high` (missing: no interval).
    """
    low = rows["low"].astype(float).fillna(rows["value"])
    high = rows["high"].astype(float).fillna(rows["value"])
    return _chart(
        name,
        rows.assign(low=low, high=high),
        palette,
        LEGEND,
        sizes=[int(size) for size in sorted(rows["size"].unique())],
        ticks=ticks,
    )


def by_seconds(rows: pd.DataFrame, palette: Palette) -> Spec:
    """`mean` by `elapsed` seconds of training, with a dot at the end of each epoch.

    `rows`: has also the column `series`. Each series has a line.
    """
    return _chart("by_seconds", rows, palette, LEGEND)


def learning_curves(rows: pd.DataFrame, palette: Palette) -> Spec:
    """`mean` by `epoch`: a line per series, labelled as `shown` at its end, with a band from `low`
    to `high`.

    Each line is drawn solid, then again dashed with its own offset, so that the colours of
    coincident curves alternate.

    `rows`: one for each series and epoch.
    """
    low = float(rows["low"].min())
    high = float(rows["high"].max())
    edge = 0.04 * ((high - low) or abs(high) or 1)
    band = rows
    widths = rows["high"] - rows["low"]
    if not (widths > edge / 100).any():
        band = rows[:0]

    last = float(rows["epoch"].max())
    labels = rows[rows["epoch"] == last].drop_duplicates("series")
    per_pixel = (high - low + 2 * edge) / CURVES_HEIGHT
    places = _apart([(high + edge - value) / per_pixel for value in labels["mean"]])
    labels = labels.assign(mean=[high + edge - place * per_pixel for place in places])

    chart = _chart(
        "learning_curves",
        rows,
        palette,
        height=CURVES_HEIGHT,
        epochs=[float(rows["epoch"].min()), last],
        ends=[low - edge, high + edge],
        band=_data(band),
        labels=_data(labels),
    )

    names = rows["series"].unique()
    if len(names) > 1:
        solid = chart["layer"][-3]
        dashes = []
        for place, name in enumerate(names):
            mark = {
                "type": "line",
                "strokeWidth": 2,
                "strokeCap": "butt",
                "strokeDash": [DASH, DASH * (len(names) - 1)],
                "strokeDashOffset": -DASH * place,
            }
            own = _data(rows[rows["series"] == name])
            dashes.append({**solid, "data": own, "mark": mark})
        chart["layer"][-2:-2] = dashes
    return chart


def _apart(wanted: list[float]) -> list[float]:
    """Positions for labels in pixels, close to the `wanted` ones.

    They are at least one label height apart and within the chart.
    """
    places = list(wanted)
    lowest = -math.inf
    for index in sorted(range(len(wanted)), key=lambda index: wanted[index]):
        lowest = max(wanted[index], lowest + LABEL_HEIGHT)
        places[index] = lowest
    excess = max(0.0, lowest - CURVES_HEIGHT)
    return [place - excess for place in places]


def in_order(rows: pd.DataFrame, palette: Palette) -> Spec:
    """A point per run, open if `suspect`, by its `place` in the order of measurement.

    Its height is its epoch time `relative` to the mean of its configuration, so a drift of the
    machine would appear as a slope.

    `rows`: has also the column `series`.
    """
    percent = 100 * (rows["relative"] - 1)
    reach = max(1.0, 1.1 * float(percent.abs().max()))
    rows = rows.assign(percent=percent)
    return _chart(
        "in_order",
        rows,
        palette,
        {**LEGEND, "symbolOpacity": 1},
        clean_runs=_data(rows[~rows["suspect"]]),
        suspect_runs=_data(rows[rows["suspect"]]),
        ends=[-reach, reach],
    )


def cost_front(rows: pd.DataFrame, palette: Palette) -> Spec:
    """`seconds` against `usd` of one training run, both logarithmic.

    The rows that are `on_front`, the Pareto front, are connected and labelled with their `place`.
    """
    front = rows[rows["on_front"].astype(bool)]
    low = rows["seconds"].min()
    high = rows["seconds"].max()
    beyond = high * 1.3 * (high / low) ** 0.5 + low / 5  # for the labels
    seconds = [low / 1.3, beyond]
    usd = [rows["usd"].min() / 1.6, rows["usd"].max() * 1.6]
    return _chart(
        "cost_front",
        rows,
        palette,
        front=_data(front.sort_values("seconds")),
        seconds=seconds,
        seconds_ticks=_log_ticks(*seconds),
        usd=usd,
        usd_ticks=_log_ticks(*usd),
    )


def _log_ticks(low: float, high: float) -> list[float]:
    """The ticks of a logarithmic axis: 1, 3, 10 or, on a long axis, the powers of ten."""
    if math.log10(high / low) < 2.5:
        return _decades(low, high, (1, 3))
    return _decades(low, high, (1,))


def heat_map(rows: pd.DataFrame) -> Spec:
    """`build` by `device`; each field has its `text` above its `span`.

    Its colour is the stronger, the lower its `share` (≥ 1: seconds / seconds of the fastest build),
    and light enough for the text of both colour schemes.

    `rows`: one for each field.
    """
    devices = list(rows["device"].unique())
    builds = list(rows["build"].unique())
    return _chart(
        "heat_map",
        rows,
        {},
        width=84 * len(devices),
        height=46 * len(builds),
        devices=devices,
        builds=builds,
        shares=[1, max(rows["share"].max(), 1.01)],
    )
