"""The ratio of the times of two configurations that do not compute the same function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from rnnbench.tables.certificates import ANOTHER_FUNCTION
from rnnbench.tables.reference import key_of
from rnnbench.tables.stats import Interval, Ratio

if TYPE_CHECKING:
    import pandas as pd

MARK = "≠"
Value = TypeVar("Value")


@dataclass(frozen=True)
class Unequal(Interval):
    """A ratio of seconds with its 95 % interval. It is not a speed-up, so its text always carries
    the mark ≠."""

    def __str__(self) -> str:
        """``≠1.2134 (1.1902–1.2371)``."""
        if self.low is None or self.high is None:
            return f"{MARK}{self.estimate:.4f}"
        return f"{MARK}{self.estimate:.4f} ({self.low:.4f}–{self.high:.4f})"


def unequal(ratio: Ratio) -> Unequal:
    return Unequal(ratio.estimate, ratio.low, ratio.high)


def difference(equal_why: str) -> str:
    """How the functions differ, from the reason given by `Certificates.judge`."""
    return equal_why.removeprefix(ANOTHER_FUNCTION)


def unequal_runs(frame: pd.DataFrame, time_table: pd.DataFrame, reference: str) -> dict[str, str]:
    """Record key → ``≠1.2134 (1.1902–1.2371) against keras: activation relu instead of tanh``, for
    each run of the tidy `frame` whose configuration has such a ratio in `time_table`. `reference`
    is the reference as text."""
    texts = {
        key_of(row): f"{row['unequal']} against {reference}: {row['difference']}"
        for row in time_table.to_dict("records")
        if isinstance(row["unequal"], Unequal)
    }
    return _by_run(frame, texts)


def run_speedups(frame: pd.DataFrame, time_table: pd.DataFrame) -> dict[str, float]:
    """Record key → speed-up of its configuration in `time_table`, for each run of the tidy `frame`
    that has one."""
    table = time_table[time_table["speedup"].notna()]
    return _by_run(frame, {key_of(row): row["speedup"] for row in table.to_dict("records")})


def _by_run(frame: pd.DataFrame, by_key: Mapping[Any, Value]) -> dict[str, Value]:
    if not by_key:
        return {}
    runs = frame[(frame["phase"] == "run") & (frame["verdict"] != "void")]
    values = ((row["record"], by_key.get(key_of(row))) for row in runs.to_dict("records"))
    return {record: value for record, value in values if value is not None}
