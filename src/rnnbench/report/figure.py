"""A chart as a figure of a page: SVG in light and dark colour schemes."""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass
from importlib import resources

import vl_convert

from rnnbench.report.charts import Spec

# Text and lines have the text colour of the page. The padding is wide on the right, because a
# browser may use another font than the one the text is measured with.
FOREGROUND = "currentColor"
CONFIG = json.loads(
    resources.files("rnnbench.report").joinpath("templates/charts.json").read_text("utf-8")
)
FILE_STYLE = (
    "<style>svg{color:#1f2328}"
    "@media (prefers-color-scheme:dark){svg{color:#e6edf3}}</style>"
)  # fmt: skip


@dataclass(frozen=True)
class Figure:
    """`id`: unique in a report, and the name of its file; `kind`: ``time``, ``speedup``,
    ``curve``, ``order``, …; `svg`: the element to insert into a page; `wide`: over the whole width
    of the page."""

    id: str
    kind: str
    group: str
    title: str
    svg: str
    wide: bool = False


def figure(
    kind: str, group: str, which: str, title: str, chart: Spec, wide: bool = False
) -> Figure:
    """Renders `chart` under its title. Screen readers get the title only; the tables have the same
    numbers."""
    id = re.sub(r"[^A-Za-z0-9_]+", "-", f"{kind}-{group}-{which}").strip("-")
    svg = vl_convert.vegalite_to_svg({**chart, "config": CONFIG, "title": title})
    return Figure(id, kind, group, title, _accessible(svg, id, title), wide)


def _accessible(svg: str, id: str, title: str) -> str:
    """The SVG with ids that start with `id`, and `title` as its name."""
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
