"""Tables of text: made from tables of numbers, narrowed for phones, and written as Markdown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from rnnbench.report import numbers as n
from rnnbench.report.labels import joined, with_labels
from rnnbench.report.numbers import Row

CellText = Callable[[Any], str]  # the text of a value, or of a row

ROWS = 80  # shown of a table
NARROW_ROWS = 24  # a table with more rows is not split by device for phones
PHONE = 54  # characters of a table beside each other


@dataclass(frozen=True)
class Column:
    """A column of a table of text, and how its cells follow from the rows of a table of numbers.

    - `label`: its heading.
    - `name`, `text`: the text of a cell is `text` of the value in the column `name`, or of the
      whole row if there is no `name`.
    - `spanner`: the heading above several columns (``""`` for none).
    - `number`: whether it has numbers, which are aligned to the right.
    - `marked`: with a dagger if the row includes suspect runs.
    - `quiet`: in a lighter colour, because it belongs to the column before it.
    - `linked`: whether the text links to the runs behind it (None: if it is a number).
    """

    label: str
    name: str = ""
    text: CellText = str
    spanner: str = ""
    number: bool = True
    marked: bool = False
    quiet: bool = False
    linked: bool | None = None

    @property
    def heading(self) -> str:
        return f"{self.spanner} {self.label}".strip()

    def cell(self, row: Row) -> str:
        text = self.text(row[self.name] if self.name else row)
        if self.marked:
            return n.marked(text, row["suspect"])
        return text

    def link(self, row: Row) -> str:
        is_linked = self.number if self.linked is None else self.linked
        if is_linked:
            anchor: str = row.get("anchor", "")
            return anchor
        return ""


@dataclass(frozen=True)
class TextRow:
    """A row of a table of text.

    - `head`: its heading. `cells`: the texts below the columns.
    - `group`: the heading of its block of rows (``""`` for none).
    - `links`: the id on the page of the runs behind each cell (``""`` for none); `link`: the id
      behind the heading.
    """

    head: str
    cells: tuple[str, ...]
    group: str
    links: tuple[str, ...]
    link: str = ""


@dataclass(frozen=True)
class TableView:
    """A table of text.

    - `id`: unique on the page. `title`: heading of the table.
    - `corner`: label of the column of row headings.
    - `rows`: rows of the same group follow each other.
    - `notes`: sentences below the table.
    """

    id: str
    title: str
    corner: str
    columns: tuple[Column, ...]
    rows: tuple[TextRow, ...]
    notes: tuple[str, ...] = ()

    @property
    def spanners(self) -> list[tuple[str, list[int]]]:
        """Each heading above columns, and the numbers of its columns."""
        found: list[tuple[str, list[int]]] = []
        for number, column in enumerate(self.columns):
            if not found or found[-1][0] != column.spanner:
                found.append((column.spanner, []))
            found[-1][1].append(number)
        return found

    @property
    def stacks(self) -> bool:
        """Whether the longest words of all columns do not fit beside each other on a phone, where
        each row is then a block with one line per column."""
        width = len(self.columns) + 1
        labels = [self.corner, *(column.label for column in self.columns)]
        texts = zip(labels, *((row.head, *row.cells) for row in self.rows), strict=True)
        for of_column in texts:
            words = " ".join(of_column).split()
            width += max(map(len, words))
        return width > PHONE

    @property
    def groups(self) -> dict[str, list[TextRow]]:
        """Each block of rows by its heading."""
        found: dict[str, list[TextRow]] = {}
        for row in self.rows:
            found.setdefault(row.group, []).append(row)
        return found


def view_of(
    table: pd.DataFrame,
    id: str,
    title: str,
    corner: str,
    head: str,
    columns: Sequence[Column],
    group: Sequence[str] = (),
    notes: tuple[str, ...] = (),
) -> TableView:
    """One row of text per row of `table`.

    - `head`: the column with the heading of a row; `head_anchor`, if `table` has it, is the id to
      which the heading links.
    - `group`: the columns with the heading of its block.
    - `columns`: their cells link to the id in the column `anchor`, if `table` has it.

    `id`, `title`, `corner` and `notes` are those of the view.
    """
    rows = []
    for row in table.to_dict("records"):
        rows.append(
            TextRow(
                head=str(row[head]),
                cells=tuple(column.cell(row) for column in columns),
                group=joined(row[name] for name in group),
                links=tuple(column.link(row) for column in columns),
                link=row.get("head_anchor", ""),
            )
        )
    return TableView(
        id,
        title,
        corner,
        tuple(columns),
        _by_group(rows),
        notes,
    )


def by_device(
    id: str,
    title: str,
    table: pd.DataFrame,
    columns: Sequence[Column],
    notes: tuple[str, ...] = (),
) -> TableView:
    """One row per group and implementation, with the `columns` under each device; a dash if it did
    not run there.

    - `table`: has the columns of a configuration.
    - `columns`: their cells link to the runs of the configuration.

    `id`, `title` and `notes` are those of the view.
    """
    labelled = with_labels(table)
    under = []
    for device in labelled["column_name"].unique():
        under += [replace(column, spanner=device) for column in columns]

    rows = []
    for (block, name), own in labelled.groupby(["block", "series"], sort=False):
        on_device = {row["column_name"]: row for row in own.to_dict("records")}
        cells = []
        links = []
        for column in under:
            row = on_device.get(column.spanner)
            if row:
                cells.append(column.cell(row))
                links.append(row["anchor"])
            else:
                cells.append(n.NOTHING)
                links.append("")
        rows.append(
            TextRow(
                str(name),
                tuple(cells),
                str(block),
                tuple(links),
            )
        )
    return TableView(
        id,
        title,
        "implementation",
        tuple(under),
        _by_group(rows),
        notes,
    )


def _by_group(rows: Sequence[TextRow]) -> tuple[TextRow, ...]:
    """The rows sorted by group, groups in the order of their first rows."""
    groups = list(dict.fromkeys(row.group for row in rows))
    return tuple(sorted(rows, key=lambda row: groups.index(row.group)))


def interval_of(
    name: str,
    text: Callable[[Any, Any, Any], str] = n.span,
    low: str = "",
    high: str = "",
) -> CellText:
    """How the interval of the column `name` is written.

    - `text`: the text of both bounds and the value.
    - `low`, `high`: the columns of the bounds, by default ``NAME_low`` and ``NAME_high``.
    """
    low = low or f"{name}_low"
    high = high or f"{name}_high"
    return lambda row: text(row[low], row[high], row[name])


epoch_interval = interval_of("epoch_seconds", low="epoch_low", high="epoch_high")


def shortened(view: TableView) -> TableView:
    """`view` with its first `ROWS` rows, and a note if there are more."""
    if len(view.rows) <= ROWS:
        return view
    note = f"The first {ROWS} of {len(view.rows):,} rows; all are in the CSV tables."
    return replace(view, rows=view.rows[:ROWS], notes=(*view.notes, note))


def by_spanner(view: TableView) -> list[TableView]:
    """One view for the columns of each spanner of `view`, for narrow screens.

    Empty if there are fewer than two spanners, columns without one, or more than `NARROW_ROWS`
    rows.
    """
    places = defaultdict(list)
    for place, column in enumerate(view.columns):
        places[column.spanner].append(place)
    if len(places) < 2 or "" in places or len(view.rows) > NARROW_ROWS:
        return []

    views = []
    for number, (spanner, chosen) in enumerate(places.items()):
        rows = []
        for row in view.rows:
            cells = tuple(row.cells[place] for place in chosen)
            links = tuple(row.links[place] for place in chosen)
            if set(cells) != {n.NOTHING}:
                rows.append(replace(row, cells=cells, links=links))
        views.append(
            replace(
                view,
                id=f"{view.id}-{number}",
                title=f"{view.title}: {spanner}",
                columns=tuple(view.columns[place] for place in chosen),
                rows=tuple(rows),
            )
        )
    return views


def to_markdown(view: TableView) -> str:
    """A GitHub table. Spanners become part of the labels, groups a separate column."""
    view = shortened(view)
    heads = [view.corner]
    rules = [":--"]
    for column in view.columns:
        heads.append(column.heading)
        rules.append("--:" if column.number else ":--")
    table = [heads, rules]
    for row in view.rows:
        table.append([row.head, *row.cells])
    if any(row.group for row in view.rows):
        groups = ["", ":--", *(row.group for row in view.rows)]
        for group, line in zip(groups, table, strict=True):
            line.insert(0, group)

    lines = []
    for cells in table:
        escaped = []
        for text in cells:
            text = text.replace("\\", "\\\\").replace("<", "&lt;")
            for character in "|*_]":
                text = text.replace(character, f"\\{character}")
            escaped.append(" ".join(text.split()))
        lines.append(f"| {' | '.join(escaped)} |")
    return "\n".join(lines)
