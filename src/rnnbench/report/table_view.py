"""Tables for display: text cells, rendered as HTML (Great Tables) or Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
from great_tables import GT, loc, style
from markupsafe import Markup, escape

from rnnbench.report.numbers import NOTHING

ROWS = 80  # shown of a table
NARROW_ROWS = 24  # a table with more rows is not split by device for phones


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


def sorted_by_group(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows sorted by group, groups in the order of their first rows."""
    groups = list(dict.fromkeys(row.group for row in rows))
    return tuple(sorted(rows, key=lambda row: groups.index(row.group)))


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
    """One row per row of `table`, with the heading `head`; the groups are in the order of their
    first rows. Cells link to the id in the column `anchor`, headings to that in `head_anchor`, if
    `table` has them."""
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
    return TableView(id, title, corner, tuple(columns), sorted_by_group(rows), notes)


def text_of(text: Text, row: Mapping[Any, Any]) -> str:
    return text(row) if callable(text) else str(row[text])


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

    rows = [row for row in map(narrow, view.rows) if any(cell != NOTHING for cell in row.cells)]
    return replace(
        view,
        id=f"{view.id}-{number}",
        title=f"{view.title}: {spanner}",
        columns=tuple(view.columns[index] for index in chosen),
        rows=tuple(rows),
    )


def to_html(view: TableView) -> Markup:
    """The table element without styles: those of the page apply."""
    # Great Tables writes cell by cell, which is slow with Arrow strings.
    with pd.option_context("mode.string_storage", "python"):
        return _to_html(shortened(view))


def _to_html(view: TableView) -> Markup:
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
        .fmt(str, columns=["head", *names])  # already escaped: see `_linked`
    )
    numbers = [n for n, column in zip(names, view.columns, strict=True) if column.number]
    if numbers:
        table = table.cols_align("right", columns=numbers)
    for number, spanner in enumerate(dict.fromkeys(column.spanner for column in view.columns)):
        under = [n for n, c in zip(names, view.columns, strict=True) if c.spanner == spanner]
        if spanner:
            table = table.tab_spanner(spanner, columns=under, id=f"spanner{number}")
    return Markup(_table_element(_styled(table, names, view).as_raw_html()))


def _linked(row: Row) -> list[str]:
    """The cells as HTML. Of several links to one target, only the first is in the tab order."""
    return [
        _link(text, target, repeated=target in row.links[:index])
        for index, (text, target) in enumerate(zip(row.cells, row.links, strict=True))
    ]


def _link(text: str, target: str, repeated: bool = False) -> str:
    if not target or text == NOTHING:
        return str(escape(text))
    attribute = Markup(' tabindex="-1"') if repeated else ""
    return str(Markup('<a href="#{}"{}>{}</a>').format(target, attribute, text))


def _styled(table: GT, names: list[str], view: TableView) -> GT:
    """`table` with quiet columns in a lighter colour, and space between spanners."""
    quiet = [name for name, column in zip(names, view.columns, strict=True) if column.quiet]
    if quiet:
        table = table.tab_style(style.css("color:var(--quiet)"), loc.body(columns=quiet))
    spanners = [column.spanner for column in view.columns]
    first = [
        names[index] for index in range(1, len(names)) if spanners[index] != spanners[index - 1]
    ]
    if first:
        locations = [loc.body(columns=first), loc.column_labels(columns=first)]
        table = table.tab_style(style.css("padding-left:1.75rem"), locations)
    return table


def _table_element(html: str) -> str:
    """The table element only: some style rules that Great Tables adds would apply to the page."""
    match = re.search(r"<table.*</table>", html, re.DOTALL)
    assert match is not None
    return match.group(0)


def to_markdown(view: TableView) -> str:
    """A GitHub table. Spanners become part of the labels, groups a separate column."""
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
    text = text.replace("*", "\\*").replace("_", "\\_").replace("]", "\\]")
    return " ".join(text.split())
