"""The parts of a page as data: sections, figures, and tables of text. `parts.html.j2` has the HTML
of them, `to_markdown` is the Markdown of a table."""

from __future__ import annotations

import html
import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from itertools import groupby
from typing import Any

import pandas as pd
import vl_convert

from rnnbench.report import numbers as n
from rnnbench.report.charts import Spec
from rnnbench.report.labels import element_id, with_labels

# Text and lines have the text colour of the page. The padding is wide on the right, because a
# browser may use another font than the one the text is measured with.
FOREGROUND = "currentColor"
TEMPLATES = resources.files("rnnbench.report") / "templates"
CONFIG = json.loads((TEMPLATES / "charts.json").read_text("utf-8"))
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
    names = [part for part in group.split(" · ") if part]
    id = f"{kind}-{element_id(*names, which)}"
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


ROWS = 80  # shown of a table
NARROW_ROWS = 24  # a table with more rows is not split by device for phones
PHONE = 54  # characters of a table beside each other

# Section → its title, hint and texts.
WORDS: Mapping[str, Mapping[str, str]] = tomllib.loads(
    (TEMPLATES / "words.toml").read_text("utf-8")
)
Text = str | Callable[[Any], str]  # of a row: the name of its column, or a function of the row


@dataclass(frozen=True)
class Column:
    """`label` under the heading `spanner` (none for ``""``), with the `text` of each row. `quiet`:
    in a lighter colour, because it belongs to the column before it. `linked`: the text links to
    the runs behind it (None: if it is a number)."""

    label: str
    text: Text
    spanner: str = ""
    number: bool = True
    quiet: bool = False
    linked: bool | None = None

    @property
    def heading(self) -> str:
        return f"{self.spanner} {self.label}".strip()


@dataclass(frozen=True)
class Row:
    """`cells` with the row heading `head`, in the block `group` (none for ``""``). `links`: the id
    on the page of the runs behind each cell (``""`` for none); `link`: that of the heading."""

    head: str
    cells: tuple[str, ...]
    group: str
    links: tuple[str, ...]
    link: str = ""


@dataclass(frozen=True)
class TableView:
    """`id`: unique on the page; `title`: heading of the table; `corner`: label of the column of row
    headings; `notes`: sentences below the table; `leads`: not folded, even if long."""

    id: str
    title: str
    corner: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    leads: bool = False

    @property
    def spanners(self) -> list[tuple[str, list[int]]]:
        """Each heading above columns, and the numbers of its columns."""
        numbered = groupby(range(len(self.columns)), lambda number: self.columns[number].spanner)
        return [(spanner, list(numbers)) for spanner, numbers in numbered]

    @property
    def stacks(self) -> bool:
        """Whether the longest words of all columns do not fit beside each other on a phone, where
        each row is then a block with one line per column."""
        heads = (self.corner, *(column.label for column in self.columns))
        lines = [heads, *((row.head, *row.cells) for row in self.rows)]
        words = [" ".join(texts).split() for texts in zip(*lines, strict=True)]
        return sum(max(map(len, column)) + 1 for column in words) > PHONE

    @property
    def grouped(self) -> bool:
        return any(row.group for row in self.rows)

    @property
    def groups(self) -> list[tuple[str, list[Row]]]:
        """Each block of rows under its heading."""
        return [(group, list(rows)) for group, rows in groupby(self.rows, lambda row: row.group)]


@dataclass(frozen=True)
class Section:
    """`id`: unique on the page; `paragraphs`: texts above the figures (names in backticks);
    `views`: tables below the figures; `kind`: CSS class of the tables (``words``: their text
    wraps); `text_only`: the section is shown without figures and tables; `csv`: file name → table;
    `title`: heading and entry of the navigation, by default that in `WORDS`."""

    id: str
    paragraphs: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    views: Sequence[TableView] = ()
    kind: str = ""
    text_only: bool = False
    csv: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    title: str = ""

    @property
    def heading(self) -> str:
        return self.title or WORDS[self.id]["title"]

    @property
    def hint(self) -> str:
        """Its contents in a few words."""
        return WORDS.get(self.id, {}).get("hint", "")

    def __bool__(self) -> bool:
        return bool(self.text_only or self.figures or any(view.rows for view in self.views))


