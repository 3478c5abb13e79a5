"""The answer as text: which implementation trains fastest, and do all of them learn the same?

Names are in backticks, which the templates turn into code. A sentence claims only what a
confidence interval shows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from rnnbench.records.overrides import reference_label
from rnnbench.report import numbers as n
from rnnbench.report.labels import (
    left_out_text,
    short_group,
    variant_labels,
)
from rnnbench.report.learning import are_same, difference_sentence, outlier_sentence, same_sentence
from rnnbench.report.sentences import (
    CONTESTS,
    Line,
    contest_sentences,
    device_sentence,
    network_of,
    other_functions,
    ranking,
    words_of,
)
from rnnbench.report.tables import Tables
from rnnbench.tables.contests import Contest
from rnnbench.tables.frame import varying
from rnnbench.tables.learning import MIN_SEEDS, TOO_FEW_SEEDS
from rnnbench.tables.outcome import Equality

NO_RUNS = "No run has produced a result yet, so there is no answer."
WINNERS = 4  # implementations named in the headline
LEFT_OUT = 3  # configurations, or places, named as not compared
# Of `rnnlayers`, without the two that are Keras's own loop.
USABLE = ("unrolled", "block", "block_cell", "native", "cudnn", "auto")


@dataclass(frozen=True)
class Answer:
    """The answer for one model.

    - `speed_sentence`: the first sentence; `further`: what else is to be said about speed.
    - `accuracy_sentence`: ``""`` for none.
    - `rankings`: for each device, the fastest and its ratio to each of the others.
    """

    speed_sentence: str
    accuracy_sentence: str = ""
    further: str = ""
    rankings: tuple[tuple[Line, ...], ...] = ()

    def __str__(self) -> str:
        texts = (self.speed_sentence, self.further, self.accuracy_sentence)
        return " ".join(text for text in texts if text)


def answers(m: Tables) -> list[Answer]:
    """One answer per group of comparable configurations.

    If nothing was run, the only answer says why: what stands in the way on this machine, or
    `NO_RUNS`.
    """
    if not m.contests:
        obstacle = m.experiment.obstacle
        if obstacle is None:
            return [Answer(NO_RUNS)]
        remedy = f"For results of your own, {obstacle.remedy}"
        return [Answer(n.capitalized(obstacle.why), further=remedy)]

    groups = defaultdict(list)
    for contest in m.contests:
        groups[contest.values(m.group_axes)].append(contest)
    configurations = pd.DataFrame([contest.configuration for contest in m.contests])
    machines = configurations.groupby("device")["machine"].nunique()
    name_machine = machines.max() > 1
    varied = varying(configurations, m.group_axes)
    variants = variant_labels(configurations["variant"])

    result = []
    for key, group in groups.items():
        learnt = _of_group(m.learning, m.group_axes, key)
        in_words = []
        for contest in group:
            words = words_of(contest, m.reference, name_machine)
            if len(groups) == 1:
                words = replace(words, network=network_of(contest.configuration["cell"]))
            if contest.configuration.get("equal") == Equality.CERTIFIED and are_same(learnt):
                words = replace(words, same=", with the same results")
            in_words.append(words)
        first, *texts = contest_sentences(in_words)
        texts += [text for text in map(other_functions, in_words) if text]
        for choice in m.device_choices:
            if choice.best in group:
                texts.append(device_sentence(choice, name_machine))
        texts += excluded(group, [words.place for words in in_words])

        speed = n.sentences([first])
        rankings = []
        if len(groups) > 1:
            # A name is not capitalized.
            speed = f"{short_group(group[0].configuration, varied, variants)}: {first}."
        else:
            rankings = [ranking(words, m.about_rnn) for words in in_words[:CONTESTS]]
        accuracy = same_sentence(learnt)
        outliers = outlier_sentence(_of_group(m.alike, m.group_axes, key))
        result.append(
            Answer(
                speed,
                f"{accuracy} {outliers}".strip(),
                n.sentences(texts),
                tuple(ranking for ranking in rankings if ranking),
            )
        )
    return result


def headline(m: Tables) -> Answer:
    """The one answer for many groups.

    It says how often each implementation has the shortest epochs, how often that is more than
    chance, and whether accuracies differ.
    """
    places = []
    counts: Counter[str] = Counter()
    speedups = defaultdict(list)
    shown = 0
    for contest in m.contests:
        row = contest.configuration
        places.append(f"for {row['model']} on {row['device']}")
        if not contest.leads:
            continue  # fewer than two contestants

        name = contest.contestants[0].name
        counts[name] += 1
        if contest.speedup and contest.is_faster:
            speedups[name].append(contest.speedup.estimate)
        if not contest.rivals:
            shown += 1

    rest = [
        n.sentences(excluded(m.contests, places)),
        outlier_sentence(m.alike),
    ]

    if not counts:
        fast = "Each network has been run with only one implementation, or none has a result."
    else:
        base = reference_label(m.reference)
        wins = []
        for name, count in counts.most_common():
            win = f"`{name}` in {count}"
            if name in speedups:
                low = n.times(min(speedups[name]))
                high = n.times(max(speedups[name]))
                times = high
                if low != high:
                    times = f"{low.removesuffix(' times')} to {high}"
                win += f" ({times} as fast as `{base}`)"
            wins.append(win)
        comparisons = n.counted(counts.total(), "comparison")
        fast = (
            f"Shortest epochs in {comparisons}: {n.few(wins, WINNERS, ', ')}; "
            f"in {shown or 'none'}, the first is shown to be faster than all others."
        )

    others = m.learning[~m.learning["is_reference"].astype(bool)]
    difference = difference_sentence(others)
    if difference:
        rest.append(difference)
    elif len(others):
        few = ""
        if others["seeds"].min() < MIN_SEEDS:
            few = f"; {TOO_FEW_SEEDS} cannot show one"
        many = n.counted(len(others), "comparison")
        rest.append(f"No difference in accuracy is shown in {many} with the reference{few}.")
    return Answer(fast, " ".join(text for text in rest if text))


def kernel_to_use(m: Tables) -> str:
    """The kernel of `rnnlayers` that is faster than Keras's own layer, and may be the fastest, in
    every contest; ``""`` if there is none, or another layer is the reference."""
    if m.reference != {"rnn": "keras"}:
        return ""
    names: list[str] | None = None
    for contest in m.contests:
        if not contest.is_faster:
            return ""
        fastest = [contest.contestants[0].name, *(rival.name for rival in contest.rivals)]
        names = [name for name in names or fastest if name in fastest]
    usable = [name for name in names or () if name in USABLE]
    return usable[0] if usable else ""


def _of_group(table: pd.DataFrame, axes: Sequence[str], key: Any) -> pd.DataFrame:
    """The rows of `table` that belong to one group.

    - `axes`: the columns that identify a group.
    - `key`: their values, as ``groupby`` returns them.
    """
    is_of_group = table[list(axes)] == list(key)
    return table[is_of_group.all(axis=1)]


def excluded(contests: Sequence[Contest], places: Sequence[str]) -> list[str]:
    """Which configurations take no part in the answer, and why.

    `places`: where, for each contest.
    """
    reasons = []
    is_table_enough = True  # which has the ratios of other functions, and how they differ
    voids = defaultdict(list)
    for contest, place in zip(contests, places, strict=True):
        for each in contest.left_out:
            reasons.append(left_out_text(each))
            is_table_enough &= each.is_another_function
        is_table_enough &= len(contest.contestants) == 1
        void = "; ".join(map(left_out_text, contest.void))
        if void:
            voids[void].append(place)

    texts = []
    if reasons and not is_table_enough:
        texts.append(f"not compared: {n.few(reasons, LEFT_OUT)}")
    if voids:
        listed = []
        for void, where in voids.items():
            listed.append(f"{void} {n.few(where, LEFT_OUT, ' and ')}".strip())
        texts.append(f"excluded because every run is void: {n.few(listed, LEFT_OUT)}")
    return texts
