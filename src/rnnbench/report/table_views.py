"""Named tables → views with implementations as rows and devices as columns."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from rnnbench.report import numbers as n
from rnnbench.report.labels import with_labels
from rnnbench.report.table_view import Column, Row, TableView, sorted_by_group, text_of
from rnnbench.sources.certificates import NOT_LEARNING
from rnnbench.tables.accuracy import MIN_SEEDS, TOO_FEW_SEEDS
from rnnbench.tables.time import COMPARED, IS_REFERENCE, NO_DIFFERENCE, Unequal

LINE = 28  # characters per line of a reason


def time_view(table: pd.DataFrame) -> TableView:
    columns = (
        Column("speed-up", speedup_text),
        Column("95 % CI", speedup_words, quiet=True),
        Column("s per epoch", lambda r: marked(n.seconds(r["epoch_seconds"]), r)),
        Column("95 % CI", epoch_span, quiet=True),
    )
    return replace(by_device("time", "Speed-up and seconds per epoch", table, columns), leads=True)


def step_view(table: pd.DataFrame) -> TableView:
    columns = (
        Column("ms / step", lambda r: marked(n.plain(r["ms_per_step"]), r)),
        Column("µs / sample", lambda r: n.plain(r["us_per_sample"])),
        Column("evaluate, s", lambda r: n.plain(r["evaluate_seconds"])),
        Column("predict, s", lambda r: n.plain(r["predict_seconds"])),
        Column("runs", lambda r: str(int(r["runs"])), quiet=True),
    )
    return by_device("step", "Time per step and sample; evaluate() and predict()", table, columns)


def accuracy_view(table: pd.DataFrame) -> TableView:
    columns = (
        Column("train", lambda r: marked(n.share(r["acc"]), r)),
        Column("SD", lambda r: _spread(r, "acc_sd"), quiet=True),
        Column("validation", _validation),
        Column("SD", lambda r: _spread(r, "val_acc_sd"), quiet=True),
    )
    return by_device("accuracy", "Accuracy at the last epoch", table, columns)


def learning_view(table: pd.DataFrame) -> TableView:
    columns = (
        Column("val acc, last", lambda r: marked(n.small(r["val_acc_difference"]), r)),
        Column("95 % CI", _difference_interval, quiet=True),
        Column("val acc, largest", lambda r: n.small(r["val_acc_largest"])),
        Column("loss, largest", lambda r: n.small(r["loss_largest"])),
    )
    title = "Difference from the reference, seed by seed"
    note = "The 95 % hold for all comparisons of a group at once, on all devices together."
    has_interval = table["val_acc_low"].notna().any()
    return by_device("learning", title, table, columns, (note,) if has_interval else ())


def by_device(
    id: str,
    title: str,
    table: pd.DataFrame,
    columns: Sequence[Column],
    notes: tuple[str, ...] = (),
) -> TableView:
    """One row per group and implementation, with the `columns` under each device; a dash if it did
    not run there."""
    table = with_labels(table)
    devices = list(dict.fromkeys(table["column_name"]))
    several = table["group_name"].nunique() > 1
    rows = []
    for (group, name), line in table.groupby(["group_name", "implementation"], sort=False):
        by_name = {row["column_name"]: row for row in line.to_dict("records")}
        cells = [(by_name.get(device), column) for device in devices for column in columns]
        texts = tuple(text_of(column.text, row) if row else n.NOTHING for row, column in cells)
        links = tuple(row["anchor"] if row else "" for row, _ in cells)
        rows.append(Row(str(name) or "model", texts, str(group) if several else "", links))
    under = tuple(replace(column, spanner=device) for device in devices for column in columns)
    return TableView(id, title, "implementation", under, sorted_by_group(rows), notes)


def span_of(name: str, text: Callable[[Any, Any, Any], str] = n.span) -> Callable[[Any], str]:
    """The text of the interval of the column `name`."""
    return lambda row: text(row[f"{name}_low"], row[f"{name}_high"], row[name])


speedup_span = span_of("speedup", n.ratio_span)


def epoch_span(row: Any) -> str:
    return n.span(row["epoch_low"], row["epoch_high"], row["epoch_seconds"])


def marked(text: str, row: Any) -> str:
    return n.marked(text, row["suspect"])


def _spread(row: Any, name: str) -> str:
    return "one seed" if row["seeds"] < 2 else n.spread(row[name])


def _validation(row: Any) -> str:
    text = marked(n.share(row["val_acc"]), row)
    return f"{text},\n{NOT_LEARNING}" if row["not_learning"] else text


def speedup_text(row: Any) -> str:
    other = row["unequal"]
    text = n.unequal(other) if isinstance(other, Unequal) else n.ratio(row["speedup"])
    shown = isinstance(other, Unequal) or row["words"] in COMPARED
    return n.marked(text, row["speedup_suspect"] and shown)


def speedup_words(row: Any) -> str:
    if isinstance(other := row["unequal"], Unequal):
        return ",\n".join((n.unequal_span(other), textwrap.fill(row["difference"], LINE)))
    if not n.is_number(row["speedup_low"]):
        return str(row["words"])
    span = speedup_span(row)
    return f"{span},\n{NO_DIFFERENCE}" if row["words"] == NO_DIFFERENCE else span


def _difference_interval(row: Any) -> str:
    if row["is_reference"]:
        return IS_REFERENCE
    if not n.is_number(row["val_acc_low"]):
        return TOO_FEW_SEEDS if row["seeds"] < MIN_SEEDS else n.NOTHING
    return f"{row['val_acc_low']:.4f} to {row['val_acc_high']:.4f}"
