"""The fastest implementation of each contest.

Picking the fastest of several configurations finds differences by chance. Statements about the
fastest therefore use Dunnett's comparison with the reference, whose intervals hold simultaneously
for all contestants. The lead over the runner-up uses the same quantile, which makes it Hsu's
comparison with the best (Annals of Statistics 9, 1981). Simulated in ``benchmarks/headline.py``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from rnnbench.axes import CONFIGURATION, KEY
from rnnbench.tables.estimates import Key, Measurements, key_of
from rnnbench.tables.frame import Row, columns_of, split
from rnnbench.tables.ratios import Unequal
from rnnbench.tables.time import COMPARED, IS_REFERENCE, NOT_EQUAL, ratio_text

IMPLEMENTATION_AXES = {"rnn", "options", "alias"}
FASTEST_COLUMNS = [
    "name",
    *CONFIGURATION,
    "implementations",
    "contestants",
    "suspect",
    "reference_suspect",
    "runner_up_suspect",
    "seconds",
    "speedup",
    "low",
    "high",
    "words",
    "runner_up",
    "lead",
    "lead_low",
    "lead_high",
    "lead_shown",
    "lead_is_speedup",
    "left_out",
    "void",
    "reference_void",
    "equal",
    "unequal",
    "slowed",
]
NO_CONTESTANT = {
    "name": "",
    "contestants": 0,
    "suspect": False,
    "slowed": False,
    "reference_suspect": False,
    "runner_up_suspect": False,
    "words": "",
    "runner_up": "",
    "equal": "",
}


class LeftOut(NamedTuple):
    """Configurations that are not compared.

    - `names` of the configurations, and `why` they are not compared.
    - `is_another_function`: whether they compute another function by design.
    """

    names: tuple[str, ...]
    why: str
    is_another_function: bool = False


def fastest(measured: Measurements, time_table: pd.DataFrame) -> pd.DataFrame:
    """One row per contest: configurations that differ only in the implementation or in the axes
    that the reference names.

    Columns:

    - the fastest configuration; `name`: its distinguishing axes as text.
    - `implementations`: their number, void ones included; a name leaves out a single one, unless it
      would be empty.
    - `contestants`: their number; 0 if no run gave a comparable number.
    - `suspect`, `reference_suspect`, `runner_up_suspect` (bool: it has suspect runs).
    - `seconds` per epoch.
    - `speedup` over the reference with its interval `low`, `high` and the result as text (`words`),
      which hold simultaneously for all contestants.
    - `runner_up`: its name, ``""`` for none.
    - `lead` = seconds of the runner-up / own seconds, with its interval.
    - `lead_shown` (bool: it excludes 1); `lead_is_speedup` (bool: the lead is the ratio to the
      reference).
    - `left_out`: the configurations (`LeftOut`) that are not contestants, because they do not
      compute the reference's function or apply wrong gradients.
    - `void`: those without a usable run; `reference_void`: the reason if the reference is one of
      them.
    - `equal` as in `compared`.
    - `unequal`: if there is one contestant, (name, whether it has suspect runs, `Unequal`) of each
      configuration that computes another function, whose intervals hold simultaneously.
    - `slowed`: whether too few rounds of the fastest are undisturbed, so that slowed ones count.
    """
    reference_axes = {axis for axis in measured.reference if axis in KEY} - IMPLEMENTATION_AXES
    contest_axes = [axis for axis in KEY if axis not in reference_axes | IMPLEMENTATION_AXES]
    contests = defaultdict(list)
    for row in time_table.to_dict("records") + _void_configurations(measured):
        contest = tuple(row[axis] for axis in contest_axes)
        contests[contest].append(row)
    rows = [_contest_row(measured, members, reference_axes) for members in contests.values()]
    return pd.DataFrame(rows, columns=FASTEST_COLUMNS)


def _void_configurations(measured: Measurements) -> list[Row]:
    """The configurations without a usable run, with `why`: the shortest reason among their runs."""
    void = []
    runs = measured.frame[measured.frame["phase"] == "run"]
    for key, own in split(runs, KEY, ["reasons", "implementation"]).items():
        if key in measured.groups:
            continue
        reasons = [reason for reason in own["reasons"] if reason]
        why = min(reasons, key=len, default="no epoch was finished")
        void.append(
            {
                **columns_of(key),
                "implementation": own["implementation"][0],
                "why": why.rstrip("."),
            }
        )
    return void


def _contest_row(measured: Measurements, members: list[Row], reference_axes: set[str]) -> Row:
    """The row of a contest: of its fastest member, or of the first one if none is comparable.
    Members without a usable run have a reason, `why`."""
    voided = [row for row in members if "why" in row]
    timed = [row for row in members if "why" not in row]
    timed.sort(key=lambda row: row["epoch_seconds"])
    ranked = []
    excluded = []
    for row in timed:
        if row["words"] == NOT_EQUAL or row["not_learning"]:
            row["why"] = row["not_learning"] or row["equal_why"]
            excluded.append(row)
        else:
            ranked.append(row)

    axes = []
    for axis in sorted(reference_axes):
        if len({row[axis] for row in members}) > 1:
            axes.append(axis)
    implementations = len({row["implementation"] for row in members})
    if implementations > 1 or not axes:
        axes.insert(0, "implementation")

    shown = ranked[0] if ranked else members[0]
    base = measured.against[key_of(shown)]
    void_reasons = {key_of(row): row["why"] for row in voided}
    contest = {
        **{name: shown[name] for name in CONFIGURATION},
        **NO_CONTESTANT,
        "implementations": implementations,
        "left_out": _left_out(excluded, axes),
        "unequal": [],
        "void": _left_out(voided, axes),
        "reference_void": void_reasons.get(base, ""),
    }
    if ranked:
        contest |= _winner(measured, ranked, base, axes)
    if len(ranked) == 1:
        contest["unequal"] = _unequal(measured, base, timed, axes)
    return contest


def _left_out(rows: Sequence[Row], axes: Sequence[str]) -> tuple[LeftOut, ...]:
    """The `rows` by `why` they are left out."""
    by_why = defaultdict(list)
    for row in rows:
        by_why[row["why"]].append(row)
    found = []
    for why, own in by_why.items():
        names = tuple(_name(row, axes) for row in own)
        is_another = bool(own[-1].get("is_another_function"))
        found.append(LeftOut(names, why, is_another))
    return tuple(found)


def _unequal(
    measured: Measurements,
    base: Key,
    rows: Sequence[Row],
    axes: Sequence[str],
) -> list[tuple[str, bool, Unequal]]:
    """Of each configuration that computes another function: its name, whether it has suspect runs,
    and the ratio of its seconds to those of `base`, the reference.

    - `rows`: those of the contest that have a time.
    - `axes`: what names them.
    """
    others = [row for row in rows if row["is_another_function"]]
    found = []
    for row in others:
        ratio = measured.estimates.ratio(key_of(row), base, len(others))
        unequal = Unequal(ratio.estimate, ratio.low, ratio.high)
        found.append((_name(row, axes), bool(row["suspect"]), unequal))
    return found


def _winner(
    measured: Measurements,
    ranked: Sequence[Row],
    base: Key,
    axes: Sequence[str],
) -> Row:
    """What the row of a contest says about the fastest contestant.

    - `ranked`: the contestants, the fastest first.
    - `base`: the reference.
    - `axes`: what names them.
    """
    first = ranked[0]
    key = key_of(first)
    row = {
        "name": _name(first, axes),
        "contestants": len(ranked),
        "suspect": bool(first["suspect"]),
        "slowed": measured.estimates.is_slowed(key),
        "seconds": first["epoch_seconds"],
        "speedup": first["speedup"],
        "words": first["words"],
        "equal": first["equal"],
    }
    if base in measured.groups:
        row["reference_suspect"] = bool(measured.groups[base]["suspect"].any())
    if len(ranked) == 1:
        return {**row, "low": first["speedup_low"], "high": first["speedup_high"]}

    comparisons = len(ranked) - 1
    if first["words"] in COMPARED:
        ratio = measured.estimates.ratio(key, base, comparisons)
        row |= ratio.columns("speedup", "low", "high")
        row["words"] = ratio_text(ratio)
    second = ranked[1]
    lead = measured.estimates.ratio(key, key_of(second), comparisons)
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
    is_extra = table["lead_low"].notna() & ~table["lead_is_speedup"].eq(True)
    return int(is_extra.sum())


def _name(row: Row, axes: Sequence[str]) -> str:
    """The values of `axes` as text, or the model if all of them are empty."""
    values = [str(row[axis]) for axis in axes if row[axis]]
    return ", ".join(values) or str(row["model"])
