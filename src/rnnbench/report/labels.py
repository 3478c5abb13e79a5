"""What groups, devices and implementations are called on the page."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from rnnbench.report.anchors import cell_anchors
from rnnbench.report.numbers import DAGGER
from rnnbench.tables.frame import GROUP

if TYPE_CHECKING:
    import pandas as pd


def short_group(row: Any, varied: Collection[str]) -> str:
    """The group as a sentence names it: the model and what is `varied` of the rest,
    ``digits_rnn (gru, units=512)``."""
    rest = ", ".join(str(row[name]) for name in GROUP[1:] if row[name] and name in varied)
    return f"{row['model']} ({rest})" if rest else str(row["model"])


def side_by_side(
    time_table: pd.DataFrame, reference: Mapping[str, str]
) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Moves the axes of the `reference` that vary in `time_table` (the build, say) from a table's
    groups into its implementations, the fastest first, so that what is compared stands together.
    For tables with the columns of a cell; `anchor` still leads to its own runs."""
    axes = [axis for axis in reference if axis in GROUP and time_table[axis].nunique() > 1]
    if not axes:
        return lambda table: table
    named = [*(["implementation"] if time_table["implementation"].nunique() > 1 else []), *axes]

    def names(table: pd.DataFrame) -> list[str]:
        return [", ".join(filter(None, row)) for row in zip(*map(table.get, named), strict=True)]

    usual = time_table["epoch_seconds"].groupby(names(time_table)).median()

    def moved(table: pd.DataFrame) -> pd.DataFrame:
        table = table.assign(
            anchor=cell_anchors(table), implementation=names(table), **dict.fromkeys(axes, "")
        )
        return table.sort_values(
            "implementation", key=lambda column: column.map(usual), kind="stable"
        )

    return moved


def with_labels(table: pd.DataFrame) -> pd.DataFrame:
    """`table` with the columns `group_name` (``digits_rnn · lstm · current · units=512``; of
    several groups what tells them apart), `column_name` (the device, with its machine where one
    device has several), `shown` (the implementation, with a dagger where a run is suspect) and
    `anchor` (where its runs stand)."""
    table = table.copy()
    machines = (table.groupby("device")["machine"].nunique() > 1).to_dict()
    telling = [name for name in GROUP if table[name].nunique() > 1] or GROUP
    groups = zip(*(table[name].tolist() for name in telling), strict=True)
    table["group_name"] = [" · ".join(str(name) for name in group if name) for group in groups]
    table["column_name"] = [
        f"{device or 'device not named'} on {machine}"
        if machines[device]
        else device or "device not named"
        for device, machine in zip(table["device"].tolist(), table["machine"].tolist(), strict=True)
    ]
    if "anchor" not in table:
        table["anchor"] = cell_anchors(table)
    names = [name or "model" for name in table["implementation"].tolist()]
    suspect = table["suspect"] if "suspect" in table else [False] * len(table)
    table["shown"] = [
        f"{name} {DAGGER}" if doubted else name
        for name, doubted in zip(names, suspect, strict=True)
    ]
    return table
