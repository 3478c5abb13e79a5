"""Fast grouping of table rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

Groups = dict[tuple[Any, ...], "Rows"]
Rows = Mapping[str, "np.ndarray"]  # column → its values


def counts(runs: Rows) -> dict[str, Any]:
    """The columns `implementation`, `runs` and `suspect` (numbers of runs) of a configuration."""
    suspect = runs["suspect"]
    return {
        "implementation": runs["implementation"][0],
        "runs": len(suspect),
        "suspect": int(suspect.sum()),
    }


def split(table: pd.DataFrame, by: Sequence[str], columns: Sequence[str]) -> Groups:
    """Values of `by` → the rows of that group as arrays of `columns`. Groups and rows keep the
    order of `table`.

    Intended for many small groups, for each of which pandas would build a frame of all columns.
    """
    if table.empty:
        return {}
    numbers = table.groupby(list(by), sort=False, dropna=False).ngroup().to_numpy()
    order = np.argsort(numbers, kind="stable")
    ends = np.flatnonzero(np.diff(numbers[order])) + 1
    firsts = order[np.concatenate([[0], ends])]
    keys = zip(*(table[name].to_numpy()[firsts].tolist() for name in by), strict=True)
    parts = {name: np.split(table[name].to_numpy()[order], ends) for name in columns}
    return {key: {name: parts[name][index] for name in columns} for index, key in enumerate(keys)}
