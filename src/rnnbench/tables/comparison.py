"""Comparison of two selections of configurations, pair by pair; and of each build with the
reference build on the same device."""

from __future__ import annotations

import fnmatch
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from rnnbench.axes import CONFIGURATION, KEY, Row
from rnnbench.tables.estimates import Key, Measurements
from rnnbench.tables.frame import Groups, columns_of, identified, split, varying
from rnnbench.tables.outcome import Outcome
from rnnbench.tables.time import compared

VERSUS_COLUMNS = [
    "same",
    "a",
    "b",
    "runs_a",
    "runs_b",
    "seconds_a",
    "seconds_b",
    "ratio",
    "low",
    "high",
    "method",
    "words",
    "suspect",
    "equal",
    "equal_why",
    "unequal",
    "difference",
]
BUILD = KEY.index("build")
NOTABLE = 0.02  # a significant slowdown below 2 % is not reported as a regression
BUILD_COLUMNS = [
    *CONFIGURATION,
    "against",
    "runs",
    "suspect",
    "epoch_seconds",
    "epoch_low",
    "epoch_high",
    "change",
    "change_low",
    "change_high",
    "effect",
    "shown_different",
    "regression",
    "words",
]


def versus(measured: Measurements, a: Sequence[str], b: Sequence[str]) -> pd.DataFrame:
    """One row per pair of configurations: one that matches all terms of `a`, and one that matches
    all terms of `b`, equal in every axis except those in which the two selections are disjoint. A
    configuration that matches both counts for `a`, or for `b` if nothing else matches `b`.

    Columns:

    - `same`: what the pair shares; `a`, `b`: what distinguishes them.
    - `runs_a`, `runs_b`; `seconds_a`, `seconds_b` per epoch.
    - `ratio` = seconds of b / seconds of a (how much faster a is) with the 95 % interval `low`,
      `high`.
    - the other columns of `time.compared`.
    - `suspect` (bool: one side has suspect runs).
    """
    values = measured.values
    values_a = selected(values, a)
    values_b = selected(values, b)
    only_b = values_b.drop(values_a.index, errors="ignore")
    if only_b.empty:
        values_a = values_a.drop(values_b.index)
    else:
        values_b = only_b

    differing = []
    common = []
    for axis in KEY:
        if set(values_a[axis]).isdisjoint(values_b[axis]):
            differing.append(axis)
        else:
            common.append(axis)
    if values_a.empty or values_b.empty or not differing:
        return pd.DataFrame(columns=VERSUS_COLUMNS)

    varied = varying(values, common)
    groups_b = _by_axes(values_b, common)
    rows = []
    for shared, of_a in _by_axes(values_a, common).items():
        for own, runs_a in of_a.items():
            for other, runs_b in groups_b.get(shared, {}).items():
                row = _versus_row(measured, own, other)
                row["same"] = _selected_text(own, varied)
                row["a"] = _selected_text(own, differing)
                row["b"] = _selected_text(other, differing)
                row["runs_a"] = int((~runs_a["companion"]).sum())
                row["runs_b"] = int((~runs_b["companion"]).sum())
                row["suspect"] = runs_a["suspect"].any() or runs_b["suspect"].any()
                rows.append(row)
    return pd.DataFrame(rows, columns=VERSUS_COLUMNS)


def versus_each(measured: Measurements, selections: Sequence[Sequence[str]]) -> pd.DataFrame:
    """The rows of `versus` for every two of the `selections`, which are lists of terms."""
    tables = [versus(measured, a, b) for a, b in combinations(selections, 2)]
    found = [table for table in tables if not table.empty]
    if not found:
        return tables[0]
    return pd.concat(found, ignore_index=True)


def _versus_row(measured: Measurements, a: Key, b: Key) -> Row:
    """The columns of a pair of configurations that follow from their times: `seconds_a`,
    `seconds_b`, `ratio` with its interval, and those of `time.compared`."""
    result = compared(measured, a, b)
    row = result.as_row()
    row["seconds_a"] = measured.estimates.seconds(a).estimate
    row["seconds_b"] = measured.estimates.seconds(b).estimate
    if result.speedup:
        row |= result.speedup.columns("ratio", "low", "high")
    else:
        row["words"] = Outcome.ANOTHER_FUNCTION
    return row


def _by_axes(values: pd.DataFrame, axes: Sequence[str]) -> dict[Key, Groups]:
    """Values of `axes` → the configurations that have them, with their runs."""
    found: dict[Key, Groups] = defaultdict(dict)
    for key, runs in split(values, KEY, ["companion", "suspect"]).items():
        columns = columns_of(key)
        shared = tuple(columns[axis] for axis in axes)
        found[shared][key] = runs
    return found


def _selected_text(key: Key, axes: Sequence[str]) -> str:
    """The values of `axes` as text.

    - `key`: a configuration.
    - `axes`: some of `KEY`; options that the variant already contains are left out.
    """
    values = columns_of(key)
    variant = values["variant"]
    values["options"] = values["options"].those(lambda option: variant.get(option) is None)
    return " ".join(str(values[axis]) for axis in axes if values[axis])


