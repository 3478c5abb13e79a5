"""Any two selections of cells against each other, cell by cell."""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rnnbench.tables.certificates import UNEQUAL, Certificates
from rnnbench.tables.frame import function_words
from rnnbench.tables.pooling import pooled_spreads, shared
from rnnbench.tables.stats import Ratio
from rnnbench.tables.time import KEY, NOT_EQUAL, RUN, compare, in_words, wrong_steps
from rnnbench.tables.unequal_ratio import difference, unequal
from rnnbench.tables.usable_runs import run_values

if TYPE_CHECKING:
    import pandas as pd

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
    """One row per pair of cells, one that all words of `a` choose and one of `b`, alike in every
    axis but those in which the words of `a` and `b` differ. What both choose stands for `a`, or for
    `b` where that has nothing else.

    Columns: `same` (what they share), `a`, `b` (what tells them apart), `runs_a`, `runs_b`,
    `seconds_a`, `seconds_b` per epoch (geometric means), `ratio` = b's seconds / a's (how
    much faster a is) with 95 % `low`, `high`, `method`, `words`, `suspect` (bool); `equal` and
    `equal_why`, `unequal` and `difference` as in the time table. A pair whose certificate or
    ``rnn.options`` say that it is not the same function has no `ratio`, but `unequal` in its place;
    where one does not learn what it computes it has neither.
    """
    import numpy as np
    import pandas as pd

    values = run_values(frame, companions=True)
    rows_of = values.to_dict("records")
    of_a, of_b = (np.array([_chosen(row, words) for row in rows_of], bool) for words in (a, b))
    of_a, of_b = (of_a, of_b & ~of_a) if (of_b & ~of_a).any() else (of_a & ~of_b, of_b)
    mine, theirs = values[of_a], values[of_b]
    if mine.empty or theirs.empty:
        return pd.DataFrame(columns=VERSUS_COLUMNS)
    apart = [axis for axis in KEY if set(mine[axis]) & set(theirs[axis]) == set()]
    alike = [axis for axis in KEY if axis not in apart]
    spreads = pooled_spreads(values, KEY)
    others = dict(iter(theirs.groupby(alike, sort=False)))
    rows = []
    for key, own in mine.groupby(alike, sort=False):
        for _, one in own.groupby(apart, sort=False) if apart else [((), own)]:
            found = others.get(key)
            for _, other in found.groupby(apart, sort=False) if found is not None and apart else ():
                first, second = ({name: side[name].iat[0] for name in KEY} for side in (one, other))
                equal, why = certificates.judge(first, second)
                left, right = (
                    {name: side[name].to_numpy() for name in RUN} for side in (one, other)
                )
                ratio = compare(left, right, shared(spreads, first, second))
                varied = [name for name in alike if values[name].nunique() > 1]
                rows.append(
                    {
                        "same": _said(first, varied),
                        "a": _said(first, apart),
                        "b": _said(second, apart),
                        "runs_a": int((~one["companion"]).sum()),
                        "runs_b": int((~other["companion"]).sum()),
                        "seconds_a": _mean(one),
                        "seconds_b": _mean(other),
                        **_ratio(ratio, equal, why, wrong_steps(certificates, first, second)),
                        "suspect": bool(one["suspect"].any() or other["suspect"].any()),
                        "equal": equal,
                        "equal_why": why,
                    }
                )
    return pd.DataFrame(rows, columns=VERSUS_COLUMNS)


def void_words(frame: pd.DataFrame, words: Sequence[str]) -> list[str]:
    """That runs which all of `words` choose are void, so in no comparison, with the commonest
    reason; nothing where none is."""
    void = frame[(frame["phase"] == "run") & (frame["verdict"] == "void")]
    chosen = [row for row in void.to_dict("records") if _chosen(row, words)]
    if not chosen:
        return []
    ((why, _),) = Counter(row["reasons"] for row in chosen).most_common(1)
    if len(chosen) == 1:
        return [f"{chosen[0]['name']} is void and in no number: {why}"]
    return [f"{len(chosen)} runs of {','.join(words)!r} are void and in no number: {why}"]


def _mean(runs: pd.DataFrame) -> float:
    """The geometric mean of the seconds of `runs`, companions apart."""
    import numpy as np

    return float(np.exp(np.log(runs.loc[~runs["companion"], "seconds"]).mean()))


def _said(cell: Mapping[str, Any], axes: Sequence[str]) -> str:
    """What a cell has of `axes`; options that `variant` says already only once."""
    function = function_words(cell)
    options = [word for word in str(cell["options"]).split(", ") if word not in function]
    texts = {**cell, "options": ", ".join(options)}
    return " ".join(filter(None, (str(texts[axis]) for axis in axes)))


def _ratio(ratio: Ratio, equal: str, why: str, wrong: str) -> dict[str, object]:
    no_other = {"unequal": "", "difference": ""}
    if wrong:
        return {**no_other, "words": NOT_EQUAL}
    if equal == UNEQUAL:
        return {"words": NOT_EQUAL, "method": ratio.method, "unequal": unequal(ratio),
                "difference": difference(why)}  # fmt: skip
    return {**no_other, "ratio": ratio.estimate, "low": ratio.low, "high": ratio.high,
            "method": ratio.method, "words": in_words(ratio)}  # fmt: skip


def _chosen(row: dict[object, object], words: Sequence[str]) -> bool:
    """Whether every word is a choice, a machine or an override of the run, or fits its name."""
    facts = {str(row[axis]) for axis in KEY}
    facts |= {word for axis in ("variant", "options") for word in str(row[axis]).split(", ")}
    return all(
        word in facts or fnmatch.fnmatchcase(str(row["name"]), word) for word in words if word
    )
