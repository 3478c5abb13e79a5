"""Decides whether a configuration has been measured often enough (``repeats``). No side effects.

The rule depends on the width of an interval, never on whether the interval excludes 1: measuring
until a difference shows always finds one in the end. The width alone is not safe either: the rule
stops early if the runs happen to agree, and then the interval is too narrow. In a simulation
(``tests/planning/test_stopping_rule.py``; spreads of 1 to 3 %, 3 to 10 repeats), the intervals of a
rule that uses each configuration's own spread cover 91 % instead of 95 %. The rule therefore uses
the pooled spread of the device if it is larger (94 to 95 %), and measures the only configuration of
a device at least five times (93 to 95 %).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from rnnbench.grid.repeats import Repeats
from rnnbench.tables.stats import student_quantile

MIN_RUNS_WITHOUT_OTHERS = 5


def stop_reason(
    rule: Repeats,
    repeat: int,
    own: Sequence[float],
    others: Sequence[Sequence[float]],
    spent: float,
    widening: float = 1.0,
) -> str | None:
    """Why repeat number `repeat` (from 0) of a configuration is not needed, or None if it is.

    **Arguments:**

    - `own`: values of the configuration's finished runs, one per run that is not void.
    - `others`: the same for each other configuration on its device.
    - `spent`: seconds that all runs of the experiment have taken so far.
    - `widening`: of the interval of `own`.
    """
    if repeat < rule.least:
        return None
    if rule.budget_s is not None and spent >= rule.budget_s:
        return f"the budget of {rule.budget_s:,.0f} s is used up ({spent:,.0f} s)"
    pooled = any(len(values) > 1 for values in others)
    if rule.until is None or len(own) < (2 if pooled else MIN_RUNS_WITHOUT_OTHERS):
        return None
    half = relative_ci_halfwidth(own, others, widening)
    if half > rule.until:
        return None
    return f"it is known to ± {half:.2%} after {len(own)} runs; required is ± {rule.until:.2%}"


def relative_ci_halfwidth(
    own: Sequence[float], others: Sequence[Sequence[float]], widening: float = 1.0
) -> float:
    """The upper half of the 95 % interval of the geometric mean of `own`, relative to it. Uses
    Student's t on logarithms, as ``tables.stats``, with the larger of the spread of `own` and the
    spread pooled over `own` and `others`, times `widening`. Never smaller than the interval in the
    report."""
    logs = [[math.log(value) for value in values] for values in (own, *others) if len(values) > 1]
    squares = sum(statistics.variance(values) * (len(values) - 1) for values in logs)
    pooled = squares / sum(len(values) - 1 for values in logs)
    spread = math.sqrt(max(pooled, statistics.variance(logs[0])))
    quantile = student_quantile(0.95, len(own) - 1)
    return math.expm1(quantile * spread * widening / math.sqrt(len(own)))
