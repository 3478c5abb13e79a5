"""Comparison of two selections of configurations, pair by pair; of each build with the reference
build on the same device; and of published rows with those that their sources compare them with,
with the verdicts on claims about them. Only numbers of the same source are divided by each other.
"""

from __future__ import annotations

import fnmatch
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from rnnbench.axes import CONFIGURATION, KEY
from rnnbench.sources.published import COLUMNS, Claim, Comparison, PublishedRow, conditions
from rnnbench.tables.estimates import Key, Measurements
from rnnbench.tables.frame import Rows, ends, identified, split
from rnnbench.tables.time import COMPARED, IS_REFERENCE, NOT_EQUAL, compared

VERSUS_COLUMNS = [
    "same", "a", "b", "runs_a", "runs_b", "seconds_a", "seconds_b", "ratio", "low", "high",
    "method", "words", "suspect", "equal", "equal_why", "unequal", "difference",
]  # fmt: skip
RENAMED = {"speedup": "ratio", "speedup_low": "low", "speedup_high": "high"}
BUILD = KEY.index("build")
NOTABLE = 0.02  # a significant slowdown below 2 % is not reported as a regression
BUILD_COLUMNS = [
    *CONFIGURATION, "against", "runs", "suspect", "epoch_seconds", "epoch_low", "epoch_high",
    *ends("change"), "effect", "shown_different", "regression", "words",
]  # fmt: skip
RATIOS = {"time": "train_seconds", "cost": "usd", "price": "price_usd_per_hour"}
HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot say"


def versus(measured: Measurements, a: Sequence[str], b: Sequence[str]) -> pd.DataFrame:
    """One row per pair of configurations: one that matches all terms of `a`, and one that matches
    all terms of `b`, equal in every axis except those in which the two selections are disjoint. A
    configuration that matches both counts for `a`, or for `b` if nothing else matches `b`.

    Columns: `same` (what the pair shares), `a`, `b` (what distinguishes them), `runs_a`, `runs_b`,
    `seconds_a`, `seconds_b` per epoch; `ratio` = seconds of b / seconds of a (how much faster a is)
    with the 95 % interval `low`, `high`, and the other columns of `time.compared`; `suspect` (bool:
    one side has suspect runs).
    """
    values, estimates = measured.values, measured.estimates
    records = values.to_dict("records")
    in_a, in_b = (np.array([_matches(row, terms) for row in records], bool) for terms in (a, b))
    in_a, in_b = (in_a, in_b & ~in_a) if (in_b & ~in_a).any() else (in_a & ~in_b, in_b)
    values_a, values_b = values[in_a], values[in_b]
    differing = [axis for axis in KEY if set(values_a[axis]).isdisjoint(values_b[axis])]
    if values_a.empty or values_b.empty or not differing:
        return pd.DataFrame(columns=VERSUS_COLUMNS)
    common = [axis for axis in KEY if axis not in differing]
    varied = [axis for axis in common if values[axis].nunique() > 1]
    groups_a, groups_b = (_by_axes(side, common) for side in (values_a, values_b))
    rows = []
    for shared, of_a in groups_a.items():
        for (own, runs_a), (other, runs_b) in itertools.product(of_a, groups_b.get(shared, ())):
            first, second = (dict(zip(KEY, key, strict=True)) for key in (own, other))
            result = compared(measured, own, other)
            words = result["words"] if result["words"] in COMPARED else NOT_EQUAL
            rows.append(
                {
                    "same": _selected_text(first, varied),
                    "a": _selected_text(first, differing),
                    "b": _selected_text(second, differing),
                    "runs_a": int((~runs_a["companion"]).sum()),
                    "runs_b": int((~runs_b["companion"]).sum()),
                    "seconds_a": estimates.seconds(own).estimate,
                    "seconds_b": estimates.seconds(other).estimate,
                    **{RENAMED.get(name, name): value for name, value in result.items()},
                    "words": words,
                    "suspect": bool(runs_a["suspect"].any() or runs_b["suspect"].any()),
                }
            )
    return pd.DataFrame(rows, columns=VERSUS_COLUMNS)


def _by_axes(values: pd.DataFrame, axes: Sequence[str]) -> dict[Key, list[tuple[Key, Rows]]]:
    """Values of `axes` → the configurations that have them, with their runs."""
    found: dict[Key, list[tuple[Key, Rows]]] = {}
    for key, runs in split(values, KEY, ["companion", "suspect"]).items():
        found.setdefault(tuple(key[KEY.index(axis)] for axis in axes), []).append((key, runs))
    return found


