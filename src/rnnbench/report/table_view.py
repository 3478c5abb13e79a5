"""A table as it is shown: text in cells, once as HTML (Great Tables), once as Markdown."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from rnnbench.report.numbers import NOTHING

if TYPE_CHECKING:
    from great_tables import GT


ROWS = 80  # of a table on a page
NARROW_ROWS = 24  # of a table that a phone gets one device at a time


@dataclass(frozen=True)
class Column:
    """`label` under the heading `spanner` (none for ``""``). `quiet` is set back: it belongs
    to the column before it."""

    label: str
    spanner: str = ""
    number: bool = True
    quiet: bool = False


@dataclass(frozen=True)
class Row:
    """`cells` under the row heading `head`, in the block `group` (none for ``""``). `links` says
    for each cell where on the page its runs stand (``""``: nowhere; no links at all: none has),
    `link` for the heading."""

    head: str
    cells: tuple[str, ...]
    group: str = ""
    links: tuple[str, ...] = ()
    link: str = ""


@dataclass(frozen=True)
class TableView:
    """`id` is unique on the page; `title` is read out and stands above the Markdown table;
    `corner` heads the row headings; `notes` stand below. `leads`: never folded,
    however long."""

    id: str
    title: str
    corner: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    leads: bool = False


def shortened(view: TableView) -> TableView:
    """The first `ROWS` rows, with a note where there are more: a page of thousands of rows helps
    nobody, and the CSV tables hold them all."""
    if len(view.rows) <= ROWS:
        return view
    note = f"The first {ROWS} of {len(view.rows):,} rows; all are in the CSV tables."
    return replace(view, rows=view.rows[:ROWS], notes=(*view.notes, note))


def by_spanner(view: TableView) -> list[TableView]:
    """One view for the columns of each spanner, for a screen that has room for one; [] where
    there are fewer than two, or more rows than a page shows unfolded."""
    spanners = list(dict.fromkeys(column.spanner for column in view.columns))
    if len(spanners) < 2 or not all(spanners) or len(view.rows) > NARROW_ROWS:
        return []
    return [_under(view, spanner, place) for place, spanner in enumerate(spanners)]


def _under(view: TableView, spanner: str, number: int) -> TableView:
    places = [at for at, column in enumerate(view.columns) if column.spanner == spanner]

    def kept(row: Row) -> Row:
        links = tuple(row.links[at] for at in places) if row.links else ()
        return replace(row, cells=tuple(row.cells[at] for at in places), links=links)

    rows = [row for row in map(kept, view.rows) if any(cell != NOTHING for cell in row.cells)]
    return replace(
        view,
        id=f"{view.id}-{number}",
        title=f"{view.title}: {spanner}",
        columns=tuple(view.columns[at] for at in places),
        rows=tuple(rows),
    )


def to_html(view: TableView) -> Markup:
    """The table element alone: its looks are the page's, in light and dark."""
    import pandas as pd

    # Great Tables fills cell by cell, which is slow where Arrow stores them.
    with pd.option_context("mode.string_storage", "python"):
        return _to_html(shortened(view))


def _to_html(view: TableView) -> Markup:
    import pandas as pd
    from great_tables import GT

    names = [f"c{number}" for number in range(len(view.columns))]
    frame = pd.DataFrame(map(_linked, view.rows), columns=names, dtype=object)
    frame.insert(0, "head", [_link(row.head, row.link) for row in view.rows])
    grouped = any(row.group for row in view.rows)
    if grouped:
        frame.insert(0, "group", [row.group for row in view.rows])
    table = (
        GT(frame, rowname_col="head", groupname_col="group" if grouped else None, id=view.id)
        .tab_stubhead(view.corner)
        .cols_label({name: c.label for name, c in zip(names, view.columns, strict=True)})
        .cols_align("left")
        .fmt(str, columns=["head", *names])  # or Great Tables would escape what is escaped here
    )
    numbers = [n for n, column in zip(names, view.columns, strict=True) if column.number]
    if numbers:
        table = table.cols_align("right", columns=numbers)
    for place, spanner in enumerate(dict.fromkeys(column.spanner for column in view.columns)):
        under = [n for n, c in zip(names, view.columns, strict=True) if c.spanner == spanner]
        if spanner:
            table = table.tab_spanner(spanner, columns=under, id=f"spanner{place}")
    return Markup(_table_element(_styled(table, names, view).as_raw_html()))


def _linked(row: Row) -> list[str]:
    """The cells as HTML. Of the links of a row to one place the keyboard stops at the first."""
    targets = row.links or ("",) * len(row.cells)
    before = ("", *targets)
    return [
        _link(text, target, again=target in before[: place + 1])
        for place, (text, target) in enumerate(zip(row.cells, targets, strict=True))
    ]


def _link(text: str, target: str, again: bool = False) -> str:
    if not target or text == NOTHING:
        return str(escape(text))
    stop = Markup(' tabindex="-1"') if again else ""
    return str(Markup('<a href="#{}"{}>{}</a>').format(target, stop, text))


def _styled(table: GT, names: list[str], view: TableView) -> GT:
    """Quiet columns set back, and air between the columns of one spanner and the next."""
    from great_tables import loc, style

    quiet = [name for name, column in zip(names, view.columns, strict=True) if column.quiet]
    if quiet:
        table = table.tab_style(style.css("color:var(--quiet)"), loc.body(columns=quiet))
    spanners = [column.spanner for column in view.columns]
    first = [
        names[place] for place in range(1, len(names)) if spanners[place] != spanners[place - 1]
    ]
    if first:
        places = [loc.body(columns=first), loc.column_labels(columns=first)]
        table = table.tab_style(style.css("padding-left:1.75rem"), places)
    return table


def _table_element(html: str) -> str:
    """Great Tables wraps its table in a div and a style view, some of whose rules have no
    id in front and would restyle the page."""
    found = re.search(r"<table.*</table>", html, re.DOTALL)
    assert found is not None
    return found.group(0)


def to_markdown(view: TableView) -> str:
    """A GitHub table. Spanners become part of the labels, groups a column of their own."""
    view = shortened(view)
    grouped = any(row.group for row in view.rows)
    heads = [view.corner, *(" ".join(filter(None, (c.spanner, c.label))) for c in view.columns)]
    rules = [":--", *("--:" if column.number else ":--" for column in view.columns)]
    lines = [[row.head, *row.cells] for row in view.rows]
    if grouped:
        heads, rules = ["", *heads], [":--", *rules]
        lines = [[row.group, *line] for row, line in zip(view.rows, lines, strict=True)]
    table = [heads, rules, *lines]
    return "\n".join("| " + " | ".join(map(_escape, line)) + " |" for line in table)


def _escape(text: str) -> str:
    text = text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
    return " ".join(text.replace("*", "\\*").replace("_", "\\_").split())
