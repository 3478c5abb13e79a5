"""The answer for many models: a headline, and a table with one row per model and device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from rnnbench.axes import GROUP, KEY
from rnnbench.records.labels import reference_label
from rnnbench.report import numbers as n
from rnnbench.report.anchors import configuration_anchor
from rnnbench.report.answer import ALL_VOID, Answer, capitalized, outlier_sentence
from rnnbench.report.labels import short_group
from rnnbench.report.table_view import Column, Row, TableView, sorted_by_group
from rnnbench.report.variant_labels import variant_labels
from rnnbench.tables.grouping import split
from rnnbench.tables.time import COMPARED, FASTER, IS_REFERENCE, NO_DIFFERENCE

MANY = 6  # answers on a page; if there are more, a headline and a table take their place
WINNERS = 3  # implementations named in the headline, or one more if it is the last
LAST = ["val_acc", "val_loss"]  # at the last epoch
HEADS = (
    Column("fastest", number=False),
    Column("speed-up over the reference"),
    Column("95 % CI", quiet=True),
    Column("runner-up", number=False, quiet=True),
    Column("runner-up / fastest", quiet=True),
    Column("differences in accuracy shown", number=False),
)

REACHED = (
    Column("implementation", number=False),
    Column("seconds per epoch"),
    Column("validation accuracy"),
    Column("validation loss", quiet=True),
)


def is_long(fastest: pd.DataFrame, reference: Mapping[str, str]) -> bool:
    """Whether one answer per group of comparable configurations would be too many."""
    return not fastest.empty and len(fastest[_groups(reference)].drop_duplicates()) > MANY


def headline(
    fastest: pd.DataFrame,
    learning: pd.DataFrame,
    alike: pd.DataFrame,
    reference: Mapping[str, str],
) -> Answer:
    """How often each implementation has the shortest epochs, and in how many comparisons no
    difference is shown; then accuracy. From the tables of these names."""
    base = f"`{reference_label(reference)}`"
    contests = fastest[fastest["contestants"] > 1]
    if not fastest["contestants"].any():
        return Answer("No run has a comparable result.", _excluded(fastest))
    if contests.empty:
        return Answer(
            "Each network has been run with only one implementation, so there is nothing to "
            "compare; the table shows the result of each.",
            f"{_excluded(fastest)} {outlier_sentence(alike)}".strip(),
        )
    wins = sorted(contests.groupby("name", sort=False), key=lambda item: -len(item[1]))
    named = len(wins) if len(wins) <= WINNERS + 1 else WINNERS
    clauses = [f"`{name}` in {len(won)}{_range(won, base)}" for name, won in wins[:named]]
    if others := wins[named:]:
        clauses.append(f"{len(others)} others in {sum(len(won) for _, won in others)}")
    comparisons = n.counted(len(contests), "comparison")
    fast = f"Shortest epochs in {comparisons}: {', '.join(clauses)}."
    single = contests["lead_low"].isna() & contests["lead"].notna()
    limits = (
        (contests["words"].eq(NO_DIFFERENCE).sum(), f"no difference from {base} is shown"),
        (_is_tie(contests).sum(), "no difference from the runner-up is shown"),
        (single.sum(), "a single run cannot show a difference yet"),
    )
    caveats = _sentence([f"in {n.counted(c, 'comparison')}, {text}" for c, text in limits if c])
    suspect = contests[["suspect", "reference_suspect", "runner_up_suspect"]].to_numpy().any()
    dagger = f"{n.DAGGER} in the table marks suspect runs." if suspect else ""
    parts = (caveats, _excluded(fastest), dagger, _accuracy(learning), outlier_sentence(alike))
    return Answer(fast, " ".join(filter(None, parts)))


def _excluded(fastest: pd.DataFrame) -> str:
    """The configurations that are in no comparison, and why."""
    clauses = []
    for column, label in (("void", ALL_VOID), ("left_out", "not compared")):
        rows = fastest[fastest[column] != ""]
        if len(rows):
            first = rows.iloc[0]
            more = f", and others in {len(rows) - 1} more" if len(rows) > 1 else ""
            where = f"for {first['model']} on {first['device']}{more}"
            clauses.append(f"{label}: {first[column]} {where}")
    return _sentence(clauses)


def _sentence(clauses: list[str]) -> str:
    return capitalized(f"{'; '.join(clauses)}.") if clauses else ""


def _is_tie(contests: pd.DataFrame) -> pd.Series[bool]:
    """Whether no difference between the fastest and the runner-up is shown."""
    return contests["lead_low"].notna() & ~contests["lead_shown"].eq(True)


def answer_view(
    fastest: pd.DataFrame,
    learning: pd.DataFrame,
    accuracy: pd.DataFrame,
    reference: Mapping[str, str],
) -> TableView:
    """One row per comparison, under its model; if there is none, the results of each
    configuration. From the tables of these names."""
    contests = fastest[fastest["contestants"] > 1]
    if contests.empty:
        reached = fastest.merge(accuracy[[*KEY, *LAST]], on=KEY)
        rows = _rows(reached, reached, _reached_texts, (True,) * len(REACHED))
        return TableView("answer", "Results of each network", "network", REACHED, rows)
    names = _groups(reference)
    learnt = split(learning, names, ["is_reference", "shown_different"])

    def texts(row: Mapping[Any, Any]) -> tuple[str, ...]:
        group = learnt.get(tuple(row[name] for name in names))
        others = group["shown_different"][~group["is_reference"].astype(bool)] if group else []
        return _texts(row, [bool(shown) for shown in others])

    contests = contests.assign(tie=_is_tie(contests))
    rows = _rows(fastest, contests, texts, (False, True, True, False, True, False))
    return TableView("answer", "Fastest implementation by network", "network", HEADS, rows)


def _rows(
    every: pd.DataFrame,
    shown: pd.DataFrame,
    texts: Callable[[Mapping[Any, Any]], tuple[str, ...]],
    linked: tuple[bool, ...],
) -> tuple[Row, ...]:
    """A row for each of `shown`, under its model, with the axes that distinguish it among `every`
    row; if each model has one row, the model is its name. `linked` marks the columns whose numbers
    link to its runs."""
    varied = [name for name in GROUP if every[name].nunique() > 1]
    places = every.groupby("device")["machine"].nunique()
    several_places = every[["device", "machine"]].drop_duplicates().shape[0] > 1
    one_each = bool(shown["model"].is_unique)
    variants = variant_labels(every["variant"])
    rows = []
    for row in shown.to_dict("records"):
        where = row["device"] + (f" of {row['machine']}" if places[row["device"]] > 1 else "")
        axes = () if one_each else varied
        name = short_group({**row, "model": ""}, axes, variants).strip(" ()")
        name = name or row["model"]
        head = f"{name} on {where}" if several_places else name
        target = configuration_anchor(row)
        links = tuple(target if mark else "" for mark in linked)
        rows.append(Row(head, texts(row), "" if one_each else row["model"], links))
    return sorted_by_group(rows)


def _groups(reference: Mapping[str, str]) -> list[str]:
    return [name for name in GROUP if name not in reference]


def _texts(row: Mapping[Any, Any], different: list[bool]) -> tuple[str, ...]:
    base = f" (reference {n.DAGGER})" if row["reference_suspect"] else ""
    ratio = f"{n.ratio(row['speedup'])}{base}" if row["words"] in COMPARED else str(row["words"])
    span = n.ratio_span(row["low"], row["high"], row["speedup"])
    if row["words"] == NO_DIFFERENCE:
        span += f", {NO_DIFFERENCE}"
    lead = n.ratio(row["lead"])
    if row["tie"]:
        lead += f", {NO_DIFFERENCE}"
    shown = f"{sum(different)} of {len(different)}" if different else n.NOTHING
    name, second = (
        f"{row[name]} {n.DAGGER}" if row[mark] else row[name] or n.NOTHING
        for name, mark in (("name", "suspect"), ("runner_up", "runner_up_suspect"))
    )
    return name, ratio, span, second, lead, shown


def _reached_texts(row: Mapping[Any, Any]) -> tuple[str, ...]:
    dagger = f" {n.DAGGER}" if row["suspect"] else ""
    seconds = f"{n.seconds(row['seconds'])}{dagger}"
    return row["name"], seconds, n.share(row["val_acc"]), n.plain(row["val_loss"], 3)


def _range(won: pd.DataFrame, base: str) -> str:
    """The range of speed-ups over the reference, of the comparisons that show one."""
    shown = won.loc[won["words"] == FASTER, "speedup"].astype(float)
    if won["words"].eq(IS_REFERENCE).all():
        return " (the reference)"
    if shown.empty:
        return ""
    low, high = n.ratio(shown.min()), n.ratio(shown.max())
    return f" ({low if low == high else f'{low} to {high}'} as fast as {base})"


def _accuracy(learning: pd.DataFrame) -> str:
    others = learning[~learning["is_reference"].astype(bool)]
    if others.empty:
        return ""
    different = others[others["shown_different"].astype(bool)]
    if different.empty:
        least = int(others["seeds"].min())
        few = "; one seed cannot show whether they learn the same" if least < 2 else ""
        many = n.counted(len(others), "comparison")
        return f"No difference in accuracy is shown in {many} with the reference{few}."
    names = ", ".join(f"`{name}`" for name in dict.fromkeys(different["implementation"]))
    share = f"{len(different)} of {len(others)} comparisons"
    return f"A difference in accuracy is shown in {share} with the reference: {names}."