def void_messages(frame: pd.DataFrame, a: Sequence[str], b: Sequence[str]) -> list[str]:
    """For `a` and `b`, a message that runs which match all terms are void and in no number, with
    the most common reason. Only the void runs of experiments that have runs of both count."""
    runs = frame[frame["phase"] == "run"]
    of_a, of_b = selected(runs, a), selected(runs, b)
    both = set(of_a["experiment"]) & set(of_b["experiment"])
    messages = []
    for terms, matching in ((a, of_a), (b, of_b)):
        void = matching[matching["verdict"].eq("void") & matching["experiment"].isin(both)]
        if len(void):
            ((why, _),) = Counter(void["reasons"]).most_common(1)
            what = f"{void['name'].iloc[0]} is"
            what = f"{len(void)} runs of {','.join(terms)!r} are" if len(void) > 1 else what
            messages.append(f"{what} void and in no number: {why}")
    return messages


def _selected_text(configuration: Mapping[str, Any], axes: Sequence[str]) -> str:
    """The values of `axes`, without the options that `variant` already contains."""
    options = configuration["options"].those(lambda key: configuration["variant"].get(key) is None)
    texts = {**configuration, "options": options}
    return " ".join(filter(None, (str(texts[axis]) for axis in axes)))


def selected(runs: pd.DataFrame, *selections: Sequence[str]) -> pd.DataFrame:
    """The `runs` that match all terms of one of the `selections`."""
    rows = runs.to_dict("records")
    chosen = [any(_matches(row, terms) for terms in selections) for row in rows]
    return runs[np.array(chosen, bool)]


def _matches(row: dict[Any, Any], terms: Sequence[str]) -> bool:
    """Whether each term is a choice, machine or override of the run, or a pattern of its name."""
    values = {str(row[axis]) for axis in KEY}
    values |= {part for axis in ("variant", "options") for part in row[axis].texts}
    return all(
        term in values or fnmatch.fnmatchcase(str(row["name"]), term) for term in terms if term
    )


def builds(measured: Measurements) -> pd.DataFrame:
    """One row per configuration that was measured in more than one build; empty for one build.

    Columns: the configuration; `against` (the reference build: the build that the reference names,
    else the first); `runs`, `suspect`; `epoch_seconds` with the 95 % interval `epoch_low`,
    `epoch_high`; `change` = own seconds / seconds of the reference build (above 1: slower) with its
    interval, computed as in the time table; `effect`: the change of log seconds in standard
    deviations between runs, pooled over both
    configurations (Cohen's d; missing for a single run); `shown_different` (bool: the interval
    excludes 1); `regression` (bool: `shown_different`, and slower by more than 2 %); `words`: the
    result as text.
    """
    families: dict[Key, list[Key]] = {}
    for key in measured.groups:
        families.setdefault(key[:BUILD] + key[BUILD + 1 :], []).append(key)
    preferred = measured.reference.get("build") or next((key[BUILD] for key in measured.groups), "")
    rows = [
        _build_row(measured, key, next((key for key in keys if key[BUILD] == preferred), keys[0]))
        for keys in families.values()
        if len(keys) > 1
        for key in keys
    ]
    return pd.DataFrame(rows, columns=BUILD_COLUMNS)


def _build_row(measured: Measurements, key: Key, base: Key) -> dict[str, Any]:
    runs, result = measured.groups[key], compared(measured, key, base)
    row = {
        **identified(key, runs),
        **result,
        "against": base[BUILD],
        **measured.estimates.seconds(key).columns("epoch_seconds", "epoch_low", "epoch_high"),
        "regression": False,
    }
    if key == base:
        return {**row, "change": 1.0, "words": IS_REFERENCE}
    if result["words"] not in COMPARED:
        return row
    change = measured.estimates.ratio(base, key)  # the speed-up of the reference build
    return {
        **row,
        **change.columns("change"),
        "effect": _effect_size(runs["seconds"], measured.groups[base]["seconds"]),
        "regression": change.shown_different and change.estimate > 1 + NOTABLE,
    }


def _effect_size(a: np.ndarray, b: np.ndarray) -> float | None:
    """(mean log a - mean log b) / pooled standard deviation of log seconds."""
    if len(a) < 2 or len(b) < 2:
        return None
    x, y = np.log(a), np.log(b)
    squares = ((x - x.mean()) ** 2).sum() + ((y - y.mean()) ** 2).sum()
    spread = float(np.sqrt(squares / (len(a) + len(b) - 2)))
    return float(x.mean() - y.mean()) / spread if spread > 0 else None


def published_frame(rows: Iterable[PublishedRow]) -> pd.DataFrame:
    """One row per published row. Columns: its fields, `below`, `place` (device with vCPUs),
    `us_per_sample`, and `usd` = hours of training · price of an hour."""
    names = [*COLUMNS, "below", "place", "us_per_sample"]
    table = pd.DataFrame([[getattr(row, name) for name in names] for row in rows], columns=names)
    numbers = table[["train_seconds", "price_usd_per_hour"]].astype(float)
    return table.assign(**numbers, usd=numbers.prod(axis=1, skipna=False) / 3600)


