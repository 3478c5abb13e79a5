"""Comparison of two selections of configurations, pair by pair, and of each build with the
reference build on the same device."""

from __future__ import annotations

import fnmatch
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rnnbench.axes import CONFIGURATION, KEY
from rnnbench.tables.certificates import UNEQUAL, Certificates
from rnnbench.tables.estimates import Estimates
from rnnbench.tables.frame import Groups, counts, run_values, split
from rnnbench.tables.reference import key_of
from rnnbench.tables.stats import Ratio
from rnnbench.tables.time import (
    FASTER,
    NOT_EQUAL,
    SLOWER,
    ratio_columns,
    ratio_text,
    wrong_steps,
)

VERSUS_COLUMNS = [
    "same", "a", "b", "runs_a", "runs_b", "seconds_a", "seconds_b", "ratio", "low", "high",
    "method", "words", "suspect", "equal", "equal_why", "unequal", "difference",
]  # fmt: skip
NOTABLE = 0.02  # a significant slowdown below 2 % is not reported as a regression
BUILD_COLUMNS = [
    *CONFIGURATION, "against", "runs", "suspect", "epoch_seconds", "epoch_low", "epoch_high",
    "change", "change_low", "change_high", "effect", "shown_different", "regression", "words",
]  # fmt: skip


def versus(
    frame: pd.DataFrame,
    a: Sequence[str],
    b: Sequence[str],
    certificates: Certificates = Certificates(),  # noqa: B008 (frozen)
) -> pd.DataFrame:
    """One row per pair of configurations: one that matches all terms of `a`, and one that matches
    all terms of `b`, equal in every axis except those in which the two selections are disjoint. A
    configuration that matches both counts for `a`, or for `b` if nothing else matches `b`.

    Columns: `same` (what the pair shares), `a`, `b` (what distinguishes them), `runs_a`, `runs_b`,
    `seconds_a`, `seconds_b` per epoch, `ratio` = seconds of b / seconds of a (how much faster a is)
    with the 95 % interval `low`, `high`, its `method` and the result as text (`words`), `suspect`
    (bool: one side has suspect runs); `equal`, `equal_why`, `unequal` and `difference` as in the
    time table. A pair that does not compute the same function according to its certificate or
    ``rnn.options`` has `unequal` instead of `ratio`; if one side applies wrong
    gradients, the pair has neither.
    """
    values = run_values(frame, companions=True)
    records = values.to_dict("records")
    in_a, in_b = (np.array([_matches(row, terms) for row in records], bool) for terms in (a, b))
    in_a, in_b = (in_a, in_b & ~in_a) if (in_b & ~in_a).any() else (in_a & ~in_b, in_b)
    values_a, values_b = values[in_a], values[in_b]
    differing = [axis for axis in KEY if set(values_a[axis]).isdisjoint(values_b[axis])]
    if values_a.empty or values_b.empty or not differing:
        return pd.DataFrame(columns=VERSUS_COLUMNS)
    common = [axis for axis in KEY if axis not in differing]
    varied = [axis for axis in common if values[axis].nunique() > 1]
    estimates = Estimates(values)
    groups_b = dict(iter(values_b.groupby(common, sort=False)))
    rows = []
    for key, group_a in values_a.groupby(common, sort=False):
        if key not in groups_b:
            continue
        pairs = itertools.product(
            *(group.groupby(differing, sort=False) for group in (group_a, groups_b[key]))
        )
        for (_, runs_a), (_, runs_b) in pairs:
            first, second = ({name: side[name].iat[0] for name in KEY} for side in (runs_a, runs_b))
            equal = certificates.judge(first, second)
            key_a, key_b = key_of(first), key_of(second)
            ratio: dict[str, Any] = {"words": NOT_EQUAL, "unequal": "", "difference": ""}
            if not wrong_steps(certificates, first, second):
                ratio = ratio_columns(estimates.ratio(key_a, key_b), equal, "ratio", "low", "high")
            rows.append(
                {
                    "same": _selected_text(first, varied),
                    "a": _selected_text(first, differing),
                    "b": _selected_text(second, differing),
                    "runs_a": int((~runs_a["companion"]).sum()),
                    "runs_b": int((~runs_b["companion"]).sum()),
                    "seconds_a": estimates.seconds(key_a).estimate,
                    "seconds_b": estimates.seconds(key_b).estimate,
                    **ratio,
                    "suspect": bool(runs_a["suspect"].any() or runs_b["suspect"].any()),
                    "equal": equal[0],
                    "equal_why": equal[1],
                }
            )
    return pd.DataFrame(rows, columns=VERSUS_COLUMNS)


