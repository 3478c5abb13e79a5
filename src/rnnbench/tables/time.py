"""Time per epoch and speed-up of each configuration, with intervals."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from rnnbench.axes import CONFIGURATION, KEY
from rnnbench.tables.certificates import NOT_LEARNING, UNEQUAL, Certificates
from rnnbench.tables.grouping import Rows, counts, split
from rnnbench.tables.pooling import Spread, pooled, pooled_spreads, shared_spread
from rnnbench.tables.reference import keys_of, references
from rnnbench.tables.stats import (
    ONE_RUN,
    Ratio,
    block_differences,
    mean_interval,
    ratio_interval,
    sidak_confidence,
)
from rnnbench.tables.unequal_ratio import Unequal, difference, unequal
from rnnbench.tables.usable_runs import run_values

NO_DIFFERENCE = "no difference shown"
IS_REFERENCE = "reference"
IN_TURNS = "in turns"
NO_REFERENCE = "no reference run"
NOT_EQUAL = "not the same function"
WRONG_REFERENCE = f"the reference {NOT_LEARNING}"

FASTER, SLOWER = "faster", "slower"
CONFIDENCE = 0.95
COMPARED = (FASTER, SLOWER, NO_DIFFERENCE, ONE_RUN)

# The columns of `run_values` that a ratio needs.
RATIO_COLUMNS = ["seconds", "pairing", "suspect", "effect", "companion"]


def time(
    frame: pd.DataFrame,
    reference: Mapping[str, str],
    certificates: Certificates = Certificates(),  # noqa: B008 (frozen)
) -> pd.DataFrame:
    """One row per configuration and machine, from runs that are not void.

    `reference` (axis → choice) names the reference of the speed-ups (see `references`).

    Columns:

    - the configuration: `model`, `cell` (RNN cell), `build`, `dataset`, `variant`, `rnn`,
      `options`, `alias`, `implementation`, `device`, `machine`.
    - `runs`, `suspect`: numbers of runs.
    - `epoch_seconds`: geometric mean over the median epochs of the runs, with the 95 % interval
      `epoch_low`, `epoch_high`; `ms_per_step`, `us_per_sample`; `samples` per epoch.
    - `evaluate_seconds`, `predict_seconds`: seconds per call (median later call, geometric mean
      over runs).
    - `speedup` = seconds of the reference / own seconds on the same machine, with the 95 % interval
      `speedup_low`, `speedup_high` and its `method`; `shown_different` (bool: the interval excludes
      1); `words`: the result as text; `speedup_suspect` (bool: own or reference runs are suspect).
    - `equal`: whether it computes the function of the reference (``certified``, ``not certified``,
      ``not equal``, ``""``), and `equal_why`: the reason.
    - `unequal`: the ratio of the times (`Unequal`, marked with ≠) if the certificate shows that the
      functions differ, which excludes a speed-up (else ``""``); `difference`: how they differ.
    - `not_learning`: why the training steps apply a gradient other than the computed one (``""`` if
      no certificate shows this). If this holds for the configuration or its reference, it has
      neither `speedup` nor `unequal`.

    Source: the epochs of the records.
    """
    values = run_values(frame, companions=True)
    spreads = pooled_spreads(values, KEY)
    groups = split(values, KEY, [*RATIO_COLUMNS, "implementation", *MEAN_COLUMNS])
    # Keys of the whole frame: a void reference is not replaced by another configuration.
    against = references(keys_of(frame), reference)
    rows = []
    for key, runs in groups.items():
        own, base = (dict(zip(KEY, choices, strict=True)) for choices in (key, against[key]))
        base_runs = groups.get(against[key])
        is_reference = against[key] == key
        equal = ("", "")
        if base_runs is not None and not is_reference:
            equal = certificates.judge(own, base)
        wrong = wrong_steps(certificates, own, base if base_runs is not None else own)
        spread = shared_spread(spreads, own, base)
        rows.append({**own, **_row(runs, base_runs, is_reference, equal, wrong, spread),
                     "equal": equal[0], "equal_why": equal[1],
                     "not_learning": certificates.why_not_learning(own) or ""})  # fmt: skip
    return pd.DataFrame(rows, columns=TIME_COLUMNS)


MEAN_COLUMNS = ["steps", "samples", "evaluate", "predict"]
TIME_COLUMNS = [
    *CONFIGURATION, "runs", "suspect", "epoch_seconds", "epoch_low", "epoch_high", "ms_per_step",
    "us_per_sample", "samples", "evaluate_seconds", "predict_seconds", "speedup", "speedup_low",
    "speedup_high", "method", "shown_different", "words", "speedup_suspect",
    "equal", "equal_why", "unequal", "difference", "not_learning",
]  # fmt: skip


def wrong_steps(
    certificates: Certificates, configuration: Mapping[str, Any], base: Mapping[str, Any]
) -> str:
    """Which of the two applies wrong gradients, as text, so that they have no ratio; ``""`` if
    neither does."""
    if certificates.why_not_learning(configuration):
        return NOT_LEARNING
    return WRONG_REFERENCE if certificates.why_not_learning(base) else ""


def compare(runs: Rows, base: Rows, spread: Spread | None = None, comparisons: int = 1) -> Ratio:
    """The speed-up of `runs` over `base` (arrays of `RATIO_COLUMNS`): seconds of the base / own
    seconds.

    It is computed from the effects in common rounds, in which both trained in turns, or, if there
    are too few, from the seconds, paired by common blocks. `spread` is the pooled spread of the
    device, if it exists.

    If it is one of several simultaneous `comparisons` with the same configuration, its interval
    holds simultaneously with the others: Dunnett's with a pooled spread, else Šidák's. If the
    pair's own spread rejects pooling, it is the wider of Dunnett's interval and the pair's own
    single interval. In simulations with three repeats, widening the latter as well showed 77 %
    instead of 89 % of the differences of 10 % and did not reduce the number of wrong headlines.
    """
    rounds = _common_rounds(runs, base)
    fewest = min(int((~side["companion"]).sum()) for side in (runs, base))
    if len(rounds) > 1 or (rounds and fewest == 1):
        (a, blocks_a), (b, blocks_b) = (_effects(side, rounds) for side in (base, runs))
        return _in_turns(_ratio(a, b, blocks_a, blocks_b, spread, comparisons), len(rounds))
    base, runs = without_companions(base), without_companions(runs)
    a, b = base["seconds"].tolist(), runs["seconds"].tolist()
    return _ratio(a, b, base["pairing"].tolist(), runs["pairing"].tolist(), spread, comparisons)


def _ratio(
    a: list[float],
    b: list[float],
    blocks_a: list[str],
    blocks_b: list[str],
    spread: Spread | None,
    comparisons: int,
) -> Ratio:
    pairs = block_differences(a, b, blocks_a, blocks_b)
    if spread is None or len(pairs) < 2:
        return ratio_interval(a, b, blocks_a, blocks_b, sidak_confidence(CONFIDENCE, comparisons))
    own = ratio_interval(a, b, blocks_a, blocks_b, CONFIDENCE)
    return pooled(own, pairs, spread, CONFIDENCE, comparisons)


def _common_rounds(runs: Rows, base: Rows) -> set[str]:
    """The rounds in which both were measured in turns."""
    own, other = (
        {
            block
            for block, effect in zip(side["pairing"], side["effect"], strict=True)
            if not math.isnan(effect)
        }
        for side in (runs, base)
    )
    return own & other


def without_companions(runs: Rows) -> Rows:
    """`runs` without companions, which only serve ratios."""
    return {name: column[~runs["companion"]] for name, column in runs.items()}


def _effects(runs: Rows, rounds: set[str]) -> tuple[list[float], list[str]]:
    """Relative seconds (exp of the effect) and the round of each run in `rounds`."""
    pairs = zip(runs["effect"].tolist(), runs["pairing"].tolist(), strict=True)
    selected = [(math.exp(effect), block) for effect, block in pairs if block in rounds]
    return [value for value, _ in selected], [block for _, block in selected]


def _in_turns(ratio: Ratio, rounds: int) -> Ratio:
    if ratio.low is None:
        return replace(ratio, method=f"{IN_TURNS}, {ratio.method}")
    method = f"{IN_TURNS}, {rounds} rounds"
    if ratio.method.startswith("pooled"):
        method = f"{method}; {ratio.method}"
    return replace(ratio, method=method)


def ratio_text(ratio: Ratio) -> str:
    """The result of a comparison as text: one of `COMPARED`."""
    if ratio.low is None:
        return ONE_RUN
    if not ratio.shown_different:
        return NO_DIFFERENCE
    return FASTER if ratio.estimate > 1 else SLOWER


def ratios_shown(table: pd.DataFrame) -> int:
    """The number of ratios with an interval in a table of training times or calls."""
    unequal = sum(isinstance(x, Unequal) and x.low is not None for x in table["unequal"])
    return int(table["speedup_low"].notna().sum()) + unequal


def _row(
    runs: Rows,
    base: Rows | None,
    is_reference: bool,
    equal: tuple[str, str],
    wrong: str,
    spread: Spread | None,
) -> dict[str, Any]:
    with_companions, runs = runs, without_companions(runs)
    seconds = mean_interval(runs["seconds"].tolist())
    row: dict[Any, Any] = {
        **counts(runs),
        **seconds.columns("epoch_seconds", "epoch_low", "epoch_high"),
        "ms_per_step": 1e3 * seconds.estimate / statistics.median(runs["steps"].tolist()),
        "us_per_sample": 1e6 * seconds.estimate / statistics.median(runs["samples"].tolist()),
        "samples": int(statistics.median(runs["samples"].tolist())),
        "evaluate_seconds": _mean(runs["evaluate"]),
        "predict_seconds": _mean(runs["predict"]),
        "speedup_suspect": bool(runs["suspect"].any()),
        "method": "",
        "shown_different": False,
        "unequal": "",
        "difference": "",
    }
    if wrong:
        return {**row, "words": wrong}
    if is_reference:
        return {**row, "speedup": 1.0, "words": IS_REFERENCE}
    if base is None:
        return {**row, "words": NO_REFERENCE}
    ratio = compare(with_companions, base, spread)
    suspect = bool(runs["suspect"].any() or base["suspect"].any())
    if equal[0] == UNEQUAL:
        return {**row, "method": ratio.method, "words": NOT_EQUAL, "unequal": unequal(ratio),
                "difference": difference(equal[1]), "speedup_suspect": suspect}  # fmt: skip
    return {
        **row,
        **ratio.columns("speedup"),
        "method": ratio.method,
        "shown_different": ratio.shown_different,
        "words": ratio_text(ratio),
        "speedup_suspect": suspect,
    }


def _mean(seconds: np.ndarray) -> float | None:
    measured = seconds[seconds > 0].tolist()  # also excludes NaN
    return mean_interval(measured).estimate if measured else None
