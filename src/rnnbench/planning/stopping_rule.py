"""Decides whether a configuration has been measured often enough (``repeats``). Pure.

The rule looks at the width of an interval, never at whether the interval excludes 1: measuring
until a difference shows always finds one in the end. Width alone is not safe either: it stops
early where the runs happen to agree, and then the interval is too narrow. In a simulation
(``tests/planning/test_stopping_rule.py``; spreads of 1 to 3 %, 3 to 10 repeats), a rule that looks
at one configuration alone covers 91 % instead of 95 %. Each configuration therefore counts with
the pooled spread of its device if that is larger than its own (94 to 95 %), and one that is alone
on its device is measured at least five times (93 to 95 %).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from rnnbench.grid.repeats import Repeats
from rnnbench.tables.stats import student

LEAST_ALONE = 5


def stop_reason(
    rule: Repeats,
    repeat: int,
    own: Sequence[float],
    others: Sequence[Sequence[float]],
    spent: float,
) -> str | None:
    """Why repeat number `repeat` (from 0) of a cell is not needed, or None where it is.

    **Arguments:**

    - `own`: seconds of the cell's runs so far, one value per run that is not void.
    - `others`: the same of each other cell on its device.
    - `spent`: seconds of all the experiment's runs so far.
    """
    if repeat < rule.least:
        return None
    if rule.budget_s is not None and spent >= rule.budget_s:
        return f"the budget of {rule.budget_s:,.0f} s is used up ({spent:,.0f} s)"
    alone = not any(len(values) > 1 for values in others)
    if rule.until is None or len(own) < (LEAST_ALONE if alone else 2):
        return None
    half = relative_ci_halfwidth(own, others)
    if half > rule.until:
        return None
    return f"it is known to ± {half:.2%} after {len(own)} runs, asked was ± {rule.until:.2%}"


def relative_ci_halfwidth(own: Sequence[float], others: Sequence[Sequence[float]]) -> float:
    """The upper half of the 95 % interval of the geometric mean of `own`, relative to it: Student's
    t on logarithms as in ``tables.stats``, with the larger of its own spread and the spread pooled
    over it and `others`. At least what the report shows."""
    logs = [[math.log(value) for value in values] for values in (own, *others) if len(values) > 1]
    squares = sum(statistics.variance(values) * (len(values) - 1) for values in logs)
    pooled = squares / sum(len(values) - 1 for values in logs)
    spread = math.sqrt(max(pooled, statistics.variance(logs[0])))
    return math.expm1(student(0.95, len(own) - 1) * spread / math.sqrt(len(own)))
