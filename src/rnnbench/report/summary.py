"""The answer for many networks: a headline, and a table with one row per network and device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from rnnbench.axes import GROUP, KEY
from rnnbench.records.overrides import reference_label
from rnnbench.report import numbers as n
from rnnbench.report.answer import Answer, excluded, outlier_sentence
from rnnbench.report.labels import (
    configuration_anchors,
    same_group,
    short_group,
    variant_labels,
)
from rnnbench.report.tables import Tables
from rnnbench.report.views import Column, TableView, view_of
from rnnbench.tables.learning import MIN_SEEDS, TOO_FEW_SEEDS
from rnnbench.tables.time import COMPARED, FASTER, IS_REFERENCE, NO_DIFFERENCE

WINNERS = 3  # implementations named in the headline, or one more if it is the last
LAST = ["val_acc", "val_loss"]  # at the last epoch


def _runner_up(row: Mapping[Any, Any]) -> str:
    return n.marked(row["runner_up"], row["runner_up_suspect"]) or n.NOTHING


def _speedup(row: Mapping[Any, Any]) -> str:
    if row["words"] not in COMPARED:
        return str(row["words"])
    base = f" (reference {n.DAGGER})" if row["reference_suspect"] else ""
    return f"{n.ratio(row['speedup'])}{base}"


def _interval(row: Mapping[Any, Any]) -> str:
    text = n.ratio_span(row["low"], row["high"], row["speedup"])
    return f"{text}, {NO_DIFFERENCE}" if row["words"] == NO_DIFFERENCE else text


def _lead(row: Mapping[Any, Any]) -> str:
    text = n.ratio(row["lead"])
    return f"{text}, {NO_DIFFERENCE}" if row["tie"] else text


COLUMNS = (
    Column("fastest", "name", number=False, marked=True),
    Column("speed-up over the reference", text=_speedup),
    Column("95 % CI", text=_interval, quiet=True),
    Column("runner-up", text=_runner_up, number=False, quiet=True),
    Column("time of the runner-up / of the fastest", text=_lead, quiet=True),
    Column("differences in accuracy shown", "differences", number=False),
)
REACHED = (
    Column("implementation", "name", number=False, linked=True),
    Column("seconds per epoch", "seconds", n.plain, marked=True),
    Column("validation accuracy", "val_acc", n.share),
    Column("validation loss", "val_loss", n.plain, quiet=True),
)


def headline(m: Tables) -> Answer:
    """How often each implementation has the shortest epochs, and in how many comparisons no
    difference is shown; then accuracy."""
    rows = m.fastest.to_dict("records")
    places = [f"for {row['model']} on {row['device']}" for row in rows]
    void, outliers = n.sentences(excluded(rows, places)), outlier_sentence(m.alike)
    contests = m.fastest[m.fastest["contestants"] > 1]
    if not m.fastest["contestants"].any():
        return Answer("No run has a comparable result.", void)
    if contests.empty:
        fast = (
            "Each network has been run with only one implementation, so there is nothing to "
            "compare; the table shows the result of each."
        )
        return Answer(fast, f"{void} {outliers}".strip())
    base = f"`{reference_label(m.reference)}`"
    wins = sorted(contests.groupby("name", sort=False), key=lambda item: -len(item[1]))
    named = len(wins) if len(wins) <= WINNERS + 1 else WINNERS
    clauses = [f"`{name}` in {len(won)}{_range(won, base)}" for name, won in wins[:named]]
    if wins[named:]:
        others = sum(len(won) for _, won in wins[named:])
        clauses.append(f"{len(wins) - named} others in {others}")
    comparisons = n.counted(len(contests), "comparison")
    fast = f"Shortest epochs in {comparisons}: {', '.join(clauses)}."
    suspect = contests[["suspect", "reference_suspect", "runner_up_suspect"]].to_numpy().any()
    dagger = f"{n.DAGGER} in the table marks suspect runs." if suspect else ""
    parts = (_caveats(contests, base), void, dagger, _accuracy(m.learning), outliers)
    return Answer(fast, " ".join(part for part in parts if part))


def _caveats(contests: pd.DataFrame, base: str) -> str:
    single = contests["lead_low"].isna() & contests["lead"].notna()
    limits = {
        f"no difference from {base} is shown": contests["words"].eq(NO_DIFFERENCE).sum(),
        "no difference from the runner-up is shown": _is_tie(contests).sum(),
        "a single run cannot show a difference yet": single.sum(),
    }
    clauses = []
    for text, count in limits.items():
        if count:
            clauses.append(f"in {n.counted(count, 'comparison')}, {text}")
    return n.sentences(["; ".join(clauses)]) if clauses else ""


def _is_tie(contests: pd.DataFrame) -> pd.Series[bool]:
    """Whether no difference between the fastest and the runner-up is shown."""
    return contests["lead_low"].notna() & ~contests["lead_shown"].eq(True)


def answer_view(m: Tables) -> TableView:
    """One row per comparison, under its model; if there is none, the results of each
    configuration."""
    contests = m.fastest[m.fastest["contestants"] > 1]
    if contests.empty:
        reached = m.fastest.merge(m.accuracy[[*KEY, *LAST]], on=KEY)
        return view_of(_named(reached, reached), "answer", "Results of each network", "network",
                       "head", REACHED, ["group"])  # fmt: skip
    names = same_group(m.reference)
    others = m.learning[~m.learning["is_reference"].astype(bool)]
    found = {}
    for key, shown in others.groupby(names)["shown_different"]:
        found[key] = f"{int(shown.astype(bool).sum())} of {len(shown)}"
    keys = contests[names].itertuples(index=False, name=None)
    differences = [found.get(key, n.NOTHING) for key in keys]
    contests = contests.assign(tie=_is_tie(contests), differences=differences)
    return view_of(_named(contests, m.fastest), "answer", "Fastest implementation by network",
                   "network", "head", COLUMNS, ["group"])  # fmt: skip


def _named(shown: pd.DataFrame, every: pd.DataFrame) -> pd.DataFrame:
    """`shown` with `group` (the model), `head` (the axes that distinguish the row among `every`
    row; if each model has one row, the model) and `anchor`."""
    machines = every.groupby("device")["machine"].nunique()
    several_places = len(every[["device", "machine"]].drop_duplicates()) > 1
    one_each = bool(shown["model"].is_unique)
    varied = [name for name in GROUP if every[name].nunique() > 1 and not one_each]
    variants = variant_labels(every["variant"])
    heads = []
    for row in shown.to_dict("records"):
        name = short_group({**row, "model": ""}, varied, variants).strip(" ()") or row["model"]
        if several_places:
            name += f" on {row['device']}"
            if machines[row["device"]] > 1:
                name += f" of {row['machine']}"
        heads.append(name)
    return shown.assign(
        head=heads,
        group="" if one_each else shown["model"],
        anchor=configuration_anchors(shown),
    )


def _range(won: pd.DataFrame, base: str) -> str:
    """The range of speed-ups over the reference, of the comparisons that show one."""
    if won["words"].eq(IS_REFERENCE).all():
        return " (the reference)"
    shown = won.loc[won["words"] == FASTER, "speedup"].astype(float)
    if shown.empty:
        return ""
    low, high = n.times(shown.min()), n.times(shown.max())
    if low == high:
        return f" ({low} as fast as {base})"
    return f" ({low.removesuffix(' times')} to {high} as fast as {base})"


def _accuracy(learning: pd.DataFrame) -> str:
    others = learning[~learning["is_reference"].astype(bool)]
    if others.empty:
        return ""
    different = others[others["shown_different"].astype(bool)]
    if different.empty:
        few = f"; {TOO_FEW_SEEDS} cannot show one" if others["seeds"].min() < MIN_SEEDS else ""
        many = n.counted(len(others), "comparison")
        return f"No difference in accuracy is shown in {many} with the reference{few}."
    names = ", ".join(f"`{name}`" for name in different["implementation"].unique())
    share = f"{len(different)} of {len(others)} comparisons"
    return f"A difference in accuracy is shown in {share} with the reference: {names}."
