"""The answer to many questions at once: a headline and a table with a line for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rnnbench.records.labels import reference_words
from rnnbench.report import numbers as n
from rnnbench.report.anchors import cell_anchor
from rnnbench.report.answer import Answer, apart_sentence
from rnnbench.report.labels import short_group
from rnnbench.report.table_view import Column, Row, TableView
from rnnbench.tables.frame import GROUP
from rnnbench.tables.grouping import split
from rnnbench.tables.time import COMPARED, FASTER, IS_REFERENCE, KEY, NO_DIFFERENCE

if TYPE_CHECKING:
    import pandas as pd

MANY = 6  # sentences that a person still reads; beyond, one headline and a table
WINNERS = 3  # named in the headline
LAST = ["val_acc", "val_loss"]  # at the last epoch
HEADS = (
    Column("fastest", number=False),
    Column("against the reference"),
    Column("95 %", quiet=True),
    Column("next", number=False, quiet=True),
    Column("times its time", quiet=True),
    Column("differences in accuracy shown", number=False),
)

REACHED = (
    Column("implementation", number=False),
    Column("seconds per epoch"),
    Column("validation accuracy"),
    Column("validation loss", quiet=True),
)


def is_long(fastest: pd.DataFrame, reference: Mapping[str, str]) -> bool:
    """Whether one sentence per group of comparable cells would be too many."""
    return not fastest.empty and len(fastest[_groups(reference)].drop_duplicates()) > MANY


def headline(
    fastest: pd.DataFrame,
    learning: pd.DataFrame,
    alike: pd.DataFrame,
    reference: Mapping[str, str],
) -> Answer:
    """Who has the shortest epochs how often, and what is not shown; then accuracy. From the tables
    of these names."""
    base = f"`{reference_words(reference)}`"
    contests = fastest[fastest["contestants"] > 1]
    if not fastest["contestants"].any():
        return Answer("No run gave a number that can be compared.", _gone(fastest))
    if contests.empty:
        return Answer(
            "Each network has been run with one implementation, so there is nothing to compare; "
            "the table says how far each got.",
            f"{_gone(fastest)} {apart_sentence(alike)}".strip(),
        )
    won = sorted(contests.groupby("name", sort=False), key=lambda found: -len(found[1]))
    clauses = [f"in {len(cells)} `{name}`{_range(cells, base)}" for name, cells in won[:WINNERS]]
    if len(won) > WINNERS:
        clauses.append(f"in the rest {n.counted(len(won) - WINNERS, 'other')}")
    said = f"Shortest epochs, of {n.counted(len(contests), 'comparison')}: {', '.join(clauses)}."
    unsure = int(contests["words"].eq(NO_DIFFERENCE).sum())
    tied = int(_is_tie(contests).sum())
    notes = [f"in {unsure} no difference from {base} is shown"] if unsure else []
    notes += [f"in {tied} none from the next"] if tied else []
    single = int((contests["lead_low"].isna() & contests["lead"].notna()).sum())
    notes += [f"in {single} there is one run each, which shows nothing yet"] if single else []
    suspect = contests[["suspect", "reference_suspect", "runner_up_suspect"]].to_numpy().any()
    dagger = f"{n.DAGGER} in the table: a suspect run." if suspect else ""
    doubts = f"But {' and '.join(notes)}." if notes else ""
    parts = (doubts, _gone(fastest), dagger, _learnt(learning), apart_sentence(alike))
    return Answer(said, " ".join(filter(None, parts)))


def _gone(fastest: pd.DataFrame) -> str:
    """Which cells are in no comparison, and why."""
    said = []
    for column, words in (("void", "void, so in no number"), ("left_out", "not compared")):
        there = fastest[fastest[column] != ""]
        if len(there):
            first = there.iloc[0]
            more = f" and others in {len(there) - 1} more" if len(there) > 1 else ""
            said.append(f"{words}: {first[column]} for {first['model']} on {first['device']}{more}")
    text = "; ".join(said)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _is_tie(contests: pd.DataFrame) -> pd.Series[bool]:
    """Whether the runner-up may be as fast as the fastest."""
    return contests["lead_low"].notna() & ~contests["lead_shown"].eq(True)


def answer_view(
    fastest: pd.DataFrame,
    learning: pd.DataFrame,
    accuracy: pd.DataFrame,
    reference: Mapping[str, str],
) -> TableView:
    """One line per contest, under its model; where there is none, what each cell reached.

    **Arguments:** the tables of these names.
    """
    contests = fastest[fastest["contestants"] > 1]
    if contests.empty:
        reached = fastest.merge(accuracy[[*KEY, *LAST]], on=KEY)
        rows = _rows(reached, reached, _reached_texts, (True,) * len(REACHED))
        return TableView("answer", "How far each got", "network", REACHED, rows)
    names = _groups(reference)

    learnt = split(learning, names, ["is_reference", "shown_different"])

    def texts(row: Mapping[Any, Any]) -> tuple[str, ...]:
        found = learnt.get(tuple(row[name] for name in names))
        others = found["shown_different"][~found["is_reference"].astype(bool)] if found else []
        return _texts(row, [bool(shown) for shown in others])

    contests = contests.assign(tie=_is_tie(contests))
    rows = _rows(fastest, contests, texts, (False, True, True, False, True, False))
    return TableView("answer", "The fastest of each", "network", HEADS, rows)


def _rows(
    every: pd.DataFrame,
    shown: pd.DataFrame,
    texts: Callable[[Mapping[Any, Any]], tuple[str, ...]],
    linked: tuple[bool, ...],
) -> tuple[Row, ...]:
    """A row for each of `shown`, under its model with what tells it from `every` other, or by its
    model where each has one row; `linked` marks the cells that lead to its runs."""
    varied = [name for name in GROUP if every[name].nunique() > 1]
    places = every.groupby("device")["machine"].nunique()
    several_places = every[["device", "machine"]].drop_duplicates().shape[0] > 1
    one_each = bool(shown["model"].is_unique)
    rows = []
    for row in shown.to_dict("records"):
        where = row["device"] + (f" of {row['machine']}" if places[row["device"]] > 1 else "")
        what = short_group({**row, "model": ""}, () if one_each else varied).strip(" ()")
        what = what or row["model"]
        head = f"{what} on {where}" if several_places else what
        target = cell_anchor(row)
        links = tuple(target if mark else "" for mark in linked)
        rows.append(Row(head, texts(row), "" if one_each else row["model"], links))
    groups = list(dict.fromkeys(row.group for row in rows))
    return tuple(sorted(rows, key=lambda row: groups.index(row.group)))


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
    """How much faster than the reference, over the contests where that is shown."""
    shown = won.loc[won["words"] == FASTER, "speedup"].astype(float)
    if won["words"].eq(IS_REFERENCE).all():
        return " (the reference)"
    if shown.empty:
        return ""
    low, high = n.ratio(shown.min()), n.ratio(shown.max())
    return f" ({low if low == high else f'{low} to {high}'} as fast as {base})"


def _learnt(learning: pd.DataFrame) -> str:
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
    return f"In {share} a difference in accuracy is shown: {names}."