def published_pairs(table: pd.DataFrame, comparison: Comparison) -> pd.DataFrame:
    """One row per pair of a row of `comparison` and its base, or per row if it has no base.

    Columns: those of `published_frame` for the row and, with the suffix ``_base``, for its base;
    the ratios row / base `time` (seconds), `cost` (USD) and `price` (USD per hour), and `speedup` =
    1 / `time`, missing without a base.
    """
    own = table[table["source"] == comparison.source].assign(row=lambda rows: range(len(rows)))
    base = _matching(own, comparison.base) if comparison.base else own[:0]
    keys = ["source", *comparison.by.split()]
    pairs = _matching(own, comparison.rows).merge(base, "left", keys, suffixes=("", "_base"))
    pairs = pairs.assign(**{f"{name}_base": pairs[name] for name in keys})
    for name, column in RATIOS.items():
        pairs[name] = pairs[column] / pairs[f"{column}_base"]
    return pairs.assign(speedup=1 / pairs["time"])


def claims_table(claims: Sequence[Claim], table: pd.DataFrame) -> pd.DataFrame:
    """One row per claim. `table` is a `published_frame`; upper bounds of times are not used.

    Columns: those of `Claim`; `values` (its ratios, by the text of what they are for), empty if
    nothing is computed; `tested` (what they are compared with, as text) and `verdict`.
    """
    exact = table[~table["below"].astype(bool)]
    rows: list[dict[str, Any]] = []
    for claim in claims:
        pairs = published_pairs(exact, claim)
        pairs = pairs.dropna(subset="cost" if claim.ratio == "larger" else claim.ratio)
        values = _ratios(pairs, claim)
        rows.append(
            {
                **msgspec.structs.asdict(claim),
                "values": values,
                "tested": _tested(claim, pairs) if claim.base else "",
                "verdict": verdict_of(claim, list(values.values())),
            }
        )
    return pd.DataFrame(rows)


def verdict_of(claim: Claim, ratios: Sequence[float]) -> str:
    """The verdict on a claim with these `ratios`, with the reason if it is not in the claim."""
    if not claim.base:
        return claim.answer
    if not ratios:
        return f"{OPEN}: no published row matches"
    outside = sum(not claim.low <= ratio <= claim.high for ratio in ratios)
    if not outside:
        return claim.answer or HOLDS
    return FAILS + (f": {outside} of {len(ratios)} outside the range" if len(ratios) > 1 else "")


def measured_claims(claims: Sequence[Claim], measured: Measurements) -> dict[str, pd.DataFrame]:
    """Claim → the equivalent pairs of configurations measured on one machine (table of `versus`);
    claims without measured pairs are omitted."""
    sides = {c.claim: [side.split(",") for side in c.ours.split(" / ")] for c in claims if c.ours}
    tables = {claim: versus(measured, a, b) for claim, (a, b) in sides.items()}
    return {claim: table for claim, table in tables.items() if not table.empty}


def _ratios(pairs: pd.DataFrame, claim: Claim) -> dict[str, float]:
    """The geometric mean of the ratios for each value of the columns `claim.each`, by its text."""
    each = [pairs[name].map(_text) for name in claim.each.split()]
    keys = [", ".join(filter(None, texts)) for texts in zip(*each, strict=True)]
    logarithms = pairs[[*RATIOS]].apply(np.log).groupby(keys or pairs["source"], sort=False)
    means = logarithms.mean().apply(np.exp)
    means["larger"] = means[["time", "cost"]].max(axis=1)
    return {str(key) if keys else "": value for key, value in means[claim.ratio].items()}


def _tested(claim: Claim, pairs: pd.DataFrame) -> str:
    by, each = (" and ".join(names.split()) for names in (claim.by, claim.each))
    parts = [f"{claim.ratio} of {claim.rows or 'every row'} / {claim.base}", f"by {by}"]
    parts += [f"for each {each}"] if each else []
    parts += [f"at least {claim.low:g}"] if claim.low > -math.inf else []
    parts += [f"at most {claim.high:g}"] if claim.high < math.inf else []
    rows = pd.concat([pairs["row"], pairs["row_base"]]).nunique()
    return f"{', '.join(parts)} (rows: {rows}, pairs: {len(pairs)})"


def _matching(table: pd.DataFrame, text: str) -> pd.DataFrame:
    for name, accepted in conditions(text).items():
        table = table[table[name].map(_text).isin(accepted)]
    return table


def _text(value: Any) -> str:
    """`value` as in a condition: ``8`` for 8.0, ``""`` if missing."""
    if isinstance(value, str):
        return value
    return "" if pd.isna(value) else f"{value:.15g}"
