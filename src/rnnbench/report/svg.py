"""Altair chart → one SVG that stands in a page or alone, in light and in dark."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import altair as alt

# Text and lines take the colour of the page around them. Altair's own check of colours does
# not know currentColor, so this part of the configuration is put into the finished dict.
INK = "currentColor"
AXIS = {
    "labelColor": INK, "titleColor": INK, "gridColor": INK, "gridOpacity": 0.14,
    "domain": False, "ticks": False, "labelFontSize": 11.5, "titleFontSize": 11.5,
    "titleFontWeight": "normal", "titleOpacity": 0.75, "labelOpacity": 0.9, "labelPadding": 6,
    "titleAnchor": "start",
}  # fmt: skip
CONFIG: dict[str, Any] = {
    "background": None,
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
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


def render(chart: alt.TopLevelMixin, id: str, title: str) -> str:
    """The chart as an SVG element whose ids all begin with `id` and whose title is `title`
    (read out; everything inside is hidden from it, the tables hold the same numbers)."""
    import altair as alt
    import vl_convert

    # Altair refuses more than 5,000 rows, to spare browsers; here the drawing is done now. Its
    # check against the schema would take most of the time of a report.
    with alt.data_transformers.enable("default", max_rows=None):
        spec = chart.to_dict(validate=False)
    spec["config"] = CONFIG
    return accessible(vl_convert.vegalite_to_svg(spec), id, title)


def accessible(svg: str, id: str, title: str) -> str:
    svg = re.sub(r' (?:role|aria-[a-z]+)="[^"]*"', "", svg)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{id}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{id}-\1)", svg)
    svg = re.sub(r'(xlink:href|href)="#([^"]+)"', rf'\1="#{id}-\2"', svg)
    head, rest = svg.split(">", 1)
    name = f'<title id="{id}-title">{html.escape(title)}</title>'
    return f'{head} role="img" aria-labelledby="{id}-title">{name}{rest}'


def standalone(svg: str) -> str:
    """The SVG with an ink of its own, for a file that no page surrounds."""
    return svg.replace("</title>", f"</title>{ALONE}", 1)