def view_of(
    table: pd.DataFrame,
    id: str,
    title: str,
    corner: str,
    head: Text,
    columns: Sequence[Column],
    group: Text = lambda row: "",
    notes: tuple[str, ...] = (),
) -> TableView:
    """One row per row of `table`, with the heading `head`. Cells link to the id in the column
    `anchor`, headings to that in `head_anchor`, if `table` has them."""
    links = [column.number if column.linked is None else column.linked for column in columns]
    rows = [
        Row(
            text_of(head, row),
            tuple(text_of(column.text, row) for column in columns),
            text_of(group, row),
            tuple(row.get("anchor", "") if linked else "" for linked in links),
            row.get("head_anchor", ""),
        )
        for row in table.to_dict("records")
    ]
    return TableView(id, title, corner, tuple(columns), _by_group(rows), notes)


def by_device(
    id: str, title: str, table: pd.DataFrame, columns: Sequence[Column], notes: tuple[str, ...] = ()
) -> TableView:
    """One row per group and implementation, with the `columns` under each device; a dash if it did
    not run there."""
    table = with_labels(table)
    devices = list(dict.fromkeys(table["column_name"]))
    lines: dict[tuple[str, str], dict[str, Any]] = {}
    for row in table.to_dict("records"):
        lines.setdefault((row["block"], row["series"]), {})[row["column_name"]] = row
    rows = []
    for (block, name), by_name in lines.items():
        cells = [(by_name.get(device), column) for device in devices for column in columns]
        texts = tuple(text_of(column.text, row) if row else n.NOTHING for row, column in cells)
        links = tuple(row["anchor"] if row else "" for row, _ in cells)
        rows.append(Row(name, texts, block, links))
    under = tuple(replace(column, spanner=device) for device in devices for column in columns)
    return TableView(id, title, "implementation", under, _by_group(rows), notes)


def _by_group(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows sorted by group, groups in the order of their first rows."""
    groups = list(dict.fromkeys(row.group for row in rows))
    return tuple(sorted(rows, key=lambda row: groups.index(row.group)))


def text_of(text: Text, row: Mapping[Any, Any]) -> str:
    return text(row) if callable(text) else str(row[text])


def span_of(name: str, text: Callable[[Any, Any, Any], str] = n.span) -> Callable[[Any], str]:
    """The text of the interval of the column `name`."""
    return lambda row: text(row[f"{name}_low"], row[f"{name}_high"], row[name])


def marked(text: str, row: Any) -> str:
    return n.marked(text, row["suspect"])


def epoch_span(row: Any) -> str:
    return n.span(row["epoch_low"], row["epoch_high"], row["epoch_seconds"])


def shortened(view: TableView) -> TableView:
    """`view` with its first `ROWS` rows, and a note if there are more."""
    if len(view.rows) <= ROWS:
        return view
    note = f"The first {ROWS} of {len(view.rows):,} rows; all are in the CSV tables."
    return replace(view, rows=view.rows[:ROWS], notes=(*view.notes, note))


def by_spanner(view: TableView) -> list[TableView]:
    """One view for the columns of each spanner, for narrow screens; [] if there are fewer than two
    spanners, columns without one, or more than `NARROW_ROWS` rows."""
    spanners = list(dict.fromkeys(column.spanner for column in view.columns))
    if len(spanners) < 2 or not all(spanners) or len(view.rows) > NARROW_ROWS:
        return []
    return [_under(view, spanner, number) for number, spanner in enumerate(spanners)]


def _under(view: TableView, spanner: str, number: int) -> TableView:
    chosen = [index for index, column in enumerate(view.columns) if column.spanner == spanner]

    def narrow(row: Row) -> Row:
        cells, links = (tuple(part[i] for i in chosen) for part in (row.cells, row.links))
        return replace(row, cells=cells, links=links)

    rows = [row for row in map(narrow, view.rows) if any(cell != n.NOTHING for cell in row.cells)]
    return replace(
        view,
        id=f"{view.id}-{number}",
        title=f"{view.title}: {spanner}",
        columns=tuple(view.columns[index] for index in chosen),
        rows=tuple(rows),
    )


def to_markdown(view: TableView) -> str:
    """A GitHub table. Spanners become part of the labels, groups a separate column."""
    view = shortened(view)
    heads = [view.corner, *(column.heading for column in view.columns)]
    rules = [":--", *("--:" if column.number else ":--" for column in view.columns)]
    lines = [[row.head, *row.cells] for row in view.rows]
    if view.grouped:
        heads, rules = ["", *heads], [":--", *rules]
        lines = [[row.group, *line] for row, line in zip(view.rows, lines, strict=True)]
    table = [heads, rules, *lines]
    return "\n".join("| " + " | ".join(map(_escape, line)) + " |" for line in table)


def _escape(text: str) -> str:
    text = text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
    text = text.replace("*", "\\*").replace("_", "\\_").replace("]", "\\]")
    return " ".join(text.split())
