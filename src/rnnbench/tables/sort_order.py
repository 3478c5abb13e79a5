"""One order for every table and figure: fastest implementation first, devices by number."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rnnbench.tables.usable_runs import run_values

if TYPE_CHECKING:
    import pandas as pd


def ranked(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the tidy frame by device, machine and implementation, so that tables made
    from it list them so; rows of one run keep their order.

    Devices stand in natural order (``cpu_2`` before ``cpu_16``), implementations by their
    median epoch time relative to others of the same device; ones without a time come last.
    """
    values = run_values(frame)
    usual = values.groupby(["model", "variant", "device", "machine"])["seconds"].transform("median")
    relative = (values["seconds"] / usual).groupby(values["implementation"]).median().to_dict()
    place = {name: _natural(name) for name in frame["device"].unique()}

    def key(column: pd.Series) -> pd.Series:
        if column.name == "device":
            return column.map(place)
        if column.name == "implementation":
            return column.map(lambda name: relative.get(name, float("inf")))
        return column

    by = ["device", "machine", "implementation"]
    return frame.sort_values(by, key=key, kind="stable", ignore_index=True)


def _natural(text: str) -> tuple[Any, ...]:
    return tuple((int(part), "") if part.isdigit() else (-1, part)
                 for part in re.split(r"(\d+)", text))  # fmt: skip
