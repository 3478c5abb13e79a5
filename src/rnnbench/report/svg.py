"""Altair chart → one SVG that stands in a page or alone, in light and in dark."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    import altair as alt

P = ParamSpec("P")
T = TypeVar("T")

# Text and lines take the colour of the page around them. Altair's own check of colours does
# not know currentColor, so this part of the configuration is put into the finished dict.
INK = "currentColor"
AXIS = {
    "labelColor": INK, "titleColor": INK, "gridColor": INK, "gridOpacity": 0.14,
    "domain": False, "ticks": False, "labelFontSize": 11.5, "titleFontSize": 11.5,
    "titleFontWeight": "normal", "titleOpacity": 0.75, "labelOpacity": 0.9, "labelPadding": 6,
    "titleAnchor": "start", "labelOverlap": "greedy", "labelSeparation": 8,
}  # fmt: skip
CONFIG: dict[str, Any] = {
    "background": None,
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    # Text is measured with another font than a browser may draw it with.
    "padding": {"left": 5, "top": 5, "right": 20, "bottom": 5},
    "axis": AXIS,
    "axisY": {"grid": False},
    "title": {
        "color": INK,
        "anchor": "start",
        "frame": "group",
        "fontSize": 12.5,
        "fontWeight": 600,
        "offset": 10,
    },
    "text": {"color": INK, "fontSize": 11.5},
    "rule": {"color": INK},
    "legend": {"labelColor": INK, "labelFontSize": 11.5},
}
ALONE = (
    "<style>svg{color:#1f2328}"
    "@media (prefers-color-scheme:dark){svg{color:#e6edf3}}</style>"
)  # fmt: skip


def unchecked(draw: Callable[P, T]) -> Callable[P, T]:
    """`draw`, with Altair not holding each part of a chart against the schema as it is made: for
    pages of a hundred figures. A chart that is wrong cannot be rendered."""

    @wraps(draw)
    def drawn(*args: P.args, **named: P.kwargs) -> T:
        from altair.utils.schemapi import debug_mode

        with debug_mode(False):
            return draw(*args, **named)

    return drawn


class Datasets:
    """Frame → the name of its rows. Altair would write a frame down once for each layer, and
    refuses more than 5,000 rows, to spare browsers; here the drawing is done now."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self._names: dict[int, tuple[str, Any]] = {}  # with the frame, so that its id is its own

    def __call__(self, frame: Any) -> dict[str, str]:
        if id(frame) not in self._names:
            name = f"rows-{len(self._names)}"
            self._names[id(frame)] = (name, frame)
            present = frame.astype(object).where(frame.notna(), None)
            self.values[name] = present.to_dict("records")
        return {"name": self._names[id(frame)][0]}


def render(chart: alt.TopLevelMixin, id: str, title: str) -> str:
    """The chart as an SVG element whose ids all begin with `id` and whose title is `title`
    (read out; everything inside is hidden from it, the tables hold the same numbers)."""
    import altair as alt
    import vl_convert

    shared = Datasets()
    alt.data_transformers.register("shared", shared)
    with alt.data_transformers.enable("shared"):
        # Altair's check against its schema would take most of the time of a report.
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
    """The SVG as a picture on white, twice its size."""
    import vl_convert

    size = re.search(r'viewBox="0 0 (\S+) (\S+)"', svg)
    assert size is not None
    paper = '<rect width="{}" height="{}" fill="#fff"/>'.format(*size.groups())
    drawn = svg.replace("</title>", f"</title>{paper}", 1).replace(INK, "#1f2328")
    return vl_convert.svg_to_png(drawn, scale=2)


def standalone(svg: str) -> str:
    """The SVG with an ink of its own, for a file that no page surrounds."""
    return svg.replace("</title>", f"</title>{ALONE}", 1)
