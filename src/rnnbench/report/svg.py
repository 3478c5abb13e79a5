"""Altair chart → an SVG for a page or a file, in light and dark colour schemes."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import altair as alt
import vl_convert
from altair.utils.schemapi import debug_mode

P = ParamSpec("P")
T = TypeVar("T")

# Text and lines have the text colour of the page. Altair's validation rejects currentColor, so
# the configuration is added to the finished dict.
FOREGROUND = "currentColor"
AXIS = {
    "labelColor": FOREGROUND, "titleColor": FOREGROUND, "gridColor": FOREGROUND,
    "gridOpacity": 0.14, "domain": False, "ticks": False, "labelFontSize": 11.5,
    "titleFontSize": 11.5, "titleFontWeight": "normal", "titleOpacity": 0.75,
    "labelOpacity": 0.9, "labelPadding": 6, "titleAnchor": "start", "labelOverlap": "greedy",
    "labelSeparation": 8,
}  # fmt: skip
CONFIG: dict[str, Any] = {
    "background": None,
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    # A browser may use another font than the one the text is measured with.
    "padding": {"left": 5, "top": 5, "right": 20, "bottom": 5},
    "axis": AXIS,
    "axisY": {"grid": False},
    "title": {
        "color": FOREGROUND,
        "anchor": "start",
        "frame": "group",
        "fontSize": 12.5,
        "fontWeight": 600,
        "offset": 10,
    },
    "text": {"color": FOREGROUND, "fontSize": 11.5},
    "rule": {"color": FOREGROUND},
    "legend": {"labelColor": FOREGROUND, "labelFontSize": 11.5},
}
FILE_STYLE = (
    "<style>svg{color:#1f2328}"
    "@media (prefers-color-scheme:dark){svg{color:#e6edf3}}</style>"
)  # fmt: skip


def unchecked(draw: Callable[P, T]) -> Callable[P, T]:
    """`draw` without Altair's validation of each part of a chart, which is slow for a hundred
    figures. Rendering fails for invalid charts."""

    @wraps(draw)
    def drawn(*args: P.args, **named: P.kwargs) -> T:
        with debug_mode(False):
            return draw(*args, **named)

    return drawn


class Datasets:
    """Frame → a reference to its rows, so that layers share them. Altair would copy them into each
    layer, and rejects more than 5,000 rows for the sake of browsers, which render nothing here."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        # id → name, and the frame itself, so that its id stays unique
        self._names: dict[int, tuple[str, Any]] = {}

    def __call__(self, frame: Any) -> dict[str, str]:
        if id(frame) not in self._names:
            name = f"rows-{len(self._names)}"
            self._names[id(frame)] = (name, frame)
            present = frame.astype(object).where(frame.notna(), None)
            self.values[name] = present.to_dict("records")
        return {"name": self._names[id(frame)][0]}


def render(chart: alt.TopLevelMixin, id: str, title: str) -> str:
    """The chart as an SVG element whose ids start with `id`. Screen readers get `title` only; the
    tables have the same numbers."""
    shared = Datasets()
    alt.data_transformers.register("shared", shared)
    with alt.data_transformers.enable("shared"):
        # Altair's validation would take most of the time of a report.
        spec = chart.to_dict(validate=False)
    spec |= {"config": CONFIG, "title": title}
    spec["datasets"] = {**spec.get("datasets", {}), **shared.values}
    return accessible(vl_convert.vegalite_to_svg(spec), id, title)


def accessible(svg: str, id: str, title: str) -> str:
    svg = re.sub(r' (?:role|aria-[a-z]+)="[^"]*"', "", svg)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{id}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{id}-\1)", svg)
    svg = re.sub(r'(xlink:href|href)="#([^"]+)"', rf'\1="#{id}-\2"', svg)
    head, rest = svg.split(">", 1)
    name = f'<title id="{id}-title">{html.escape(title)}</title>'
    return f'{head} role="img" aria-labelledby="{id}-title">{name}{rest}'


def to_png(svg: str) -> bytes:
    """The SVG as a PNG on white, at twice its size."""
    size = re.search(r'viewBox="0 0 (\S+) (\S+)"', svg)
    assert size is not None
    background = '<rect width="{}" height="{}" fill="#fff"/>'.format(*size.groups())
    drawn = svg.replace("</title>", f"</title>{background}", 1).replace(FOREGROUND, "#1f2328")
    return vl_convert.svg_to_png(drawn, scale=2)


def standalone(svg: str) -> str:
    """The SVG with its own text colours, for a file."""
    return svg.replace("</title>", f"</title>{FILE_STYLE}", 1)
