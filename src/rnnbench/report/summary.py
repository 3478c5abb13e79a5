"""The answer for many networks (a headline, and a table with one row per network and device), and
the answer for calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from rnnbench.axes import GROUP, KEY
from rnnbench.records.overrides import reference_label
from rnnbench.report import numbers as n
from rnnbench.report.answer import ALL_VOID, Answer, outlier_sentence
from rnnbench.report.labels import (
    configuration_anchors,
    device_words,
    left_out_text,
    same_group,
    short_group,
    variant_labels,
    with_labels,
)
from rnnbench.report.parts import Column, TableView, marked, view_of
from rnnbench.report.tables import Tables
from rnnbench.tables.learning import MIN_SEEDS, TOO_FEW_SEEDS
from rnnbench.tables.time import COMPARED, FASTER, IS_REFERENCE, NO_DIFFERENCE, NO_REFERENCE

SENTENCES = 4  # networks and devices named in the answer on calls
SIZES = 4  # batch sizes named in a sentence
WINNERS = 3  # implementations named in the headline, or one more if it is the last
LAST = ["val_acc", "val_loss"]  # at the last epoch
COLUMNS = (
    Column("fastest", lambda r: _daggered(r, "name", "suspect"), number=False),
    Column("speed-up over the reference", lambda r: _speedup(r)),
    Column("95 % CI",
           lambda r: _with_tie(n.ratio_span(r["low"], r["high"], r["speedup"]),
                               r["words"] == NO_DIFFERENCE), quiet=True),
    Column("runner-up", lambda r: _daggered(r, "runner_up", "runner_up_suspect"), number=False,
           quiet=True),
    Column("time of the runner-up / of the fastest",
           lambda r: _with_tie(n.ratio(r["lead"]), r["tie"]), quiet=True),
    Column("differences in accuracy shown", "differences", number=False),
)  # fmt: skip
REACHED = (
    Column("implementation", "name", number=False, linked=True),
    Column("seconds per epoch", lambda r: marked(n.plain(r["seconds"]), r)),
    Column("validation accuracy", lambda r: n.share(r["val_acc"])),
    Column("validation loss", lambda r: n.plain(r["val_loss"]), quiet=True),
)


def headline(m: Tables) -> Answer:
    """How often each implementation has the shortest epochs, and in how many comparisons no
    difference is shown; then accuracy."""
    fastest, outliers = m.fastest, outlier_sentence(m.alike)
    base = f"`{reference_label(m.reference)}`"
    contests = fastest[fastest["contestants"] > 1]
    if not fastest["contestants"].any():
        return Answer("No run has a comparable result.", _excluded(fastest))
    if contests.empty:
        return Answer(
            "Each network has been run with only one implementation, so there is nothing to "
            "compare; the table shows the result of each.",
            f"{_excluded(fastest)} {outliers}".strip(),
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
    parts = (caveats, _excluded(fastest), dagger, _accuracy(m.learning), outliers)
    return Answer(fast, " ".join(filter(None, parts)))


def _excluded(fastest: pd.DataFrame) -> str:
    """The configurations that are in no comparison, and why."""
    clauses = []
    for column, label in (("void", ALL_VOID), ("left_out", "not compared")):
        rows = fastest[fastest[column].map(bool)]
        if len(rows):
            first = rows.iloc[0]
            more = f", and others in {len(rows) - 1} more" if len(rows) > 1 else ""
            where = f"for {first['model']} on {first['device']}{more}"
            reasons = "; ".join(map(left_out_text, first[column]))
            clauses.append(f"{label}: {reasons} {where}")
    return _sentence(clauses)


def _sentence(clauses: list[str]) -> str:
    return n.capitalized(f"{'; '.join(clauses)}.") if clauses else ""


def _is_tie(contests: pd.DataFrame) -> pd.Series[bool]:
    """Whether no difference between the fastest and the runner-up is shown."""
    return contests["lead_low"].notna() & ~contests["lead_shown"].eq(True)


def answer_view(m: Tables) -> TableView:
    """One row per comparison, under its model; if there is none, the results of each
    configuration."""
    fastest = m.fastest
    contests = fastest[fastest["contestants"] > 1]
    if contests.empty:
        reached = fastest.merge(m.accuracy[[*KEY, *LAST]], on=KEY)
        named = _named(reached, reached)
        return view_of(named, "answer", "Results of each network", "network", "head", REACHED,
                       "group")  # fmt: skip
    names = same_group(m.reference)
    others = m.learning[~m.learning["is_reference"].astype(bool)]
    found = {
        key: f"{int(shown.astype(bool).sum())} of {len(shown)}"
        for key, shown in others.groupby(names)["shown_different"]
    }
    keys = contests[names].itertuples(index=False, name=None)
    differences = [found.get(key, n.NOTHING) for key in keys]
    contests = contests.assign(tie=_is_tie(contests), differences=differences)
    return view_of(_named(contests, fastest), "answer", "Fastest implementation by network",
                   "network", "head", COLUMNS, "group")  # fmt: skip


def _named(shown: pd.DataFrame, every: pd.DataFrame) -> pd.DataFrame:
    """`shown` with `group` (the model), `head` (the axes that distinguish the row among `every`
    row; if each model has one row, the model) and `anchor`."""
    varied = [name for name in GROUP if every[name].nunique() > 1]
    places = every.groupby("device")["machine"].nunique()
    several_places = every[["device", "machine"]].drop_duplicates().shape[0] > 1
    one_each = bool(shown["model"].is_unique)
    variants = variant_labels(every["variant"])
    heads = []
    for row in shown.to_dict("records"):
        where = row["device"] + (f" of {row['machine']}" if places[row["device"]] > 1 else "")
        axes = () if one_each else varied
        name = short_group({**row, "model": ""}, axes, variants).strip(" ()") or row["model"]
        heads.append(f"{name} on {where}" if several_places else name)
    return shown.assign(
        head=heads,
        group="" if one_each else shown["model"],
        anchor=configuration_anchors(shown),
    )


def _daggered(row: Mapping[Any, Any], name: str, suspect: str) -> str:
    return n.marked(row[name], row[suspect]) or n.NOTHING


def _speedup(row: Mapping[Any, Any]) -> str:
    base = f" (reference {n.DAGGER})" if row["reference_suspect"] else ""
    return f"{n.ratio(row['speedup'])}{base}" if row["words"] in COMPARED else str(row["words"])


def _with_tie(text: str, is_tie: bool) -> str:
    return f"{text}, {NO_DIFFERENCE}" if is_tie else text


def _range(won: pd.DataFrame, base: str) -> str:
    """The range of speed-ups over the reference, of the comparisons that show one."""
    shown = won.loc[won["words"] == FASTER, "speedup"].astype(float)
    if won["words"].eq(IS_REFERENCE).all():
        return " (the reference)"
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
        least = int(others["seeds"].min())
        few = f"; {TOO_FEW_SEEDS} cannot show one" if least < MIN_SEEDS else ""
        many = n.counted(len(others), "comparison")
        return f"No difference in accuracy is shown in {many} with the reference{few}."
    names = ", ".join(f"`{name}`" for name in dict.fromkeys(different["implementation"]))
    share = f"{len(different)} of {len(others)} comparisons"
    return f"A difference in accuracy is shown in {share} with the reference: {names}."


def call_answers(m: Tables) -> list[Answer]:
    """The answer for a report that leads with the calls: for each network and device, the fastest
    implementation of predict() at each batch size. Configurations that compute another function
    take no part."""
    takes_part = m.calls["words"].isin((*COMPARED, IS_REFERENCE, NO_REFERENCE))
    predictions = with_labels(m.calls[(m.calls["call"] == "predict") & takes_part])
    if predictions.empty:
        return [Answer("No run has timed predict() yet, so there is no answer.")]
    varied = [name for name in GROUP if predictions[name].nunique() > 1]
    variants = variant_labels(predictions["variant"])
    base = reference_label(m.reference) or "nothing"
    sentences = []
    for _, rows in predictions.groupby([*GROUP[:-1], "column_name"], sort=False):
        ordered = rows.sort_values(["batch", "samples", "seconds"], kind="stable")
        best = ordered.drop_duplicates("variant").to_dict("records")
        named = len({row["batch"] for row in best}) < len(best)
        clauses = [
            _fastest_call(row, base, f", {variants[row['variant']]}," if named else "")
            for row in best[:SIZES]
        ]
        more = f"; the table has {len(best) - SIZES} more" if len(best) > SIZES else ""
        network = short_group({**best[0], "variant": ""}, varied, {})
        place = best[0]["column_name"]
        if place == best[0]["device"]:
            place = device_words(place, best[0]["variant"])
        sentences.append(f"On {place}, predict() of {network} takes {'; '.join(clauses)}{more}.")
    shown = list(map(Answer, sentences[:SENTENCES]))
    if left := len(sentences[SENTENCES:]):
        rest = f"The table has {n.counted(left, 'more network')}."
        shown[-1] = Answer(sentences[SENTENCES - 1], rest)
    return shown


def _fastest_call(row: Mapping[Any, Any], base: str, variant: str) -> str:
    what = f"for a batch of {row['batch']:.0f}"
    if row["samples"] > row["batch"]:
        what = f"for {row['samples']:.0f} samples in batches of {row['batch']:.0f}"
    name = n.daggered(row["implementation"] or row["model"], row["suspect"])
    compared = ""
    if row["words"] in COMPARED and n.is_number(row["speedup_low"]):
        ratio = n.times(row["speedup"])
        interval = n.ratio_range(row["speedup_low"], row["speedup_high"], row["speedup"])
        compared = f", {ratio} as fast as `{base}` ({interval})"
        if row["words"] == NO_DIFFERENCE:
            compared = f" ({NO_DIFFERENCE} from `{base}`: {ratio}, {interval})"
    return f"{n.plain(1e3 * row['seconds'])} ms {what}{variant} with {name}{compared}"
