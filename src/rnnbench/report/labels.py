"""The labels of groups, devices and implementations on the page."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import pandas as pd

from rnnbench.axes import GROUP
from rnnbench.records.overrides import Overrides
from rnnbench.report.anchors import configuration_anchors
from rnnbench.report.numbers import marked
from rnnbench.report.variant_labels import variant_labels


def joined(parts: Iterable[Any]) -> str:
    """The `parts` that are not empty: ``mnist_rnn · lstm``."""
    return " · ".join(str(part) for part in parts if part)


def short_group(row: Any, varied: Collection[str], variants: Mapping[Overrides, str]) -> str:
    """The group as named in a sentence: the model, and those other axes that are `varied`:
    ``digits_rnn (gru, units=512)``. `variants`: the `variant_labels` of all groups."""
    named = {**row, "variant": variants.get(row["variant"], row["variant"])}
    rest = ", ".join(str(named[name]) for name in GROUP[1:] if named[name] and name in varied)
    return f"{row['model']} ({rest})" if rest else str(row["model"])


def regrouping(
    time_table: pd.DataFrame, reference: Mapping[str, str]
) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Returns a function that moves the axes of the `reference` that vary in `time_table` (for
    example the build) from the groups of a table to its implementations, sorted by speed, so that
    rows that are compared are in one group. For tables with the columns of a configuration; the
    column `anchor` keeps the links to its runs."""
    axes = [axis for axis in reference if axis in GROUP and time_table[axis].nunique() > 1]
    if not axes:
        return lambda table: table
    named = [*(["implementation"] if time_table["implementation"].nunique() > 1 else []), *axes]

    def names(table: pd.DataFrame) -> list[str]:
        return [", ".join(filter(None, row)) for row in zip(*map(table.get, named), strict=True)]

    medians = time_table["epoch_seconds"].groupby(names(time_table)).median()

    def regroup(table: pd.DataFrame) -> pd.DataFrame:
        table = table.assign(
            anchor=configuration_anchors(table),
            implementation=names(table),
            **dict.fromkeys(axes, ""),
        )
        return table.sort_values(
            "implementation", key=lambda column: column.map(medians), kind="stable"
        )

    return regroup


def with_labels(table: pd.DataFrame) -> pd.DataFrame:
    """`table` with the columns `group_name` (``digits_rnn · lstm · current · units=512``; if there
    are several groups, only the axes in which they differ), `column_name` (the device, with its
    machine if the device has several), `shown` (the implementation, with a dagger if a run is
    suspect) and `anchor` (the id of its runs on the page)."""
    table = table.copy()
    machines = (table.groupby("device")["machine"].nunique() > 1).to_dict()
    varied = [name for name in GROUP if table[name].nunique() > 1] or GROUP
    labels = variant_labels(table["variant"])
    named = table.assign(variant=[labels[variant] for variant in table["variant"]])
    groups = zip(*(named[name].tolist() for name in varied), strict=True)
    table["group_name"] = list(map(joined, groups))
    table["column_name"] = [
        (device or "unnamed device") + (f" on {machine}" if machines[device] else "")
        for device, machine in zip(table["device"].tolist(), table["machine"].tolist(), strict=True)
    ]
    if "anchor" not in table:
        table["anchor"] = configuration_anchors(table)
    names = [name or "model" for name in table["implementation"].tolist()]
    suspect = table["suspect"] if "suspect" in table else [False] * len(table)
    table["shown"] = list(map(marked, names, suspect))
    return table
