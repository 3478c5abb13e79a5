"""Named tables → views with implementations as rows and devices as columns."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from rnnbench.report import numbers as n
from rnnbench.report.labels import with_labels
from rnnbench.report.table_view import Column, Row, TableView
from rnnbench.tables.certificates import NOT_LEARNING
from rnnbench.tables.time import COMPARED, IS_REFERENCE, NO_DIFFERENCE
from rnnbench.tables.unequal_ratio import Unequal

LINE = 28  # characters per line of a reason
# A column under each device: its label, the text of a row, whether it is quiet.
Part = tuple[str, Callable[[Any], str], bool]


def time_view(table: pd.DataFrame) -> TableView:
    parts: list[Part] = [
        ("speed-up", speedup_text, False),
        ("95 % CI", speedup_words, True),
        ("s per epoch", lambda r: marked(n.seconds(r["epoch_seconds"]), r), False),
        ("95 % CI", lambda r: n.span(r["epoch_low"], r["epoch_high"], r["epoch_seconds"]), True),
    ]
    return by_device("time", "Speed-up and seconds per epoch", table, parts)


def step_view(table: pd.DataFrame) -> TableView:
    parts: list[Part] = [
        ("ms / step", lambda r: marked(n.plain(r["ms_per_step"]), r), False),
        ("µs / sample", lambda r: n.plain(r["us_per_sample"]), False),
        ("evaluate, s", lambda r: n.plain(r["evaluate_seconds"]), False),
        ("predict, s", lambda r: n.plain(r["predict_seconds"]), False),
        ("runs", lambda r: str(int(r["runs"])), True),
    ]
    return by_device("step", "Time per step and sample; evaluate() and predict()", table, parts)


def accuracy_view(table: pd.DataFrame) -> TableView:
    parts: list[Part] = [
        ("train", lambda r: marked(n.share(r["acc"]), r), False),
        ("SD", _spread("acc_sd"), True),
        ("validation", _validation, False),
        ("SD", _spread("val_acc_sd"), True),
    ]
    return by_device("accuracy", "Accuracy at the last epoch", table, parts)


def learning_view(table: pd.DataFrame) -> TableView:
    parts: list[Part] = [
        ("val acc, last", lambda r: marked(n.small(r["val_acc_difference"]), r), False),
        ("95 % CI", _difference_interval, True),
        ("val acc, largest", lambda r: n.small(r["val_acc_largest"]), False),
        ("loss, largest", lambda r: n.small(r["loss_largest"]), False),
    ]
    return by_device("learning", "Difference from the reference, seed by seed", table, parts)


def by_device(id: str, title: str, table: pd.DataFrame, parts: Sequence[Part]) -> TableView:
    """`parts` under each device, with a dash if an implementation did not run on it."""
    table = with_labels(table)
    devices = list(dict.fromkeys(table["column_name"]))
    groups = list(dict.fromkeys(table["group_name"]))
    lines: dict[tuple[str, str], dict[str, dict[Any, Any]]] = {}
    for row in table.to_dict("records"):
        line = lines.setdefault((row["group_name"], row["implementation"]), {})
        line[row["column_name"]] = row
    rows = []
    for (group, _), line in lines.items():
        texts = [
            fill(line[device]) if device in line else n.NOTHING
            for device in devices
            for _, fill, _ in parts
        ]
        links = [
            line[device]["anchor"] if device in line else "" for device in devices for _ in parts
        ]
        head = next(iter(line.values()))["shown"].removesuffix(f" {n.DAGGER}")
        block = group if len(groups) > 1 else ""
        rows.append(Row(head, tuple(texts), block, tuple(links)))
    columns = tuple(
        Column(label, device, quiet=quiet) for device in devices for label, _, quiet in parts
    )
    rows.sort(key=lambda row: groups.index(row.group) if row.group else 0)
    return TableView(id, title, "implementation", columns, tuple(rows), leads=id == "time")


def marked(text: str, row: Any) -> str:
    return f"{text} {n.DAGGER}" if row["suspect"] else text


def _spread(name: str) -> Callable[[Any], str]:
    return lambda row: "one seed" if row["seeds"] < 2 else n.spread(row[name])


def _validation(row: Any) -> str:
    text = marked(n.share(row["val_acc"]), row)
    return f"{text},\n{NOT_LEARNING}" if row["not_learning"] else text


def speedup_text(row: Any) -> str:
    other = row["unequal"]
    text = n.unequal(other) if isinstance(other, Unequal) else n.ratio(row["speedup"])
    shown = isinstance(other, Unequal) or row["words"] in COMPARED
    return f"{text} {n.DAGGER}" if row["speedup_suspect"] and shown else text


def speedup_words(row: Any) -> str:
    if isinstance(other := row["unequal"], Unequal):
        return ",\n".join((n.unequal_span(other), textwrap.fill(row["difference"], LINE)))
    if not n.is_number(row["speedup_low"]):
        return str(row["words"])
    span = n.ratio_span(row["speedup_low"], row["speedup_high"], row["speedup"])
    return f"{span},\n{NO_DIFFERENCE}" if row["words"] == NO_DIFFERENCE else span


def _difference_interval(row: Any) -> str:
    if row["is_reference"]:
        return IS_REFERENCE
    if not n.is_number(row["val_acc_low"]):
        return "one seed"
    return f"{row['val_acc_low']:.4f} to {row['val_acc_high']:.4f}"
