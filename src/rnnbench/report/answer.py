"""The answer as text: which implementation trains fastest, and do all of them learn the same?

Names are in backticks, which the templates turn into code. A sentence claims only what a
confidence interval shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from rnnbench.axes import PLACE
from rnnbench.records.overrides import labelled, reference_label
from rnnbench.records.plan_file import Experiment
from rnnbench.report import numbers as n
from rnnbench.report.labels import (
    device_words,
    left_out_text,
    same_group,
    short_group,
    variant_labels,
)
from rnnbench.report.tables import Tables
from rnnbench.sources.certificates import NOT_LEARNING
from rnnbench.tables.learning import MIN_SEEDS, TOO_FEW_SEEDS
from rnnbench.tables.time import (
    FASTER,
    IS_REFERENCE,
    NO_DIFFERENCE,
    NO_REFERENCE,
    WRONG_REFERENCE,
)

SINGLE_RUN = "(one run, no confidence interval)"
ALL_VOID = "excluded because every run is void"
NO_RUNS = "No run has produced a result yet, so there is no answer."
ALL_OF = {1: "All runs", 2: "Both", 3: "All three", 4: "All four", 5: "All five", 6: "All six"}
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
    """One answer per group of comparable configurations; `NO_RUNS` if nothing was run."""
    fastest = m.fastest
    if fastest.empty:
        return [_without_runs(m.experiment)]
    name_machine = bool((fastest.groupby("device")["machine"].nunique() > 1).any())
    axes = same_group(m.reference)
    varied = [name for name in axes if fastest[name].nunique() > 1]
    variants = variant_labels(fastest["variant"])
    groups = fastest.groupby(axes, sort=False)
    result = []
    for key, group in groups:
        contests = [_with_texts(row, m.reference, name_machine) for row in group.to_dict("records")]
        chosen, learning, alike = (
            table[(table[axes] == list(key)).all(axis=1)]
            for table in (m.device_choice, m.learning, m.alike)
        )
        texts = _contests(contests)
        for row in chosen.to_dict("records"):
            texts.append(_device_sentence(row, name_machine))
        texts += _excluded(contests)
        if len(groups) > 1:
            network = short_group(contests[0], varied, variants)
            texts[0] = f"{network}: {texts[0]}"
        else:
            texts[0] = n.capitalized(texts[0])
        speed = " ".join(f"{text}." for text in [texts[0], *map(n.capitalized, texts[1:])])
        same = f"{same_sentence(learning)} {outlier_sentence(alike)}".strip()
        result.append(Answer(speed, same))
    return result


def _without_runs(experiment: Experiment) -> Answer:
    if experiment.obstacle is None:
        return Answer(NO_RUNS)
    why, remedy = experiment.obstacle.why, experiment.obstacle.remedy
    return Answer(n.capitalized(why), f"For results of your own, {remedy}")


def place_words(row: Row, name_machine: bool, prefix: str = "") -> str:
    """The device of a row, and its machine if it is to be named: ``two threads of HOST``."""
    words = device_words(row[f"{prefix}device"], row[f"{prefix}variant"])
    return f"{words} of {row[f'{prefix}machine']}" if name_machine else words


def _with_texts(row: Row, reference: Mapping[str, str], name_machine: bool) -> Row:
    """`row` of the table of the fastest, with its places, names, ratios and intervals as text."""
    place = f"on {place_words(row, name_machine)}" if row["device"] else ""
    several = row["implementations"] > 1 or not reference
    axes = dict(reference)
    if row["rnn"] and several and "rnn" not in reference:
        # The base has the options of the row, but for those that the reference names.
        own = row["options"].those(lambda key: key not in reference)
        axes = {"rnn": labelled(row["rnn"], own), **reference}
    # The names contain the devices, if these are compared.
    is_named = place and ("device" not in reference or name_machine)
    return row | {
        "place": place,
        "start": f"{place}, " if is_named else "",
        "winner": n.daggered(row["name"], row["suspect"]),
        "base": n.daggered(reference_label(axes), row["reference_suspect"]),
        "second": n.daggered(row["runner_up"], row["runner_up_suspect"]),
    }


def _contests(contests: Sequence[Row]) -> list[str]:
    """A sentence per device, without its full stop. If the same implementation is faster than the
    reference on several devices, with the same suspect marks, only the first one names both."""
    sentences = []
    previous: Row = {"words": ""}
    for row in contests[:CONTESTS]:
        same = ("words", "name", "suspect", "reference_suspect")
        if row["words"] == FASTER and row["start"] and all(row[k] == previous[k] for k in same):
            sentences.append(f"{row['start']}{n.times(row['speedup'])} {_interval(row)}{_tie(row)}")
        else:
            sentences.append(_sentence(row))
        previous = row
    if len(contests) > CONTESTS:
        more = n.counted(len(contests) - CONTESTS, "more device")
        sentences.append(f"the tables below have {more}")
    return sentences


def _sentence(row: Row) -> str:
    start, name, base, left_out = row["start"], row["winner"], row["base"], row["left_out"]
    are_functions = any(each.is_another_function for each in left_out)
    if row["contestants"] == 0:
        return f"{start}no run has a comparable result"
    if row["contestants"] < 2 and are_functions:
        return f"{start}{name} is the only implementation of its function; {_others(row)}"
    if row["contestants"] < 2:
        done = "has a result" if row["void"] or left_out else "has been run"
        return f"{start}only {name} {done}, so there is nothing to compare"
    if row["words"] in (NO_REFERENCE, WRONG_REFERENCE):
        why = f"the reference {base} was not run there"
        if row["reference_void"]:
            why = f"every run of the reference {base} is void there"
        elif row["words"] == WRONG_REFERENCE:
            why = f"there is no speed-up, because the reference {base} {NOT_LEARNING}"
        return f"{start}{name} has the shortest epochs, {n.plain(row['seconds'])} s; {why}"
    if row["words"] == IS_REFERENCE:
        lead, interval = n.times(row["lead"]), _interval(row, "lead", "lead_")
        if n.is_number(row["lead_low"]) and not row["lead_shown"]:
            return f"{start}{_no_difference(row, row['second'])}: {lead} as fast {interval}"
        trains = f"trains {lead} as fast as the next, {row['second']}"
        return f"{start}{name}, the reference, {trains} {interval}"
    ratio, interval = n.times(row["speedup"]), _interval(row)
    if row["words"] == NO_DIFFERENCE:
        return f"{start}{_no_difference(row, base)}: {ratio} as fast {interval}"
    return f"{start}{name} trains {ratio} as fast as {base} {interval}{_tie(row)}"


def _no_difference(row: Row, other: str) -> str:
    first = row["winner"] if row["contestants"] == 2 else f"the fastest, {row['winner']},"
    return f"no difference is shown between {first} and {other}"


def _interval(row: Row, ratio: str = "speedup", ends: str = "") -> str:
    low, high = row[f"{ends}low"], row[f"{ends}high"]
    if not n.is_number(low):
        return SINGLE_RUN
    return f"({n.ratio_range(low, high, row[ratio])})"


def _tie(row: Row) -> str:
    """The runner-up, if the fastest may be fastest by chance."""
    if row["runner_up"] and n.is_number(row["lead_low"]) and not row["lead_shown"]:
        return f"; {row['second']} may be as fast"
    return ""


def _others(row: Row) -> str:
    """The ratios of the times of other functions to that of the only implementation of one."""
    others = row["unequal"]
    ratios = []
    for name, suspect, ratio in others[:OTHER_FUNCTIONS]:
        interval = "one run, no confidence interval"
        if n.is_number(ratio.low):
            interval = n.unequal_span(ratio, " to ")
        ratios.append(f"{n.unequal(ratio)} ({n.daggered(name, suspect)}, {interval})")
    *first, last = ratios
    listed = f"{', '.join(first)} and {last}" if first else last
    if len(others) == 1:
        return f"the other one computes another function and trains {listed} as fast"
    more = ""
    if len(others) > OTHER_FUNCTIONS:
        more = f" (the table has {len(others) - OTHER_FUNCTIONS} more)"
    return f"the other {len(others)} compute other functions and train {listed} as fast{more}"


def _device_sentence(row: Row, name_machine: bool) -> str:
    """Which device to use, by a row of the table of the choice of a device."""
    device = place_words(row, name_machine)
    other = place_words(row, name_machine, "other_")
    several = device_words(row["device"], row["variant"]).endswith("threads")
    here = " here" if row["machines"] == 1 else ""
    name = n.daggered(row["name"], row["suspect"])
    seconds = n.plain(row["seconds"])
    other_name = n.daggered(row["other_name"], row["other_suspect"])
    other_seconds = n.plain(row["other_seconds"])
    if row["lead_shown"]:
        verb = "are" if several else "is"
        fastest = f"{device} {verb} the fastest choice{here}: {seconds} s per epoch with {name}"
        return f"{fastest}, against {other_seconds} s with {other_name} on {other}"
    verb = "have" if several else "has"
    shortest = f"{device} {verb} the shortest epochs{here}: {seconds} s with {name}"
    return f"{shortest}; {other} may be as fast: {other_seconds} s with {other_name}"


def _excluded(contests: Sequence[Row]) -> list[str]:
    """Which configurations take no part in the answer, and why."""
    texts = []
    left_out = [each for row in contests for each in row["left_out"]]
    # The table has the ratios of other functions, and how they differ.
    are_functions = all(each.is_another_function for each in left_out)
    are_alone = all(row["contestants"] == 1 for row in contests)
    if left_out and not (are_functions and are_alone):
        reasons = dict.fromkeys(map(left_out_text, left_out))
        texts.append(f"not compared: {n.few(list(reasons), LEFT_OUT)}")
    places: dict[str, list[str]] = {}
    for row in contests:
        if row["void"]:
            void = "; ".join(map(left_out_text, row["void"]))
            places.setdefault(void, []).append(row["place"])
    if places:
        void_texts = [f"{void} {' and '.join(where)}".strip() for void, where in places.items()]
        texts.append(f"{ALL_VOID}: {n.few(void_texts, LEFT_OUT)}")
    return texts


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
            f"in validation accuracy on {device_words(worst['device'], worst['variant'])} "
            f"({n.shares_apart_span(worst['val_acc_low'], worst['val_acc_high'])}); differences "
            f"are shown in {len(different)} of {len(others)} comparisons with the reference."
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
        f"Accuracy differs by more than the seeds explain: `{name}` on "
        f"{device_words(worst['device'], worst['variant'])} ends at validation accuracy "
        f"{n.share(worst['val_acc'])}; the other builds, thread counts and "
        f"implementations end at {n.share(worst['others'])} from the same seeds "
        f"(allowed: ± {n.plain(worst['allowed'], 2)}){count}. Find the cause before comparing "
        "times: an implementation that learns something else is not comparable."
    )
