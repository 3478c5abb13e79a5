"""How fast: one row per cell, with its interval and its speed-up."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rnnbench.tables.certificates import NOT_LEARNING, UNEQUAL, Certificates
from rnnbench.tables.frame import CELL
from rnnbench.tables.grouping import Rows, split
from rnnbench.tables.pooling import Spread, pooled, pooled_spreads, shared
from rnnbench.tables.rank_test import bootstrap_interval, rank_p
from rnnbench.tables.reference import KEY, keys_of, references
from rnnbench.tables.stats import (
    ONE_RUN,
    Ratio,
    block_differences,
    mean_interval,
    ratio_interval,
    together,
)
from rnnbench.tables.unequal_ratio import Unequal, difference, unequal
from rnnbench.tables.usable_runs import run_values

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

NO_DIFFERENCE = "no difference shown"
IS_REFERENCE = "reference"
IN_TURNS = "in turns"
NO_REFERENCE = "no reference run"
NOT_EQUAL = "not the same function"
WRONG_REFERENCE = f"the reference {NOT_LEARNING}"

FASTER, SLOWER = "faster", "slower"
CONFIDENCE = 0.95
COMPARED = (FASTER, SLOWER, NO_DIFFERENCE, ONE_RUN)

# Of a run, what a comparison needs.
RUN = ["seconds", "sitting", "suspect", "effect", "companion"]


def time(
    frame: pd.DataFrame,
    reference: Mapping[str, str],
    certificates: Certificates = Certificates(),  # noqa: B008 (frozen)
) -> pd.DataFrame:
    """One row per cell on one machine, from runs that are not void.

    Columns: the cell (`model`, `cell`, `build`, `dataset`, `variant`, `rnn`, `options`, `alias`,
    `implementation`, `device`, `machine`); `runs`, `suspect` (how many of them);
    `epoch_seconds` (geometric mean of the runs' medians) with `epoch_low`, `epoch_high`
    (95 %); `ms_per_step`, `us_per_sample`, `samples` (of an epoch); `evaluate_seconds`,
    `predict_seconds` (median later call, geometric mean over runs); `speedup` = reference's
    seconds / own seconds on the same machine, with `speedup_low`, `speedup_high`, `method`,
    `shown_different`, `words`, `speedup_suspect` (bool: own or the reference's runs are);
    `boot_low`, `boot_high`
    (bootstrap, from ten runs on), `rank_p` (Mann and Whitney, from five); `equal` (``certified``,
    ``not certified``, ``not equal``, ``""``) and `equal_why`; `not_learning`: why its training
    step applies another gradient than it computes (``""``: nothing says so). Source: the records'
    epochs.

    `reference` (axis → choice) is what a speed-up is relative to (`references`). A cell that by its
    certificate does not compute the reference's function has no speed-up: `unequal` is the ratio of
    their times (`Unequal`, whose text is marked; ``""`` for the others) and `difference` what is
    different, in words. One that does not learn what it computes, or whose reference does not, has
    neither.
    """
    import pandas as pd

    values = run_values(frame, companions=True)
    spreads = pooled_spreads(values, KEY)
    cells = split(values, KEY, [*RUN, "implementation", *PER_RUN])
    # Of void cells too: where the reference is void no other takes its place.
    against = references(keys_of(frame), reference)
    rows = []
    for key, runs in cells.items():
        cell, wanted = dict(zip(KEY, key, strict=True)), against[key]
        base, other = cells.get(wanted), dict(zip(KEY, wanted, strict=True))
        equal = ("", "")
        wrong = wrong_steps(certificates, cell, other if base is not None else cell)
        if base is not None and wanted != key:
            equal = certificates.judge(cell, other)
        spread = shared(spreads, cell, other)
        rows.append({**cell, **_row(runs, base, wanted == key, equal, wrong, spread),
                     "equal": equal[0], "equal_why": equal[1],
                     "not_learning": why_not_learning(certificates, cell)})  # fmt: skip
    return pd.DataFrame(rows, columns=TIME_COLUMNS)


PER_RUN = ["steps", "samples", "evaluate", "predict"]
TIME_COLUMNS = [
    *CELL, "runs", "suspect", "epoch_seconds", "epoch_low", "epoch_high", "ms_per_step",
    "us_per_sample", "samples", "evaluate_seconds", "predict_seconds", "speedup", "speedup_low",
    "speedup_high", "method", "shown_different", "words", "speedup_suspect", "boot_low",
    "boot_high", "rank_p", "equal", "equal_why", "unequal", "difference", "not_learning",
]  # fmt: skip


def why_not_learning(certificates: Certificates, cell: Mapping[str, Any]) -> str:
    """Why the steps that `cell` applies are not those of the gradients that it computes; ``""``
    where no certificate says so."""
    return certificates.why_not_learning(cell) or ""


def wrong_steps(
    certificates: Certificates, cell: Mapping[str, Any], base: Mapping[str, Any]
) -> str:
    """Why `cell` gets no speed-up over `base` by what their steps apply, ``""`` where it may."""
    if why_not_learning(certificates, cell):
        return NOT_LEARNING
    return WRONG_REFERENCE if why_not_learning(certificates, base) else ""


def compare(runs: Rows, base: Rows, spread: Spread | None = None, among: int = 1) -> Ratio:
    """The speed-up of `runs` against `base` (columns `RUN`): base's seconds / own seconds. From
    their effects in the rounds that both were measured in, in turns; where there are too few, from
    their seconds: paired by the blocks that both have. With the pooled `spread` of the device where
    there is one.

    As one of `among` comparisons with the same cell its interval holds together with the others':
    Dunnett's with a pooled spread, else Šidák's. Where the pair's own spread speaks against
    pooling, the wider of Dunnett's and the pair's own single interval; simulated
    with three repeats, to widen that one too would show 77 % of the differences of 10 % in the
    place of 89 and make no fewer headlines wrong.
    """
    rounds = common_rounds(runs, base)
    fewest = min(int((~side["companion"]).sum()) for side in (runs, base))
    if len(rounds) > 1 or (rounds and fewest == 1):
        (a, blocks_a), (b, blocks_b) = (_effects(side, rounds) for side in (base, runs))
        return _in_turns(_compared(a, b, blocks_a, blocks_b, spread, among), len(rounds))
    base, runs = own_runs(base), own_runs(runs)
    a, b = base["seconds"].tolist(), runs["seconds"].tolist()
    return _compared(a, b, base["sitting"].tolist(), runs["sitting"].tolist(), spread, among)


def _compared(
    a: list[float],
    b: list[float],
    blocks_a: list[str],
    blocks_b: list[str],
    spread: Spread | None,
    among: int,
) -> Ratio:
    pairs = block_differences(a, b, blocks_a, blocks_b)
    if spread is None or len(pairs) < 2:
        return ratio_interval(a, b, blocks_a, blocks_b, together(CONFIDENCE, among))
    own = ratio_interval(a, b, blocks_a, blocks_b, CONFIDENCE)
    return pooled(own, pairs, spread, CONFIDENCE, among)


def common_rounds(runs: Rows, base: Rows) -> set[str]:
    """The rounds in which both were measured in turns."""
    here, there = (
        {
            block
            for block, effect in zip(side["sitting"], side["effect"], strict=True)
            if not math.isnan(effect)
        }
        for side in (runs, base)
    )
    return here & there


def own_runs(runs: Rows) -> Rows:
    """`runs` without those that are there for others to be compared with."""
    return {name: column[~runs["companion"]] for name, column in runs.items()}


def _effects(runs: Rows, rounds: set[str]) -> tuple[list[float], list[str]]:
    """Seconds against the round's, and the rounds."""
    pairs = zip(runs["effect"].tolist(), runs["sitting"].tolist(), strict=True)
    chosen = [(math.exp(effect), block) for effect, block in pairs if block in rounds]
    return [value for value, _ in chosen], [block for _, block in chosen]


def _in_turns(ratio: Ratio, rounds: int) -> Ratio:
    if ratio.low is None:
        return ratio
    how = f"{IN_TURNS}, {rounds} rounds"
    pooled_over = ratio.method.startswith("pooled")
    return replace(ratio, method=f"{how}; {ratio.method}" if pooled_over else how)


def in_words(ratio: Ratio) -> str:
    if ratio.low is None:
        return ONE_RUN
    if not ratio.shown_different:
        return NO_DIFFERENCE
    return FASTER if ratio.estimate > 1 else SLOWER


def ratios_shown(table: pd.DataFrame) -> int:
    """How many ratios with an interval a table shows: of training, or of calls."""
    marked = sum(isinstance(one, Unequal) and one.low is not None for one in table["unequal"])
    return int(table["speedup_low"].notna().sum()) + marked


def _row(
    runs: Rows,
    base: Rows | None,
    is_reference: bool,
    equal: tuple[str, str],
    wrong: str,
    spread: Spread | None,
) -> dict[str, Any]:
    everything, runs = runs, own_runs(runs)
    seconds = mean_interval(runs["seconds"].tolist())
    row: dict[Any, Any] = {
        "implementation": runs["implementation"][0],
        "runs": len(runs["seconds"]),
        "suspect": int(runs["suspect"].sum()),
        "epoch_seconds": seconds.estimate,
        "epoch_low": seconds.low,
        "epoch_high": seconds.high,
        "ms_per_step": 1e3 * seconds.estimate / statistics.median(runs["steps"].tolist()),
        "us_per_sample": 1e6 * seconds.estimate / statistics.median(runs["samples"].tolist()),
        "samples": int(statistics.median(runs["samples"].tolist())),
        "evaluate_seconds": _mean(runs["evaluate"]),
        "predict_seconds": _mean(runs["predict"]),
        "speedup_suspect": bool(runs["suspect"].any()),
        "unequal": "",
        "difference": "",
    }
    if wrong:
        return {**row, "method": "", "shown_different": False, "words": wrong}
    if is_reference:
        return {**row, "speedup": 1.0, "method": "", "shown_different": False,
                "words": IS_REFERENCE}  # fmt: skip
    if base is None:
        return {**row, "method": "", "shown_different": False, "words": NO_REFERENCE}
    ratio = compare(everything, base, spread)
    doubted = bool(runs["suspect"].any() or base["suspect"].any())
    if equal[0] == UNEQUAL:
        return {**row, "method": ratio.method, "shown_different": False, "words": NOT_EQUAL,
                "unequal": unequal(ratio), "difference": difference(equal[1]),
                "speedup_suspect": doubted}  # fmt: skip
    times = own_runs(base)["seconds"].tolist(), runs["seconds"].tolist()
    boot = bootstrap_interval(*times) or (None, None)
    return {
        **row,
        "boot_low": boot[0],
        "boot_high": boot[1],
        "rank_p": rank_p(*times),
        "speedup": ratio.estimate,
        "speedup_low": ratio.low,
        "speedup_high": ratio.high,
        "method": ratio.method,
        "shown_different": ratio.shown_different,
        "words": in_words(ratio),
        "speedup_suspect": doubted,
    }


def _mean(seconds: np.ndarray) -> float | None:
    measured = seconds[seconds > 0].tolist()  # missing is not above 0 either
    return mean_interval(measured).estimate if measured else None
