"""A table cut into its cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

Cells = dict[tuple[Any, ...], "Rows"]
Rows = Mapping[str, "np.ndarray"]  # column → its values


def split(table: pd.DataFrame, by: Sequence[str], columns: Sequence[str]) -> Cells:
    """Values of `by` → that group's rows of `columns`, groups and rows in the order of `table`.

    For tables of many small groups: pandas would build a frame with all columns for each.
    """
    import numpy as np

    if table.empty:
        return {}
    numbers = table.groupby(list(by), sort=False, dropna=False).ngroup().to_numpy()
    order = np.argsort(numbers, kind="stable")
    ends = np.flatnonzero(np.diff(numbers[order])) + 1
    firsts = order[np.concatenate([[0], ends])]
    keys = zip(*(table[name].to_numpy()[firsts].tolist() for name in by), strict=True)
    parts = {name: np.split(table[name].to_numpy()[order], ends) for name in columns}
    return {key: {name: parts[name][place] for name in columns} for place, key in enumerate(keys)}
