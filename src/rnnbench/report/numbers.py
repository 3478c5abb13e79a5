"""Numbers as text. All numbers of a report are formatted here."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, TypeGuard

from rnnbench.axes import Row
from rnnbench.records import timestamps
from rnnbench.records.interval import Interval
from rnnbench.tables.ratios import MARK, Unequal
from rnnworker.precision import NOT_FINITE

NOTHING = "–"
DAGGER = "†"
TIMES = "×"
FINEST = 5  # decimals of a bound close to 1; a bound that is closer reads as 1


def is_number(value: Any) -> TypeGuard[float]:
    """Whether `value` is neither missing, text nor infinite."""
    return value is not None and not isinstance(value, str) and math.isfinite(value)


def plain(value: Any, digits: int = 3) -> str:
    """`value` with `digits` significant digits, without exponent; a dash if it is not a number."""
    if not is_number(value):
        return NOTHING
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{decimals}f}"


def rough(value: Any) -> str:
    """`value` with two significant digits."""
    return plain(value, 2)


def precise(value: Any) -> str:
    """`value` with four significant digits."""
    return plain(value, 4)


def whole(value: Any) -> str:
    """`value` without decimals."""
    return str(int(value)) if is_number(value) else NOTHING


def about(value: float) -> str:
    """`value` with two significant digits at most, without exponent: ``0.45``, ``2``, ``100``."""
    return f"{float(f'{value:.2g}'):,.10g}"


def small(value: Any) -> str:
    """A small difference: ``0``, ``2e-06``, ``0.003``; 0 below the rounding errors of float64
    sums."""
    if not is_number(value):
        return NOTHING
    if value >= NOT_FINITE:
        return "not finite"
    if abs(value) < 1e-12:
        return "0"
    return f"{value:.1g}"


def span(low: Any, high: Any, like: Any) -> str:
    """An interval, ``0.505–0.519``, with the decimals that `like` gets in `plain`."""
    if not (is_number(low) and is_number(high)):
        return NOTHING
    decimals = len(plain(like).partition(".")[2])
    return f"{low:.{decimals}f}–{high:.{decimals}f}"


def ratio(value: Any) -> str:
    """``1.21×``, ``0.072×``, ``12.5×``."""
    if not is_number(value):
        return NOTHING
    if value >= 10:
        return f"{value:.1f}{TIMES}"
    if value >= 0.1:
        return f"{value:.2f}{TIMES}"
    return f"{value:.3f}{TIMES}"


def times(value: Any) -> str:
    """A ratio in a sentence: ``1.21 times``."""
    return ratio(value).replace(TIMES, " times")


def ratio_span(
    low: Any,
    high: Any,
    like: Any,
    between: str = "–",
) -> str:
    """The interval of a ratio.

    It has the decimals of `ratio(like)`, or more if they are needed to show on which side of 1 a
    bound is: ``0.998–2.013``, not ``1.00–2.01``.
    """
    if not (is_number(low) and is_number(high)):
        return NOTHING
    decimals = len(ratio(like).rstrip(TIMES).partition(".")[2])
    for bound in (low, high):
        while decimals < FINEST and bound != 1 and float(f"{bound:.{decimals}f}") == 1:
            decimals += 1
    return f"{low:.{decimals}f}{between}{high:.{decimals}f}"


def ratio_interval(value: Interval, between: str = "–") -> str:
    """The interval of a ratio, written as `ratio_span` does."""
    return ratio_span(
        value.low,
        value.high,
        value.estimate,
        between,
    )


def unequal(value: Unequal) -> str:
    """``≠ 1.21×``: the ratio of the times of two different functions, always with its mark."""
    return f"{MARK} {ratio(value.estimate)}"


def pair(row: Row) -> str:
    """The ratio of a pair with its interval: ``1.21× (1.19–1.23)``.

    `row`: of the table of `versus`. The text is empty if the pair has no ratio.
    """
    if row["unequal"]:
        text = unequal(row["unequal"])
        span = ratio_interval(row["unequal"])
    elif is_number(row["ratio"]):
        text = ratio(row["ratio"])
        span = ratio_span(row["low"], row["high"], row["ratio"])
    else:
        return ""
    return f"{marked(text, row['suspect'])} ({span})"


def share(value: Any) -> str:
    """An accuracy, three decimals."""
    return f"{value:.3f}" if is_number(value) else NOTHING


def shares_apart(value: Any) -> str:
    """The difference of two accuracies, three decimals; one that they would hide as `small`."""
    if is_number(value) and abs(value) < 5e-4:
        return small(value)
    return share(value)


def shares_apart_span(low: Any, high: Any) -> str:
    """The interval of such a difference: ``-0.541 to -0.322``."""
    return f"{shares_apart(low)} to {shares_apart(high)}"


def percent(value: Any) -> str:
    """A share as ``0.42 %``, ``8.5 %``, ``63 %``."""
    if not is_number(value):
        return NOTHING
    if value >= 0.1:
        return f"{100 * value:.0f} %"
    return f"{rough(100 * value)} %"


def percent_span(low: Any, high: Any) -> str:
    """The interval of a share: ``0.42–8.5 %``, ``63–over 100 %``."""
    if not (is_number(low) and is_number(high)):
        return NOTHING
    first = percent(low).removesuffix(" %")
    if high > 1:
        return f"{first}–over 100 %"
    return f"{first}–{percent(high)}"


def mebibytes(value: Any) -> str:
    """Bytes in MiB, without decimals."""
    return f"{value / 2**20:.0f}" if is_number(value) else NOTHING


def moment(started: str) -> str:
    """``20261121T075000_123456Z`` as ``2026-11-21 07:50:00``."""
    return f"{timestamps.read(started):%Y-%m-%d %H:%M:%S}"


def marked(text: str, suspect: bool) -> str:
    """`text`, with a dagger if it uses suspect runs and is a value."""
    if suspect and text != NOTHING:
        return f"{text} {DAGGER}"
    return text


def daggered(name: str, suspect: bool) -> str:
    """`name` as code, with a dagger if any of its runs is suspect."""
    return marked(f"`{name}`", suspect)


def capitalized(text: str) -> str:
    """`text` with its first letter in upper case, the others as they are."""
    return text[:1].upper() + text[1:]


def few(texts: Iterable[str], most: int, separator: str = "; ") -> str:
    """The first `most` of the different `texts`, and the number of the others:
    ``gru; lstm and 3 more``."""
    different = list(dict.fromkeys(texts))
    listed = separator.join(different[:most])
    if len(different) > most:
        listed += f" and {len(different) - most} more"
    return listed


def sentences(clauses: Iterable[str]) -> str:
    """The `clauses` as sentences, each with a capital letter and a full stop."""
    return " ".join(f"{capitalized(clause)}." for clause in clauses)


def counted(number: int, one: str) -> str:
    """``1 run``, ``24 runs``.

    `one`: the noun in the singular, with a regular plural.
    """
    if number == 1:
        return f"1 {one}"
    return f"{number} {one}s"
