"""The fastest implementation of each contest, and whether its lead is significant.

Picking the fastest of several configurations finds differences by chance: with eight equal
contestants and separate 95 % intervals, 8 to 10 % of the headlines claimed that one of them is
faster than the reference; with twelve contestants, 11 to 13 %. Statements about the fastest
therefore use Dunnett's comparison with the reference, whose intervals hold simultaneously for all
contestants. The lead over the runner-up uses the same quantile, which makes it Hsu's comparison
with the best (Annals of Statistics 9, 1981). Simulated (``benchmarks/headline.py``; 3 to 10 repeats
in blocks; equal spreads, spreads of 1 to 3 %, and one noisy configuration): 2 to 4 % of the
headlines claim a difference that does not exist. With 3 repeats of 8 configurations, a difference
of 5 % is shown in 50 % of the headlines (67 % with separate intervals), one of 10 % in 89 % (no
change).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from rnnbench.axes import CONFIGURATION, KEY
from rnnbench.tables.estimates import Estimates
from rnnbench.tables.frame import Groups, run_values, split
from rnnbench.tables.reference import Key, key_of, references
from rnnbench.tables.time import (
    COMPARED,
    IS_REFERENCE,
    NOT_EQUAL,
    ratio_text,
)

IMPLEMENTATION_AXES = {"rnn", "options", "alias"}
FASTEST_COLUMNS = [
    *CONFIGURATION, "implementations", "contestants", "suspect", "reference_suspect",
    "runner_up_suspect", "seconds", "speedup", "low", "high", "words", "runner_up", "lead",
    "lead_low", "lead_high", "lead_shown", "lead_is_speedup", "left_out", "void", "reference_void",
    "equal", "slow_speedup", "slow_share", "slowed",
]  # fmt: skip


def fastest(
    frame: pd.DataFrame, time_table: pd.DataFrame, reference: Mapping[str, str]
) -> pd.DataFrame:
    """One row per contest: configurations that differ only in the implementation or in the axes
    that the reference names.

    Columns: the fastest configuration; `name` (its distinguishing axes as text);
    `implementations` (their number, void ones included; a name leaves out a single one, unless it
    would be empty); `contestants`
    (their number; 0 if no run gave a comparable number); `suspect`, `reference_suspect`,
    `runner_up_suspect` (bool: it has suspect runs); `seconds` per epoch; `speedup` over the
    reference with its interval `low`, `high` and the result as text (`words`), which hold
    simultaneously for all contestants (in the time table, they hold for each on its own);
    `runner_up` (its name, ``""`` for none); `lead` = seconds of the runner-up / own seconds, with
    `lead_low`, `lead_high`, `lead_shown` (bool: the interval excludes 1) and `lead_is_speedup`
    (bool: the lead is the ratio to the reference); `left_out`: names and reasons of configurations
    that do not compute the reference's function or apply wrong gradients, and are therefore not
    contestants; `void`: names and reasons of configurations without a usable run;
    `reference_void`: the reason if the reference is one of them; `equal`: whether the fastest is
    certified to compute the reference's function; `slow_speedup`: the speed-up while the machine
    was slowed down, for the share `slow_share` of the time (missing if it is hardly another one);
    `slowed`: whether too few rounds of the fastest are undisturbed, so that slowed ones count.
    """
    usable = run_values(frame, companions=True)
    estimates = Estimates(usable)
    values = split(usable[~usable["companion"]], KEY, ["suspect"])
    void = void_configurations(frame, usable)
    against = references([*values, *map(key_of, void)], reference)
    reference_axes = {axis for axis in reference if axis in KEY} - IMPLEMENTATION_AXES
    contest_axes = [axis for axis in KEY if axis not in reference_axes | IMPLEMENTATION_AXES]
    measured_by_contest = _contests(time_table.to_dict("records"), contest_axes)
    void_by_contest = _contests(void, contest_axes)
    rows = []
    for contest in dict.fromkeys([*measured_by_contest, *void_by_contest]):
        measured, voided = measured_by_contest.get(contest, []), void_by_contest.get(contest, [])
        ordered = sorted(measured, key=lambda row: row["epoch_seconds"])
        ranked = [row for row in ordered if row["words"] != NOT_EQUAL and not row["not_learning"]]
        members = [*measured, *voided]
        axes = sorted(axis for axis in reference_axes if len({row[axis] for row in members}) > 1)
        implementations = len({row["implementation"] for row in members})
        if implementations > 1 or not axes:
            axes = ["implementation", *axes]
        left_out = "; ".join(
            f"`{_name(row, axes)}` ({row['not_learning'] or row['equal_why']})"
            for row in ordered
            if row not in ranked
        )
        base = against[key_of((ranked or members)[0])]
        reasons = {key_of(row): row["why"] for row in voided}
        winner = _winner(ranked, base, values, axes, estimates) if ranked else _none(members[0])
        rows.append(
            {
                **winner,
                "implementations": implementations,
                "left_out": left_out,
                "void": "; ".join(f"`{_name(row, axes)}` ({row['why']})" for row in voided),
                "reference_void": reasons.get(base, ""),
            }
        )
    return pd.DataFrame(rows, columns=["name", *FASTEST_COLUMNS])


def void_configurations(frame: pd.DataFrame, usable: pd.DataFrame) -> list[dict[Any, Any]]:
    """The configurations without a run in `usable` (from `run_values`), with `why`: the shortest
    reason among their runs."""
    usable_records = set(usable["record"])
    run_rows = frame[frame["phase"] == "run"]
    void = []
    for key, runs in split(run_rows, KEY, ["record", "reasons", "implementation"]).items():
        if usable_records.isdisjoint(runs["record"].tolist()):
            reasons = filter(None, runs["reasons"].tolist())
            why = min(reasons, key=len, default="no epoch was finished").rstrip(".")
            void.append({**dict(zip(KEY, key, strict=True)),
                         "implementation": runs["implementation"][0], "why": why})  # fmt: skip
    return void


def _contests(rows: Iterable[dict[Any, Any]], axes: list[str]) -> dict[Key, list[dict[Any, Any]]]:
    """Values of `axes` → the `rows` that have them."""
    contests: dict[Key, list[dict[Any, Any]]] = {}
    for row in rows:
        contests.setdefault(tuple(row[axis] for axis in axes), []).append(row)
    return contests


def _none(configuration: Mapping[Any, Any]) -> dict[str, Any]:
    """The row of a contest without contestants, with the axes of one of its configurations."""
    return {
        **{name: configuration[name] for name in CONFIGURATION}, "name": "", "contestants": 0,
        "suspect": False, "slowed": False, "reference_suspect": False, "runner_up_suspect": False,
        "words": "", "runner_up": "", "equal": "",
    }  # fmt: skip


def _winner(
    ranked: list[dict[Any, Any]],
    base: Key,
    values: Groups,
    axes: list[str],
    estimates: Estimates,
) -> dict[str, Any]:
    first = ranked[0]
    comparisons = len(ranked) - 1
    row = {
        **{name: first[name] for name in CONFIGURATION},
        "name": _name(first, axes),
        "contestants": len(ranked),
        "suspect": bool(first["suspect"]),
        "slowed": estimates.is_slowed(key_of(first)),
        "reference_suspect": base in values and bool(values[base]["suspect"].any()),
        "runner_up_suspect": False,
        "seconds": first["epoch_seconds"],
        "speedup": first["speedup"],
        "words": first["words"],
        "equal": first["equal"],
        "runner_up": "",
    }
    if not comparisons:
        return {**row, "low": first["speedup_low"], "high": first["speedup_high"]}
    second = ranked[1]
    if first["words"] in COMPARED:
        ratio = estimates.ratio(key_of(first), base, comparisons)
        row |= {**ratio.columns("speedup", "low", "high"), "words": ratio_text(ratio)}
        slow = estimates.when_slowed(key_of(first), base)
        row["slow_speedup"], row["slow_share"] = slow or (math.nan, math.nan)
    lead = estimates.ratio(key_of(first), key_of(second), comparisons)
    return {
        **row,
        "runner_up_suspect": bool(second["suspect"]),
        "runner_up": _name(second, axes),
        **lead.columns("lead"),
        "lead_shown": lead.shown_different,
        "lead_is_speedup": IS_REFERENCE in (first["words"], second["words"]),
    }


def extra_ratios(table: pd.DataFrame) -> int:
    """Number of leads over a runner-up that are not already a ratio in the time table."""
    return int((table["lead_low"].notna() & ~table["lead_is_speedup"].eq(True)).sum())


def _name(row: Mapping[Any, Any], axes: list[str]) -> str:
    return ", ".join(str(row[axis]) for axis in axes if row[axis]) or str(row["model"])
