"""The HTML ids of configurations and runs, to which the numbers of the page link."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import pandas as pd

from rnnbench.axes import NAMES

NAMED_BY = (
    *("implementation" if name == "rnn" else name for name in NAMES), "variant", "machine",
)  # fmt: skip


def configuration_anchor(cell: Mapping[Any, Any]) -> str:
    """The id of a configuration on one machine: ``cell-digits_rnn-lstm-keras-cpu_1-…``. `cell` has
    the columns `NAMED_BY`."""
    return _id("cell", *(str(cell[name]) for name in NAMED_BY))


def configuration_anchors(table: pd.DataFrame) -> list[str]:
    """`configuration_anchor` of each row."""
    columns = (table[name].tolist() for name in NAMED_BY)
    return [_id("cell", *map(str, cell)) for cell in zip(*columns, strict=True)]


def run_anchor(name: str, machine: str) -> str:
    """The id of a run on one machine."""
    return _id("run", name, machine)


@lru_cache(maxsize=32768)  # every table needs the id of each configuration
def _id(*parts: str) -> str:
    return "-".join(re.sub(r"[^\w.]+", "-", part) for part in parts if part)
