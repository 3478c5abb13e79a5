"""Do the published rows support what is said of them? Claims and rows → one table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rnnbench.sources.claims import Claim
from rnnbench.sources.published import PublishedRow
from rnnbench.tables.articles import published_frame
from rnnbench.tables.certificates import Certificates
from rnnbench.tables.comparison import versus

if TYPE_CHECKING:
    import pandas as pd

YES, NO, OPEN = "yes", "no", "cannot say"
# How the caveat of a row begins that is not of the function, or not of the epochs, that it is
# compared with.
NOT_ALIKE = ("confounded", "warm-started")
NOT_ALIKE_WORDS = "the rows are not of one function, trained alike (see their caveats)"
OF_THE_CLAIM = ("claim", "words", "source", "address", "measure", "low", "high", "ours_note")
CLAIM_COLUMNS = [
    "claim", "words", "source", "address", "measure", "low", "high", "numbers", "rows", "pairs",
    "found_low", "found_high", "fits", "supported", "why", "ours_note", "from", "set_against",
]  # fmt: skip


def claims_table(claims: Sequence[Claim], published: Sequence[PublishedRow]) -> pd.DataFrame:
    """One row per claim: what it says, `low` and `high` (what its words allow), on how many `rows`
    and `pairs` of the published tables it rests, the `numbers` of these in words, `found_low` and
    `found_high` (the smallest and largest number; of the test ``mean`` both are the mean), `fits`
    (how many are allowed), whether the claim is `supported` by them (``yes``, ``no``,
    ``cannot say``) and `why` in words where that is not ``yes``; `ours_note` as in the file;
    `from`, whose rows they are, and `set_against`, which of them.
    """
    import pandas as pd

    table = published_frame(published)
    rows = [
        {**{name: getattr(claim, name) for name in OF_THE_CLAIM},
         "from": claim.rows, "set_against": _set_against(claim), **_judged(claim, table)}
        for claim in claims
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=CLAIM_COLUMNS)


def measured_claims(
    claims: Sequence[Claim], frame: pd.DataFrame, certificates: Certificates
) -> dict[str, pd.DataFrame]:
    """Claim → the pairs of measured cells (`versus`) that stand for it; without those for which
    nothing was measured. `frame`: the tidy frame of one machine's runs."""
    found = {
        claim.claim: versus(frame, claim.ours_a.split(","), claim.ours_b.split(","), certificates)
        for claim in claims
        if claim.ours_a and claim.ours_b
    }
    return {claim: table for claim, table in found.items() if not table.empty}


def _judged(claim: Claim, table: pd.DataFrame) -> dict[str, Any]:
    table = table.assign(row=range(len(table)))
    own = table[(table["source"] == claim.rows) & ~table["below"].astype(bool)]
    over, of = _fitting(own, claim.over), _fitting(own, claim.of)
    if claim.measure == "front":
        return _front(claim, over, of)
    both = over.merge(of, on=list(claim.paired_by), suffixes=("_over", "_of"))
    if both.empty:
        return _none(0)
    pairs = both.to_dict("records")
    column = "train_seconds" if claim.measure == "time" else "val_acc"
    found = [(row[f"{column}_over"], row[f"{column}_of"]) for row in pairs]
    each = [a / b if claim.measure == "time" else a - b for a, b in found]
    values = [math.exp(sum(map(math.log, each)) / len(each))] if claim.test == "mean" else each
    fits = sum(_fits(claim, value) for value in values)
    enough = fits > len(values) / 2 if claim.test == "most" else fits == len(values)
    verdict, why = YES if enough else NO, "" if enough else _why(values, fits)
    caveats = [str(row[f"caveat_{side}"]) for row in pairs for side in ("over", "of")]
    if any(text.startswith(NOT_ALIKE) for text in caveats):
        verdict = OPEN if claim.measure == "accuracy" else verdict
        why = "; ".join(filter(None, (why, NOT_ALIKE_WORDS)))
    return {
        "numbers": "; ".join(_in_words(claim, a, b) for a, b in found) if len(found) < 4 else "",
        "rows": len({row[f"row_{side}"] for row in pairs for side in ("over", "of")}),
        "pairs": len(pairs),
        "found_low": min(values),
        "found_high": max(values),
        "fits": fits,
        "supported": verdict,
        "why": why,
    }


def _set_against(claim: Claim) -> str:
    over, of = (
        ", ".join(f"{name} {value}" for name, value in side.items())
        for side in (claim.over, claim.of)
    )
    by = " and ".join(name.replace("_", " ") for name in claim.paired_by)
    return f"{over} against {of}, by {by}"


def _front(claim: Claim, over: pd.DataFrame, of: pd.DataFrame) -> dict[str, Any]:
    """Whether no place of `over` is, over the workloads, both faster and cheaper than `of`:
    geometric means of seconds and of USD, relative to it."""
    beside = over.merge(of, on=list(claim.paired_by), suffixes=("", "_of"))
    if beside.empty:
        return _none(0)
    import numpy as np

    time = beside["train_seconds"] / beside["train_seconds_of"]
    usd = time * beside["price_usd_per_hour"] / beside["price_usd_per_hour_of"]
    beside = beside.assign(time=np.log(time), usd=np.log(usd))
    means = np.exp(beside.groupby(["vcpus", "build"], sort=False)[["time", "usd"]].mean())
    better = means[(means["time"] < 1) & (means["usd"] < 1)]
    others = means[(means["time"] != 1) | (means["usd"] != 1)]
    said = "; ".join(
        f"{int(key[0])} vCPUs {str(key[1]).partition(' ')[0]}: {row['time']:.2f} of its time, "
        f"{row['usd']:.2f} of its cost"
        for key, row in others.iterrows()
        if row["time"] < 1 or row["usd"] < 1
    )
    return {
        "numbers": said,
        "rows": len(over),
        "pairs": len(beside),
        "fits": len(others) - len(better),
        "supported": NO if len(better) else YES,
        "why": f"{len(better)} are both faster and cheaper" if len(better) else "",
    }


def _fitting(table: pd.DataFrame, wanted: Mapping[str, str]) -> pd.DataFrame:
    for column, value in wanted.items():
        numbers = table[column].dtype.kind in "if"
        table = table[table[column] == (float(value) if numbers else value)]
    return table


def _fits(claim: Claim, value: float) -> bool:
    return (claim.low is None or value >= claim.low) and (claim.high is None or value <= claim.high)


def _why(values: Sequence[float], fits: int) -> str:
    if len(values) == 1:
        return "it is another number"
    outside = len(values) - fits
    return f"{outside} of {len(values)} {'is' if outside == 1 else 'are'} outside"


def _in_words(claim: Claim, a: float, b: float) -> str:
    if claim.measure == "time":
        return f"{a:g} s / {b:g} s = {a / b:.2f}"
    return f"{a:g} - {b:g} = {a - b:+.4f}"


def _none(rows: int) -> dict[str, Any]:
    return {"numbers": "", "rows": rows, "pairs": 0, "fits": 0, "supported": OPEN,
            "why": "no published row fits"}  # fmt: skip
