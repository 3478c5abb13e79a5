"""Comparison of two selections of configurations, pair by pair."""

from __future__ import annotations

import fnmatch
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rnnbench.axes import KEY
from rnnbench.tables.certificates import UNEQUAL, Certificates
from rnnbench.tables.estimates import Estimates
from rnnbench.tables.reference import key_of
from rnnbench.tables.stats import Ratio
from rnnbench.tables.time import NOT_EQUAL, ratio_text, wrong_steps
from rnnbench.tables.unequal_ratio import difference, unequal
from rnnbench.tables.usable_runs import run_values

VERSUS_COLUMNS = [
    "same", "a", "b", "runs_a", "runs_b", "seconds_a", "seconds_b", "ratio", "low", "high",
    "method", "words", "suspect", "equal", "equal_why", "unequal", "difference",
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
            equal, why = certificates.judge(first, second)
            key_a, key_b = key_of(first), key_of(second)
            ratio = estimates.ratio(key_a, key_b)
            rows.append(
                {
                    "same": _text(first, varied),
                    "a": _text(first, differing),
                    "b": _text(second, differing),
                    "runs_a": int((~runs_a["companion"]).sum()),
                    "runs_b": int((~runs_b["companion"]).sum()),
                    "seconds_a": estimates.seconds(key_a).estimate,
                    "seconds_b": estimates.seconds(key_b).estimate,
                    **_ratio(ratio, equal, why, wrong_steps(certificates, first, second)),
                    "suspect": bool(runs_a["suspect"].any() or runs_b["suspect"].any()),
                    "equal": equal,
                    "equal_why": why,
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


def _text(configuration: Mapping[str, Any], axes: Sequence[str]) -> str:
    """The values of `axes`, without the options that `variant` already contains."""
    options = configuration["options"].those(lambda key: configuration["variant"].get(key) is None)
    texts = {**configuration, "options": options}
    return " ".join(filter(None, (str(texts[axis]) for axis in axes)))


def _ratio(ratio: Ratio, equal: str, why: str, wrong: str) -> dict[str, object]:
    comparable = {"unequal": "", "difference": ""}
    if wrong:
        return {**comparable, "words": NOT_EQUAL}
    if equal == UNEQUAL:
        return {"words": NOT_EQUAL, "method": ratio.method, "unequal": unequal(ratio),
                "difference": difference(why)}  # fmt: skip
    return {**comparable, **ratio.columns("ratio", "low", "high"), "method": ratio.method,
            "words": ratio_text(ratio)}  # fmt: skip


def _matches(row: dict[Any, Any], terms: Sequence[str]) -> bool:
    """Whether each term is a choice, machine or override of the run, or a pattern of its name."""
    values = {str(row[axis]) for axis in KEY}
    values |= {part for axis in ("variant", "options") for part in row[axis].texts}
    return all(
        term in values or fnmatch.fnmatchcase(str(row["name"]), term) for term in terms if term
    )
