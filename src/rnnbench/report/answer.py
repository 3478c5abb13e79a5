"""The answer as text: which implementation trains fastest, and do all of them learn the same?

Names are in backticks, which the templates turn into code. A sentence claims only what a
confidence interval shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from rnnbench.axes import PLACE
from rnnbench.records.overrides import labelled, reference_label
from rnnbench.report import numbers as n
from rnnbench.report.labels import left_out_text, same_group, short_group, variant_labels
from rnnbench.report.tables import Tables
from rnnbench.sources.certificates import NOT_LEARNING
from rnnbench.tables.learning import MIN_SEEDS, TOO_FEW_SEEDS
from rnnbench.tables.stats import ONE_RUN
from rnnbench.tables.time import (
    FASTER,
    IS_REFERENCE,
    NO_DIFFERENCE,
    NO_REFERENCE,
    WRONG_REFERENCE,
)

SINGLE_RUN = "one run, no confidence interval"
ALL_VOID = "excluded because every run is void"
NO_RUNS = "No run has produced a result yet, so there is no answer."
ALL_OF = {1: "All runs", 2: "Both", 3: "All three", 4: "All four", 5: "All five", 6: "All six"}
SLOWED = (
    "The machine was slowed down from outside during the measurement{}, so the ratios of the "
    "undisturbed machine may differ from these."
)
Row = dict[Any, Any]
CONTESTS = 4  # devices named in one answer; the tables have the others
LEFT_OUT = 3  # configurations named as not compared
OTHER_FUNCTIONS = 3  # whose ratios are named
TOLERANCE = 0.0005  # half a unit of the last digit shown of an accuracy


@dataclass(frozen=True)
class Answer:
    """The answer for one model: its speed, and its accuracy (``""`` for none)."""

    speed_sentence: str
    accuracy_sentence: str = ""

    def __str__(self) -> str:
        return f"{self.speed_sentence} {self.accuracy_sentence}".strip()


def answers(m: Tables) -> list[Answer]:
    """One answer per group of comparable configurations; `NO_RUNS` if nothing was run. If the
    machine was slowed down at the same places in all groups, the first answer says so."""
    fastest = m.fastest
    if fastest.empty:
        return [Answer(NO_RUNS)]
    name_machine = bool((fastest.groupby("device")["machine"].nunique() > 1).any())
    axes = same_group(m.reference)
    varied = [name for name in axes if fastest[name].nunique() > 1]
    variants = variant_labels(fastest["variant"])
    result, warnings = [], []
    for key, group in fastest.groupby(axes, sort=False):
        contests = [_with_texts(row, m.reference, name_machine) for row in group.to_dict("records")]
        texts = _contests(contests, short_group(contests[0], varied, variants))
        left_out = [each for row in contests for each in row["left_out"]]
        # The table has the ratios of other functions, and how they differ.
        are_functions = all(each.is_another_function for each in left_out)
        if left_out and not (are_functions and group["contestants"].eq(1).all()):
            reasons = dict.fromkeys(map(left_out_text, left_out))
            texts.append(f"not compared: {n.few(list(reasons), LEFT_OUT)}")
        places: dict[str, list[str]] = {}
        for row in contests:
            void_text = "; ".join(map(left_out_text, row["void"]))
            places.setdefault(void_text, []).append(row["place"])
        if void := [f"{void}{' and'.join(where)}" for void, where in places.items() if void]:
            texts.append(f"{ALL_VOID}: {n.few(void, LEFT_OUT)}")
        speed = n.capitalized(f"{'; '.join(texts)}.")
        slowed = dict.fromkeys(row["place"] for row in contests if row["slowed"])
        warnings.append(f"{SLOWED.format(' and'.join(slowed))} " if slowed else "")
        learning, alike = (
            table[(table[axes] == list(key)).all(axis=1)] for table in (m.learning, m.alike)
        )
        same = f"{same_sentence(learning)} {outlier_sentence(alike)}".strip()
        result.append(Answer(speed, same))
    if len(set(warnings)) == 1:
        warnings[1:] = [""] * len(result[1:])
    return [
        replace(answer, speed_sentence=warning + answer.speed_sentence)
        for answer, warning in zip(result, warnings, strict=True)
    ]


def _with_texts(row: Row, reference: Mapping[str, str], name_machine: bool) -> Row:
    """`row` of the table of the fastest, with its places, names, ratios and intervals as text."""
    place = f" on {row['device']}" if row["device"] else ""
    place += f" of {row['machine']}" if name_machine else ""
    several = row["implementations"] > 1 or not reference
    kind = "simultaneous " if row["contestants"] > 2 else ""
    axes = dict(reference)
    if row["rnn"] and several and "rnn" not in reference:
        # The base has the options of the row, but for those that the reference names.
        own = row["options"].those(lambda key: key not in reference)
        axes = {"rnn": labelled(row["rnn"], own), **reference}
    return row | {
        "place": place,
        # The names contain the devices, if these are compared.
        "where": place if "device" not in reference or name_machine else "",
        "winner": n.daggered(row["name"], row["suspect"]),
        "base": n.daggered(reference_label(axes), row["reference_suspect"]),
        "second": n.daggered(row["runner_up"], row["runner_up_suspect"]),
        "ratio": n.ratio(row["speedup"]),
        "span": kind + n.interval_text(row, "low", "high", "speedup"),
        "lead_ratio": n.ratio(row["lead"]),
        "lead_span": kind + n.interval_text(row, "lead_low", "lead_high", "lead"),
    }


def _contests(contests: Sequence[Row], model: str) -> list[str]:
    """A clause per device; devices where the same implementation is faster than the reference, with
    the same suspect marks, share one."""
    clauses: list[list[str]] = []
    for number, row in enumerate(contests[:CONTESTS]):
        same = ("words", "name", "suspect", "reference_suspect")
        previous = contests[number - 1] if number else {"words": ""}
        if row["words"] == FASTER and all(row[each] == previous.get(each) for each in same):
            clauses[-1].append(f"{row['ratio']}{row['where']} {_speedup_interval(row)}")
        else:
            clauses.append([_clause(row, "" if number else f" {model}")])
    # ``a``, ``a and b``, ``a, b and c``
    texts = [" and ".join(filter(None, (", ".join(c[:-1]), c[-1]))) for c in clauses]
    if len(contests) > CONTESTS:
        texts.append(f"the tables below have {n.counted(len(contests) - CONTESTS, 'more device')}")
    return texts


def _clause(row: Row, model: str) -> str:
    name, base, ratio, left_out = row["winner"], row["base"], row["ratio"], row["left_out"]
    are_functions = any(each.is_another_function for each in left_out)
    trains, where = f"trains{model}", row["where"]
    here = f" for{model}{where}" if model else where
    if row["contestants"] == 0:
        return f"no run{here} has a comparable result"
    if row["contestants"] < 2 and are_functions:
        return f"{name} is the only implementation of its function{here}; {_others(row)}"
    if row["contestants"] < 2:
        done = "has a result" if row["void"] or left_out else "has been run"
        return f"only {name} {done}{here}, so there is nothing to compare"
    if row["words"] in (NO_REFERENCE, WRONG_REFERENCE):
        why = f"the reference {base} was not run there"
        if row["reference_void"]:
            why = f"every run of the reference {base} is void there"
        elif row["words"] == WRONG_REFERENCE:
            why = f"there is no speed-up, because the reference {base} {NOT_LEARNING}"
        return f"{name} has the shortest epochs{here} ({n.plain(row['seconds'])} s); {why}"
    if row["words"] == IS_REFERENCE:
        return f"{name}, the reference, {trains} fastest{where}{_reference_lead(row)}"
    if row["words"] == ONE_RUN:
        return f"{name} {trains} {ratio} as fast as {base}{where} ({SINGLE_RUN})"
    if row["words"] == NO_DIFFERENCE:
        between = f"{NO_DIFFERENCE} between the fastest, {name}, and {base}"
        return f"{between}{here}: {ratio} ({row['span']})"
    return f"{name} {trains} {ratio} as fast as {base}{where} {_speedup_interval(row)}"


def _others(row: Row) -> str:
    """The ratios of the times of other functions to that of the only implementation of one."""
    others = row["unequal"]
    kind = "simultaneous " if len(others) > 1 else ""
    ratios = [
        f"{n.unequal(ratio)} ({n.daggered(name, suspect)}, "
        f"{f'{kind}95 % CI {n.unequal_span(ratio)}' if n.is_number(ratio.low) else SINGLE_RUN})"
        for name, suspect, ratio in others[:OTHER_FUNCTIONS]
    ]
    more = (
        f" (the table has {len(others) - OTHER_FUNCTIONS} more)" if others[OTHER_FUNCTIONS:] else ""
    )
    *first, last = ratios
    listed = f"{', '.join(first)} and {last}" if first else last
    if len(others) == 1:
        return f"the other one computes another function and trains {listed} as fast"
    return f"the other {len(others)} compute other functions and train {listed} as fast{more}"


def _speedup_interval(row: Row) -> str:
    """The interval of the speed-up; if the runner-up may be as fast, its ratio too, because the
    fastest may then be fastest by chance."""
    text = row["span"]
    if row["runner_up"] and not row["lead_shown"] and n.is_number(row["lead_low"]):
        lead = f"{row['lead_ratio']}, {row['lead_span']}"
        text += f"; runner-up {row['second']}: {lead}, {NO_DIFFERENCE}"
    return f"({text})"


def _reference_lead(row: Row) -> str:
    lead, second, span = row["lead_ratio"], row["second"], row["lead_span"]
    if n.is_number(row["lead_low"]) and not row["lead_shown"]:
        return f", with {NO_DIFFERENCE} from {second} ({lead}, {span})"
    shown = span if n.is_number(row["lead_low"]) else SINGLE_RUN
    who = f"the runner-up, {second}," if row["contestants"] > 2 else second
    return f": {who} takes {lead} as long ({shown})"


def same_sentence(learning: pd.DataFrame) -> str:
    """Whether runs of the same seed reach the same accuracy, over all devices of one group."""
    others = learning[~learning["is_reference"].astype(bool)]
    if others.empty:
        return ""
    different = others[others["shown_different"].astype(bool)]
    if len(different):
        worst = different.iloc[int(different["val_acc_difference"].abs().argmax())]
        difference = worst["val_acc_difference"]
        return (
            f"A difference in accuracy is shown: `{worst['implementation']}` ends "
            f"{n.share(abs(difference))} {'below' if difference < 0 else 'above'} the reference "
            f"in validation accuracy on {worst['device']} (simultaneous 95 % CI "
            f"{n.shares_apart_span(worst['val_acc_low'], worst['val_acc_high'])}); differences are "
            f"shown in {len(different)} of {len(others)} comparisons with the reference."
        )
    seeds, loss = int(others["seeds"].min()), n.small(others["loss_largest"].max())
    largest = others["val_acc_difference"].abs().max()
    curves = "are identical" if loss == "0" else f"agree within {loss}"
    if not n.is_number(largest):
        return f"From the same seeds, the loss curves {curves}."
    if largest < TOLERANCE:
        many = len(learning[["implementation", *PLACE[2:], "variant"]].drop_duplicates())
        return (
            f"{ALL_OF.get(many, f'All {many}')} end at validation accuracy "
            f"{n.share(learning['val_acc'].iloc[0])}, and their loss curves {curves}: "
            "no difference in accuracy shown."
        )
    gaps = f"differ by at most {n.plain(largest, 2)} in final validation accuracy"
    if seeds < MIN_SEEDS:
        few = f"From {n.counted(seeds, 'seed')}, they {gaps}"
        return f"{few}; {TOO_FEW_SEEDS} cannot show whether this is more than chance."
    return f"From the same {seeds} seeds, they {gaps}: no difference in accuracy shown."


def outlier_sentence(alike: pd.DataFrame) -> str:
    """The configurations whose accuracy differs from the others' by more than the seeds explain;
    ``""`` for none. `alike`: the table of this name."""
    outliers = alike[alike["apart"].astype(bool)]
    if outliers.empty:
        return ""
    worst = outliers.iloc[int((outliers["difference"].abs() / outliers["allowed"]).argmax())]
    name = ", ".join(filter(None, (worst["implementation"] or worst["model"], worst["build"])))
    count = f"; outliers: {len(outliers)} of {len(alike)} configurations"
    count = count if len(outliers) > 1 else ""
    return (
        f"Accuracy differs by more than the seeds explain: `{name}` on {worst['device']} ends at "
        f"validation accuracy {n.share(worst['val_acc'])}; the other builds, thread counts and "
        f"implementations end at {n.share(worst['others'])} from the same seeds "
        f"(allowed: ± {n.plain(worst['allowed'], 2)}){count}. Find the cause before comparing "
        "times: an implementation that learns something else is not comparable."
    )
