"""The answer in words: which implementation trains fastest, and do they learn the same?

Names stand in backticks; templates turn them into code. A sentence claims what an interval
shows and nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rnnbench.records.labels import reference_words
from rnnbench.report import numbers as n
from rnnbench.report.labels import short_group
from rnnbench.tables.certificates import ANOTHER_FUNCTION, NOT_LEARNING
from rnnbench.tables.frame import GROUP
from rnnbench.tables.stats import ONE_RUN
from rnnbench.tables.time import (
    FASTER,
    IS_REFERENCE,
    NO_DIFFERENCE,
    NO_REFERENCE,
    WRONG_REFERENCE,
)

if TYPE_CHECKING:
    import pandas as pd

NBSP, JOINER, HYPHEN = "\N{NO-BREAK SPACE}", "\N{WORD JOINER}", "\N{NON-BREAKING HYPHEN}"
NO_RUNS = "No run has given a number yet, so there is no answer."
WORDS = {2: "Both", 3: "All three", 4: "All four", 5: "All five", 6: "All six"}
CONTESTS = 4  # what a reader takes in at once; the rest is in the table
LEFT_OUT = 3  # cells that are named as not compared
TOLERANCE = 0.0005  # half of the last digit that an accuracy is shown with


@dataclass(frozen=True)
class Answer:
    """What is said of one model: how fast, then whether it learns the same (``""``: nothing)."""

    fast: str
    same: str = ""

    def __str__(self) -> str:
        return f"{self.fast} {self.same}".strip()


def answers(
    fastest: pd.DataFrame,
    learning: pd.DataFrame,
    alike: pd.DataFrame,
    reference: Mapping[str, str],
) -> list[Answer]:
    """One answer per group of comparable cells, from the tables of these names; one honest sentence
    where nothing was run."""
    if fastest.empty:
        return [Answer(NO_RUNS)]
    several = bool((fastest.groupby("device")["machine"].nunique() > 1).any())
    varied = [name for name in GROUP if fastest[name].nunique() > 1 and name not in reference]
    same_group = [name for name in GROUP if name not in reference]
    found = []
    for key, contests in fastest.groupby(same_group, sort=False):
        clauses: list[str] = []
        before: Any = None
        for _, row in contests.head(CONTESTS).iterrows():
            base, where = _reference_name(reference, row), _where(row, several)
            if before is not None and _repeats(row, before):
                clauses[-1] += f" and {_again(row, where)}"
            else:
                model = short_group(row, varied) if before is None else ""
                clauses.append(_clause(row, base, where, model))
            before = row
        mine = (learning[same_group] == list(key)).all(axis=1)
        if len(contests) > CONTESTS:
            more = n.counted(len(contests) - CONTESTS, "more device")
            clauses.append(f"the tables below have {more}")
        left_out = _few(dict.fromkeys(filter(None, "; ".join(contests["left_out"]).split("; "))))
        if left_out:
            clauses.append(f"not compared: {left_out}")
        clauses += _void(contests, several)
        text = "; ".join(clauses)
        apart = alike[(alike[same_group] == list(key)).all(axis=1)]
        same = f"{same_sentence(learning[mine])} {apart_sentence(apart)}".strip()
        found.append(Answer(f"{text[0].upper()}{text[1:]}.", same))
    return found


def _void(contests: pd.DataFrame, several: bool) -> list[str]:
    """The clause that names the cells all of whose runs are void, and where; [] where none is."""
    places: dict[str, list[str]] = {}
    for _, row in contests.iterrows():
        if row["void"]:
            places.setdefault(row["void"], []).append(_where(row, several))
    named = _few(f"{void}{' and'.join(where)}" for void, where in places.items())
    return [f"void, so in no number: {named}"] if named else []


def spans(text: str) -> Iterator[tuple[bool, str]]:
    """`text` in pieces: (is code, piece)."""
    for place, piece in enumerate(text.split("`")):
        if piece:
            yield place % 2 == 1, piece


def unbroken(text: str) -> str:
    """`text` with its numbers held together: no line ends inside ``95 % 1.45–1.54``, ``1e-07``."""
    text = re.sub(r"(?<=\d) %(?: (?=\d))?", lambda found: found.group().replace(" ", NBSP), text)
    text = re.sub(r"(?<=\d)–(?=\d)", "–" + JOINER, text)
    return re.sub(r"(?<=\de)-(?=\d)", HYPHEN, text)


def _few(names: Iterable[str]) -> str:
    """The first three, and how many more: their reasons are in the sections below."""
    listed = list(names)
    more = f" and {len(listed) - LEFT_OUT} more" if len(listed) > LEFT_OUT else ""
    return "; ".join(listed[:LEFT_OUT]) + more


def _repeats(row: Any, before: Any) -> bool:
    """Whether the same cell wins over the same reference here as it did before, as clean."""
    alike = ("words", "name", "suspect", "reference_suspect")
    return row["words"] == FASTER and all(row[name] == before[name] for name in alike)


def _again(row: Any, where: str) -> str:
    span = n.ratio_span(row["low"], row["high"], row["speedup"])
    return f"{n.ratio(row['speedup'])}{where} (95 % {span}){_tie(row)}"


def daggered(name: str, suspect: bool) -> str:
    """`name` as code, with a dagger where runs of it are suspect."""
    return f"`{name}` {n.DAGGER}" if suspect else f"`{name}`"


def _clause(row: Any, base: str, where: str, model: str) -> str:
    name = daggered(row["name"], row["suspect"])
    model = f" {model}" if model else ""
    for_model = f" for{model}" if model else ""
    ratio = n.ratio(row["speedup"])
    interval = f"(95 % {n.ratio_span(row['low'], row['high'], row['speedup'])})"
    if row["contestants"] == 0:
        return f"no run{for_model}{where} gave a number that can be compared"
    if row["contestants"] < 2 and ANOTHER_FUNCTION in row["left_out"]:
        return (
            f"{name} is the only one of its function{for_model}{where}, so none is faster; the "
            "ratios of times to other functions stand below, marked ≠"
        )
    if row["contestants"] < 2:
        done = "has given a number" if row["void"] or row["left_out"] else "has been run"
        return f"only {name} {done}{for_model}{where}, so there is nothing to compare"
    if row["words"] in (NO_REFERENCE, WRONG_REFERENCE):
        why = f"the reference {base} was not run there"
        if row["reference_void"]:
            why = f"every run of the reference {base} is void there"
        elif row["words"] == WRONG_REFERENCE:
            why = f"there is no speed-up, because the reference {base} {NOT_LEARNING}"
        return (
            f"{name} has the shortest epochs{for_model}{where} "
            f"({n.seconds(row['seconds'])} s); {why}"
        )
    if row["words"] == IS_REFERENCE:
        return f"{name}, the reference, trains{model} fastest{where}{_reference_lead(row)}"
    if row["words"] == ONE_RUN:
        return (
            f"{name} trained{model} {ratio} as fast as {base}{where} in one run, without interval"
        )
    if row["words"] == NO_DIFFERENCE:
        return (
            f"no difference shown between the fastest, {name}, and {base}{for_model}"
            f"{where}: {ratio} {interval}"
        )
    return f"{name} trains{model} {ratio} as fast as {base}{where} {interval}{_tie(row)}"


def _tie(row: Any) -> str:
    """Where the runner-up may be as fast: a winner picked by noise is no winner."""
    if not row["runner_up"] or row["lead_shown"] or not n.is_number(row["lead_low"]):
        return ""
    span = n.ratio_span(row["lead_low"], row["lead_high"], row["lead"])
    second = daggered(row["runner_up"], row["runner_up_suspect"])
    return f", with no difference shown from {second} ({n.ratio(row['lead'])}, 95 % {span})"


def _reference_lead(row: Any) -> str:
    lead, second = n.ratio(row["lead"]), daggered(row["runner_up"], row["runner_up_suspect"])
    if not n.is_number(row["lead_low"]):
        return f": {second} took {lead} its time in one run, without interval"
    span = n.ratio_span(row["lead_low"], row["lead_high"], row["lead"])
    if not row["lead_shown"]:
        return f", with no difference shown from {second} ({lead}, 95 % {span})"
    return f": the next, {second}, takes {lead} its time (95 % {span})"


def _where(row: Any, several: bool) -> str:
    place = f" on {row['device']}" if row["device"] else ""
    return f"{place} of {row['machine']}" if several else place


def _reference_name(reference: Mapping[str, str], row: Any) -> str:
    axes = {**({"rnn": row["rnn"]} if row["rnn"] else {}), **reference}
    return daggered(reference_words(axes), row["reference_suspect"])


def _curves(loss: str) -> str:
    return (
        "their loss curves are the same"
        if loss == "0"
        else f"their loss curves agree within {loss}"
    )


def same_sentence(learning: pd.DataFrame) -> str:
    """Whether runs of the same seed end alike, over all devices of one group."""
    others = learning[~learning["is_reference"].astype(bool)]
    if others.empty:
        return ""
    different = others[others["shown_different"].astype(bool)]
    if len(different):
        gap = different["val_acc_difference"]
        worst = different.iloc[int(gap.abs().argmax())]
        way = "below" if worst["val_acc_difference"] < 0 else "above"
        return (
            f"A difference in accuracy is shown: `{worst['implementation']}` ends "
            f"{n.plain(abs(worst['val_acc_difference']), 2)} {way} the reference in validation "
            f"accuracy on {worst['device']} (95 % {worst['val_acc_low']:.4f} to "
            f"{worst['val_acc_high']:.4f}); {len(different)} of {len(others)} such comparisons "
            "show one."
        )
    seeds, loss = int(others["seeds"].min()), n.small(others["loss_largest"].max())
    largest = others["val_acc_difference"].abs().max()
    if not n.is_number(largest):
        return f"From the same seeds {_curves(loss)}."
    if largest < TOLERANCE:
        many = len(learning[["implementation", "build", "variant"]].drop_duplicates())
        return (
            f"{WORDS.get(many, f'All {many}')} end at validation accuracy "
            f"{n.share(learning['val_acc'].iloc[0])} and {_curves(loss)}: "
            "no difference in accuracy shown."
        )
    gaps = f"differ by at most {n.plain(largest, 2)} in final validation accuracy"
    if seeds < 2:
        return f"From one seed they {gaps}; one seed cannot show whether they learn the same."
    return f"From the same {seeds} seeds they {gaps}: no difference in accuracy shown."


def apart_sentence(alike: pd.DataFrame) -> str:
    """Which cells' accuracy is further from the others' than seeds explain; ``""`` for none."""
    apart = alike[alike["apart"].astype(bool)]
    if apart.empty:
        return ""
    worst = apart.iloc[int((apart["difference"].abs() / apart["allowed"]).argmax())]
    name = ", ".join(filter(None, (worst["implementation"] or worst["model"], worst["build"])))
    more = f"; of {len(alike)} cells {len(apart)} do" if len(apart) > 1 else ""
    unit = "seeds explain" if worst["seeds"] > 1 else "implementations differ otherwise"
    return (
        f"An accuracy differs by more than {unit}: `{name}` on {worst['device']} ends at "
        f"validation accuracy {n.share(worst['val_acc'])}, the other builds, threads and "
        f"implementations from the same seeds at {n.share(worst['others'])} "
        f"(allowed: ± {n.plain(worst['allowed'], 2)}){more}. What learns something else is no "
        "contestant: look for the cause before comparing times."
    )
