"""Who is fastest, and whether that is shown: one row per contest.

The fastest is a choice among several, and a choice finds by chance what is not there: with eight
equal contestants and intervals that each hold by themselves, 8 to 10 % of the headlines claimed
that one is faster than the reference, with twelve 11 to 13 %. So what is said of the fastest uses
Dunnett's comparison with the reference: intervals that hold together for all contestants. The
lead over the next uses the same quantile, which makes it Hsu's comparison with the best (Annals of
Statistics 9, 1981). Simulated (``benchmarks/headline.py``; 3 to 10 repeats in blocks, spreads
alike, of 1 to 3 % and with one noisy cell): 2 to 4 % of the headlines claim a difference where
there is none, and with 3 repeats of 8 cells a difference of 5 % is shown in 50 % of them, not 67,
one of 10 % in 89 % as before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rnnbench.tables.frame import CELL
from rnnbench.tables.grouping import Cells, split
from rnnbench.tables.pooling import Spread, pooled_spreads, shared
from rnnbench.tables.reference import key_of, references
from rnnbench.tables.time import (
    COMPARED,
    IS_REFERENCE,
    KEY,
    NOT_EQUAL,
    RUN,
    compare,
    in_words,
)
from rnnbench.tables.usable_runs import run_values

if TYPE_CHECKING:
    import pandas as pd

OF_THE_IMPLEMENTATION = {"rnn", "options", "alias"}
FASTEST_COLUMNS = [
    *CELL, "contestants", "suspect", "reference_suspect", "runner_up_suspect", "seconds", "speedup",
    "low", "high", "words", "runner_up", "lead", "lead_low", "lead_high", "lead_shown",
    "lead_is_speedup", "left_out", "void", "reference_void", "equal",
]  # fmt: skip


def fastest(
    frame: pd.DataFrame, time_table: pd.DataFrame, reference: Mapping[str, str]
) -> pd.DataFrame:
    """One row per contest: cells that differ in implementation or in the reference's axes only.

    Columns: the fastest cell; `name` (what tells it from the others); `contestants` (how many: 0
    where no run gave a number that may be compared); `suspect`, `reference_suspect`,
    `runner_up_suspect` (bool: runs of it are); `seconds` per epoch; `speedup` over the reference
    with `low`, `high`, `words`, which hold for all contestants together (the time table's hold one
    by one); `runner_up` (its name, ``""`` for none) and `lead` = runner-up's seconds / own, with
    `lead_low`, `lead_high`, `lead_shown` and `lead_is_speedup` (it is the ratio to the reference);
    `left_out`: names and reasons of cells that do not compute the reference's function or do not
    learn what they compute, and so are no contestants; `void`: names and reasons of cells all of
    whose runs are void; `reference_void`: the reference's reason; `equal`: whether the fastest is
    certified to compute the reference's.
    """
    import pandas as pd

    usable = run_values(frame, companions=True)
    values, spreads = split(usable, KEY, RUN), pooled_spreads(usable, KEY, below=math.inf)
    void = void_cells(frame, usable)
    against = references([*values, *map(key_of, void)], reference)
    told_by = {*OF_THE_IMPLEMENTATION, *(axis for axis in reference if axis in KEY)}
    same = [name for name in KEY if name not in told_by]
    measured = _contests(time_table.to_dict("records"), same)
    voided = _contests(void, same)
    rows = []
    for key in dict.fromkeys([*measured, *voided]):
        cells, gone = measured.get(key, []), voided.get(key, [])
        ordered = sorted(cells, key=lambda row: row["epoch_seconds"])
        ranked = [row for row in ordered if row["words"] != NOT_EQUAL and not row["not_learning"]]
        every = [*cells, *gone]
        axes = sorted(
            a for a in told_by - OF_THE_IMPLEMENTATION if len({row[a] for row in every}) > 1
        )
        left_out = "; ".join(
            f"`{_name(row, axes)}` ({row['not_learning'] or row['equal_why']})"
            for row in ordered
            if row not in ranked
        )
        base = against[key_of((ranked or every)[0])]
        reasons = {key_of(row): row["why"] for row in gone}
        contest = _contest(ranked, base, values, axes, spreads) if ranked else _none(every[0])
        rows.append(
            {
                **contest,
                "left_out": left_out,
                "void": "; ".join(f"`{_name(row, axes)}` ({row['why']})" for row in gone),
                "reference_void": reasons.get(base, ""),
            }
        )
    return pd.DataFrame(rows, columns=["name", *FASTEST_COLUMNS])


def void_cells(frame: pd.DataFrame, usable: pd.DataFrame) -> list[dict[Any, Any]]:
    """The cells none of whose runs is `usable` (as from `run_values`), with `why`: the shortest
    reason of a run."""
    gave = set(usable["record"])
    whole = frame[frame["phase"] == "run"]
    found = []
    for key, cell in split(whole, KEY, ["record", "reasons", "implementation"]).items():
        if gave.isdisjoint(cell["record"].tolist()):
            reasons = filter(None, cell["reasons"].tolist())
            why = min(reasons, key=len, default="no epoch was finished").rstrip(".")
            found.append({**dict(zip(KEY, key, strict=True)),
                          "implementation": cell["implementation"][0], "why": why})  # fmt: skip
    return found


def _contests(
    cells: Iterable[dict[Any, Any]], same: list[str]
) -> dict[tuple[Any, ...], list[dict[Any, Any]]]:
    found: dict[tuple[Any, ...], list[dict[Any, Any]]] = {}
    for cell in cells:
        found.setdefault(tuple(cell[name] for name in same), []).append(cell)
    return found


def _none(cell: Mapping[Any, Any]) -> dict[str, Any]:
    """A contest without contestants, in the place of `cell`."""
    return {
        **{name: cell[name] for name in CELL}, "name": "", "contestants": 0, "suspect": False,
        "reference_suspect": False, "runner_up_suspect": False, "words": "", "runner_up": "",
        "equal": "",
    }  # fmt: skip


def _contest(
    ranked: list[dict[Any, Any]],
    base: tuple[Any, ...],
    values: Cells,
    axes: list[str],
    spreads: Mapping[tuple[Any, ...], Spread],
) -> dict[str, Any]:
    first = ranked[0]
    among = len(ranked) - 1
    row = {
        **{name: first[name] for name in CELL},
        "name": _name(first, axes),
        "contestants": len(ranked),
        "suspect": bool(first["suspect"]),
        "reference_suspect": base in values and bool(values[base]["suspect"].any()),
        "runner_up_suspect": False,
        "seconds": first["epoch_seconds"],
        "speedup": first["speedup"],
        "words": first["words"],
        "equal": first["equal"],
        "runner_up": "",
    }
    if not among:
        return {**row, "low": first["speedup_low"], "high": first["speedup_high"]}
    own, second = values[key_of(first)], ranked[1]
    if first["words"] in COMPARED:
        spread = shared(spreads, first, dict(zip(KEY, base, strict=True)))
        ratio = compare(own, values[base], spread, among)
        row |= {
            "speedup": ratio.estimate, "low": ratio.low, "high": ratio.high,
            "words": in_words(ratio),
        }  # fmt: skip
    lead = compare(own, values[key_of(second)], shared(spreads, first, second), among)
    return {
        **row,
        "runner_up_suspect": bool(second["suspect"]),
        "runner_up": _name(second, axes),
        "lead": lead.estimate,
        "lead_low": lead.low,
        "lead_high": lead.high,
        "lead_shown": lead.shown_different,
        "lead_is_speedup": IS_REFERENCE in (first["words"], second["words"]),
    }


def extra_ratios(table: pd.DataFrame) -> int:
    """Leads over a runner-up that are not already a ratio of the time table."""
    return int((table["lead_low"].notna() & ~table["lead_is_speedup"].eq(True)).sum())


def _name(cell: Mapping[Any, Any], axes: list[str]) -> str:
    parts = [cell["implementation"], *(cell[axis] for axis in axes)]
    return ", ".join(str(part) for part in parts if part) or str(cell["model"])
