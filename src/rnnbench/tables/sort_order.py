"""The common order of tables and figures: devices and groups in natural order, the fastest
implementation of a group first."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

from rnnbench.axes import GROUP
from rnnbench.tables.usable_runs import run_values

CELLS = ("lstm", "gru", "gru_reset_before", "rnn_tanh", "rnn_relu")


def ranked(frame: pd.DataFrame) -> pd.DataFrame:
    """The tidy frame sorted by device, machine, group and implementation; tables made from it keep
    this order, and the rows of a run keep theirs.

    Text is in natural order (``cpu_2`` before ``cpu_16``), except for RNN cells, which begin with
    the LSTM. Implementations are ordered by their median epoch time relative to the others on the
    same device; those without a time come last.
    """
    values = run_values(frame)
    typical = values.groupby(["model", "variant", "device", "machine"])["seconds"].transform(
        "median"
    )
    relative = (values["seconds"] / typical).groupby(values["implementation"]).median().to_dict()

    def key(column: pd.Series) -> pd.Series:
        if column.name == "implementation":
            return column.map(lambda name: relative.get(name, float("inf")))
        if column.name == "cell":
            return column.map(lambda name: CELLS.index(name) if name in CELLS else len(CELLS))
        return column.map({name: _natural(str(name)) for name in column.unique()})

    by = ["device", "machine", *GROUP, "implementation"]
    return frame.sort_values(by, key=key, kind="stable", ignore_index=True)


def _natural(text: str) -> tuple[Any, ...]:
    return tuple((int(part), "") if part.isdigit() else (-1, part)
                 for part in re.split(r"(\d+)", text))  # fmt: skip