def void_messages(frame: pd.DataFrame, terms: Sequence[str]) -> list[str]:
    """A message that runs which match all `terms` are void and thus in no comparison, with the most
    common reason; empty if none is void."""
    void = frame[(frame["phase"] == "run") & (frame["verdict"] == "void")]
    matching = [row for row in void.to_dict("records") if _matches(row, terms)]
    if not matching:
        return []
    ((why, _),) = Counter(row["reasons"] for row in matching).most_common(1)
    if len(matching) == 1:
        return [f"{matching[0]['name']} is void and in no number: {why}"]
    return [f"{len(matching)} runs of {','.join(terms)!r} are void and in no number: {why}"]


def _selected_text(configuration: Mapping[str, Any], axes: Sequence[str]) -> str:
    """The values of `axes`, without the options that `variant` already contains."""
    options = configuration["options"].those(lambda key: configuration["variant"].get(key) is None)
    texts = {**configuration, "options": options}
    return " ".join(filter(None, (str(texts[axis]) for axis in axes)))


def _matches(row: dict[Any, Any], terms: Sequence[str]) -> bool:
    """Whether each term is a choice, machine or override of the run, or a pattern of its name."""
    values = {str(row[axis]) for axis in KEY}
    values |= {part for axis in ("variant", "options") for part in row[axis].texts}
    return all(
        term in values or fnmatch.fnmatchcase(str(row["name"]), term) for term in terms if term
    )


def builds(
    frame: pd.DataFrame,
    reference: Mapping[str, str],
    certificates: Certificates = Certificates(),  # noqa: B008 (frozen)
) -> pd.DataFrame:
    """One row per configuration that was measured in more than one build; empty for one build.

    Columns: the configuration; `against` (the reference build: the build that `reference` names,
    else the first); `runs`, `suspect` (numbers of runs); `epoch_seconds` with its 95 % interval
    `epoch_low`, `epoch_high`; `change` = own seconds / seconds of the reference build (above 1:
    slower) with its 95 % interval `change_low`, `change_high`, computed as in the time table;
    `effect`: the change of log seconds in standard deviations between runs, pooled over both
    configurations (Cohen's d; missing for a single run); `shown_different` (bool: the interval
    excludes 1); `regression` (bool: `shown_different`, and slower by more than 2 %); `words`: the
    result as text.
    """
    values = run_values(frame, companions=True)
    if values["build"].nunique() < 2:
        return pd.DataFrame(columns=BUILD_COLUMNS)
    estimates = Estimates(values)
    groups = split(values[~values["companion"]], KEY, ["seconds", "suspect", "implementation"])
    preferred = reference.get("build") or values["build"].iloc[0]
    all_but_build = [name for name in KEY if name != "build"]
    rows: list[dict[str, Any]] = []
    for _, family in values.groupby(all_but_build, sort=False):
        names = list(dict.fromkeys(family["build"]))
        if len(names) < 2:
            continue
        against = preferred if preferred in names else names[0]
        for name in names:
            own = {**{axis: family.iloc[0][axis] for axis in KEY}, "build": name}
            base = {**own, "build": against}
            rows.append(_build_row(groups, own, base, certificates, estimates))
    return pd.DataFrame(rows, columns=BUILD_COLUMNS)


def _build_row(
    groups: Groups,
    configuration: Mapping[str, Any],
    base: Mapping[str, Any],
    certificates: Certificates,
    estimates: Estimates,
) -> dict[str, Any]:
    key, base_key = key_of(configuration), key_of(base)
    own, other = groups[key], groups[base_key]
    seconds = estimates.seconds(key)
    row = {
        **configuration,
        **counts(own),
        "against": base["build"],
        **seconds.columns("epoch_seconds", "epoch_low", "epoch_high"),
        "shown_different": False,
        "regression": False,
        "words": "reference",
    }
    if configuration["build"] == base["build"]:
        return {**row, "change": 1.0}
    if wrong := wrong_steps(certificates, configuration, base):
        return {**row, "words": wrong}
    if certificates.judge(configuration, base)[0] == UNEQUAL:
        return {**row, "words": NOT_EQUAL}
    # The speed-up of the reference build over this one.
    ratio = estimates.ratio(base_key, key)
    slower = ratio.shown_different and ratio.estimate > 1 + NOTABLE
    return {
        **row,
        **ratio.columns("change"),
        "effect": _effect_size(own["seconds"], other["seconds"]),
        "shown_different": ratio.shown_different,
        "regression": slower,
        "words": _change_text(ratio),
    }


def _change_text(ratio: Ratio) -> str:
    text = ratio_text(ratio)
    return {FASTER: SLOWER, SLOWER: FASTER}.get(text, text)


def _effect_size(a: np.ndarray, b: np.ndarray) -> float | None:
    """(mean log a - mean log b) / pooled standard deviation of log seconds."""
    if len(a) < 2 or len(b) < 2:
        return None
    x, y = np.log(a), np.log(b)
    squares = ((x - x.mean()) ** 2).sum() + ((y - y.mean()) ** 2).sum()
    spread = float(np.sqrt(squares / (len(a) + len(b) - 2)))
    return float(x.mean() - y.mean()) / spread if spread > 0 else None
