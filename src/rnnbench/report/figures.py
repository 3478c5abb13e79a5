"""Charts as SVG: elements of a page and files."""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass

import vl_convert

from rnnbench.report.charts import TEMPLATES, Spec
from rnnbench.report.labels import element_id

CONFIG = json.loads((TEMPLATES / "charts.json").read_text("utf-8"))
# Text and lines have the text colour of the page.
FOREGROUND = "currentColor"
INK = "#1f2328"  # of text and lines on white
FILE_STYLE = (
    "<style>svg{color:#1f2328}"
    "@media (prefers-color-scheme:dark){svg{color:#e6edf3}}</style>"
)  # fmt: skip


@dataclass(frozen=True)
class Figure:
    """A chart on the page.

    - `id`: unique in a report, and the name of its file.
    - `kind`: ``time``, ``speedup``, ``curve``, ``order``, …
    - `group`: its heading in a section with several groups (``""`` for none).
    - `svg`: the element to insert into a page.
    - `wide`: over the whole width of the page.
    """

    id: str
    kind: str
    group: str
    title: str
    svg: str
    wide: bool = False


def figure(
    kind: str,
    group: object,
    which: object,
    title: str,
    chart: Spec,
    wide: bool = False,
) -> Figure:
    """Renders a chart under its title. Screen readers get the title only; the tables have the same
    numbers.

    - `kind`, `group`, `wide`: see `Figure`. `title`: one line or several.
    - `which`: what tells the figure from others of its kind and group, such as the device.
    - `chart`: a specification without a title.
    """
    names = [part for part in str(group).split(" · ") if part]
    id = f"{kind}-{element_id(*names, str(which))}"
    lines = title.split("\n")
    title = " ".join(lines)
    svg = vl_convert.vegalite_to_svg({**chart, "config": CONFIG, "title": lines})
    # Ids are unique on the page, and the title is the name of the figure.
    svg = re.sub(r' (?:role|aria-[a-z]+)="[^"]*"', "", svg)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{id}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{id}-\1)", svg)
    svg = re.sub(r'(xlink:href|href)="#([^"]+)"', rf'\1="#{id}-\2"', svg)
    head, rest = svg.split(">", 1)
    name = f'<title id="{id}-title">{html.escape(title)}</title>'
    svg = f'{head} role="img" aria-labelledby="{id}-title">{name}{rest}'
    return Figure(
        id,
        kind,
        str(group),
        title,
        svg,
        wide,
    )


def to_png(svg: str) -> bytes:
    """The SVG as a PNG on white, at twice its size."""
    size = re.search(r'viewBox="0 0 (\S+) (\S+)"', svg)
    assert size is not None
    background = f'<rect width="{size[1]}" height="{size[2]}" fill="#fff"/>'
    drawn = svg.replace("</title>", f"</title>{background}", 1)
    return vl_convert.svg_to_png(drawn.replace(FOREGROUND, INK), scale=2)


def to_pdf(svg: str) -> bytes:
    """The SVG as a PDF page of its size, in which texts are text."""
    return vl_convert.svg_to_pdf(svg.replace(FOREGROUND, INK))


def standalone(svg: str) -> str:
    """The SVG with its own text colours, for a file."""
    return svg.replace("</title>", f"</title>{FILE_STYLE}", 1)
