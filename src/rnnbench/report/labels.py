"""What groups, devices and implementations are called on the page."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from rnnbench.report.anchors import cell_anchor
from rnnbench.report.numbers import DAGGER
from rnnbench.tables.frame import GROUP

if TYPE_CHECKING:
    import pandas as pd


def short_group(row: Any, varied: Collection[str]) -> str:
    """The group as a sentence names it: the model and what is `varied` of the rest,
    ``digits_rnn (gru, units=512)``."""
    rest = ", ".join(str(row[name]) for name in GROUP[1:] if row[name] and name in varied)
    return f"{row['model']} ({rest})" if rest else str(row["model"])


def with_labels(table: pd.DataFrame) -> pd.DataFrame:
    """`table` with the columns `group_name` (``digits_rnn · lstm · current · units=512``),
    `column_name` (the device, with its machine where one device has several), `shown` (the
    implementation, with a dagger where a run is suspect) and `anchor` (where its runs stand)."""
    table = table.copy()
    several = (table.groupby("device")["machine"].nunique() > 1).to_dict()
    groups = zip(*(table[name] for name in GROUP), strict=True)
    table["group_name"] = [" · ".join(str(name) for name in group if name) for group in groups]
    table["column_name"] = [
        f"{device or 'device not named'} on {machine}"
        if several[device]
        else device or "device not named"
        for device, machine in zip(table["device"], table["machine"], strict=True)
    ]
    table["anchor"] = [cell_anchor(row) for row in table.to_dict("records")]
    names = [name or "model" for name in table["implementation"]]
    suspect = table["suspect"] if "suspect" in table else [False] * len(table)
    table["shown"] = [
        f"{name} {DAGGER}" if doubted else name
        for name, doubted in zip(names, suspect, strict=True)
    ]
    return table