def void_messages(frame: pd.DataFrame, selections: Sequence[Sequence[str]]) -> list[str]:
    """For each of the `selections`, a message that runs which match all terms are void and in no
    number, with the most common reason.

    Only the void runs of experiments that have runs of at least two selections count.
    """
    runs = frame[frame["phase"] == "run"]
    chosen = [selected(runs, terms) for terms in selections]
    counts: Counter[str] = Counter()
    for matching in chosen:
        counts.update(set(matching["experiment"]))
    both = {name for name, count in counts.items() if count > 1}
    messages = []
    for terms, matching in zip(selections, chosen, strict=True):
        is_void = matching["verdict"].eq("void")
        void = matching[is_void & matching["experiment"].isin(both)]
        if void.empty:
            continue
        what = f"{len(void)} runs of {','.join(terms)!r} are"
        if len(void) == 1:
            what = f"{void['name'].iloc[0]} is"
        why = statistics.mode(void["reasons"])
        messages.append(f"{what} void and in no number: {why}")
    return messages


def selected(runs: pd.DataFrame, *selections: Sequence[str]) -> pd.DataFrame:
    """The `runs` that match all terms of one of the `selections`.

    A term is a choice, a machine, an override, or a pattern of the name of a run.
    """
    chosen = []
    for row in runs.to_dict("records"):
        matches = [_matches(row, terms) for terms in selections]
        chosen.append(any(matches))
    return runs[np.array(chosen, bool)]


def _matches(row: Row, terms: Sequence[str]) -> bool:
    """Whether each term is a choice, machine or override of the run, or a pattern of its name."""
    values = [str(row[axis]) for axis in KEY]
    values += row["variant"].texts + row["options"].texts
    for term in terms:
        if term and term not in values and not fnmatch.fnmatchcase(row["name"], term):
            return False
    return True


def builds(measured: Measurements) -> pd.DataFrame:
    """One row per configuration that was measured in more than one build; empty for one build.

    Columns:

    - the configuration; `runs`, `suspect`.
    - `against`: the reference build, which is the build that the reference names, else the first.
    - `epoch_seconds` with the 95 % interval `epoch_low`, `epoch_high`.
    - `change` = own seconds / seconds of the reference build (above 1: slower) with its interval,
      computed as in the time table.
    - `effect`: the change of log seconds in standard deviations between runs, pooled over both
      configurations (Cohen's d; missing for a single run).
    - `shown_different` (bool: the interval excludes 1).
    - `regression` (bool: `shown_different`, and slower by more than 2 %).
    - `words`: the result as text.
    """
    families: dict[Key, dict[str, Key]] = defaultdict(dict)  # of equal other axes, by build
    preferred = measured.reference.get("build", "")
    for key in measured.groups:
        build = key[BUILD]
        preferred = preferred or build
        other_axes = key[:BUILD] + key[BUILD + 1 :]
        families[other_axes][build] = key

    rows = []
    for by_build in families.values():
        if len(by_build) > 1:
            first = next(iter(by_build.values()))
            base = by_build.get(preferred, first)
            rows += [_build_row(measured, key, base) for key in by_build.values()]
    return pd.DataFrame(rows, columns=BUILD_COLUMNS)


def _build_row(measured: Measurements, key: Key, base: Key) -> Row:
    """The row of a configuration, compared with that of the reference build, `base`."""
    runs = measured.groups[key]
    seconds = measured.estimates.seconds(key)
    result = compared(measured, key, base)
    row = {
        **identified(key, runs),
        **result.as_row(),
        "against": base[BUILD],
        **seconds.columns("epoch_seconds", "epoch_low", "epoch_high"),
        "regression": False,
    }
    if key == base:
        row["change"] = 1.0
    elif result.speedup:
        change = measured.estimates.ratio(base, key)  # the speed-up of the reference build
        row |= change.columns("change")
        row["effect"] = _effect_size(runs["seconds"], measured.groups[base]["seconds"])
        row["regression"] = change.shown_different and change.estimate > 1 + NOTABLE
    return row


def _effect_size(a: np.ndarray, b: np.ndarray) -> float | None:
    """(mean log a - mean log b) / pooled standard deviation of log seconds (Cohen's d).

    `a`, `b`: the seconds of the runs of two configurations.

    Returns None for a single run, and if all runs of each are equal.
    """
    if len(a) < 2 or len(b) < 2:
        return None
    means = []
    squares = 0.0
    for logs in (np.log(a), np.log(b)):
        mean = logs.mean()
        means.append(mean)
        squares += ((logs - mean) ** 2).sum()
    degrees_of_freedom = len(a) + len(b) - 2
    spread = math.sqrt(squares / degrees_of_freedom)
    if not spread > 0:
        return None
    return float(means[0] - means[1]) / spread
