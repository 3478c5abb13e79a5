"""Contests in words: who is faster, by how much, and why there is no answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rnnbench.axes import KEY
from rnnbench.records.interval import Interval
from rnnbench.records.overrides import labelled, reference_label
from rnnbench.report import numbers as n
from rnnbench.report.labels import (
    device_words,
    joined,
    threads_in_words,
)
from rnnbench.report.numbers import Row
from rnnbench.sources.certificates import NOT_LEARNING
from rnnbench.tables.contests import Contest, Contestant, DeviceChoice
from rnnbench.tables.outcome import Outcome
from rnnbench.tables.time import outcome_of

RNN = KEY.index("rnn")
CONTESTS = 4  # devices named in one answer; the tables have the others
RIVALS = 5  # lines of a ranking; the table has the others
OTHER_FUNCTIONS = 3  # whose ratios are named
SHORT = 25  # words of the first sentence
CELLS = {"lstm": "LSTM", "gru": "GRU", "gru_reset_before": "GRU"}


@dataclass(frozen=True)
class Line:
    """A line of a ranking.

    - `text`: ``1.55 times as fast as `keras` (1.48 to 1.64)``.
    - `about`: what the implementation named in it is; ``""`` if that is not known.
    """

    text: str
    about: str


@dataclass(frozen=True)
class ContestWords:
    """A contest in words.

    - `contest`: the contest.
    - `place`: where it took place, ``on one thread``; ``""`` if it has no device.
    - `start`: how its sentence starts, ``on one thread, ``, without it if the names contain the
      device.
    - `winner`, `base`, `second`: the fastest, the reference and the runner-up as the sentence names
      them; ``""`` if there is no fastest or no runner-up.
    - `network`: what is trained, `` this LSTM`` or ``""``.
    - `same`: ``, with the same results`` if that is known of the fastest and the reference.
    """

    contest: Contest
    place: str
    start: str
    winner: str
    base: str
    second: str
    network: str = ""
    same: str = ""


def place_words(row: Row, name_machine: bool) -> str:
    """The device of a configuration: ``two threads``, ``two threads of HOST``.

    - `row`: has its columns.
    - `name_machine`: whether to name the machine.
    """
    words = device_words(row["device"], row["variant"])
    if name_machine:
        words += f" of {row['machine']}"
    return words


def words_of(contest: Contest, reference: dict[str, str], name_machine: bool) -> ContestWords:
    """A contest in words.

    - `reference`: that of the experiment, by axis.
    - `name_machine`: whether devices are named with their machines.
    """
    row = contest.configuration
    axes = reference
    several = contest.implementations > 1 or not reference
    if row["rnn"] and several and "rnn" not in reference:
        # The base has the options of the row, but for those that the reference names.
        own = row["options"].those(lambda key: key not in reference)
        axes = {"rnn": labelled(row["rnn"], own), **reference}

    place = ""
    start = ""
    if row["device"]:
        place = f"on {place_words(row, name_machine)}"
        # The names contain the devices, if these are compared.
        if "device" not in reference or name_machine:
            start = f"{place}, "

    base = reference_label(axes)
    names = [contestant.name for contestant in contest.contestants]
    return ContestWords(
        contest,
        place,
        start,
        winner=layer(names[0]) if names else "",
        base=layer(base),
        second=layer(names[1]) if len(names) > 1 else "",
    )


def layer(name: str) -> str:
    """An implementation as the sentence names it."""
    return "Keras's own layer" if name == "keras" else f"`{name}`"


def network_of(cell: str) -> str:
    """What is trained: `` this LSTM``."""
    return f" this {CELLS[cell]}" if cell in CELLS else " this model"


def _name(contestant: Contestant) -> str:
    """Its name as code, with a dagger if it has suspect runs."""
    return n.daggered(contestant.name, contestant.is_suspect)


def ranking(words: ContestWords, about: Mapping[str, str]) -> tuple[Line, ...]:
    """The fastest of a contest, then its ratio to each of the others.

    `about`: choice of `rnn` → what it is.
    """
    contest = words.contest
    if not contest.leads:
        return ()
    first, *others = contest.contestants
    place = joined((_name(first), words.place), " ")
    lines = [Line(f"{place}: {n.plain(first.seconds)} s per epoch", _about(first, about))]
    for other, lead in zip(others[:RIVALS], contest.leads, strict=False):
        text = as_fast(lead, _name(other))
        if lead.low is not None and not lead.shown_different:
            text += f", so {_name(other)} may be as fast"
        lines.append(Line(text, _about(other, about)))
    if len(others) > RIVALS:
        lines.append(Line(f"the table has {len(others) - RIVALS} more", ""))
    return tuple(lines)


def _about(contestant: Contestant, about: Mapping[str, str]) -> str:
    """What its implementation is, in a few words."""
    whole = about.get(str(contestant.key[RNN]), "")
    return whole.partition(". ")[0].removesuffix(".")


def contest_sentences(contests: Sequence[ContestWords]) -> list[str]:
    """A sentence per device, without its full stop.

    If the same implementation is faster than the reference on several devices, only the first
    sentence names both. The next ones are short: ``on two threads, 1.25 times (1.25 to 1.26)``.
    """
    sentences = []
    named = None
    for words in contests[:CONTESTS]:
        contest = words.contest
        sentence = first_sentence(words)
        names = None
        if contest.speedup and contest.is_faster:
            names = words.winner, words.base
            if names == named and words.start:
                times = n.times(contest.speedup.estimate)
                sentence = f"{words.start}{times} ({_interval(contest.speedup)}){_rivals(words)}"
        sentences.append(sentence)
        named = names
    if len(contests) > CONTESTS:
        more = n.counted(len(contests) - CONTESTS, "more device")
        sentences.append(f"the tables below have {more}")
    return sentences


def first_sentence(words: ContestWords) -> str:
    """Who trains fastest, and by how much, in at most `SHORT` words if the names are short."""
    sentence = words.start + _sentence(words)
    if len(sentence.split()) > SHORT:
        sentence = words.start + _sentence(replace(words, network="", same=""))
    return sentence


def _rivals(words: ContestWords) -> str:
    """``, and `cell` may be as fast`` if that is not excluded, else ``""``."""
    rivals = words.contest.rivals
    if not rivals:
        return ""
    who = f"{len(rivals)} others"
    if len(rivals) == 1:
        who = layer(rivals[0].name)
    return f", and {who} may be as fast"


def _sentence(words: ContestWords) -> str:
    """Who trains fastest, and by how much, without the device.

    The fastest is compared with the reference or, if it is the reference, with the runner-up:
    ```block` trains this LSTM 1.25 times as fast as `cell` (1.22 to 1.28)``. Without a usable
    reference, the sentence has the seconds of the fastest only.
    """
    contest = words.contest
    winner = words.winner
    if not contest.leads:
        return _without_contest(words)
    if contest.outcome in (Outcome.NO_REFERENCE, Outcome.WRONG_REFERENCE):
        why = f"the reference, {words.base}, was not run there"
        if contest.reference_void:
            why = f"every run of the reference, {words.base}, is void there"
        elif contest.outcome == Outcome.WRONG_REFERENCE:
            why = f"there is no speed-up, because the reference, {words.base}, {NOT_LEARNING}"
        seconds = n.plain(contest.contestants[0].seconds)
        return f"{winner} has the shortest epochs, {seconds} s; {why}"

    ratio = contest.speedup
    other = words.base
    if ratio is None:
        other = words.second
    if contest.is_slowed_apart:
        return (
            f"{winner} and {other} cannot be compared, because the machine was slowed down during "
            "the runs of one of them"
        )
    if ratio is None:  # the fastest is the reference
        ratio = contest.leads[0]
        if not contest.rivals:
            lead = as_fast(ratio, other)
            return f"nothing trains{words.network} faster than {winner}: {lead}"
    if outcome_of(ratio) == Outcome.NO_DIFFERENCE:
        return no_difference(winner, other, ratio)
    if ratio.low is not None and not contest.is_faster:
        return f"no fastest is shown; {winner} is ahead, {as_fast(ratio, other)}"
    rivals = ""
    same = words.same
    if ratio.low is not None and contest.rivals:
        rivals = _rivals(words)
        same = ""
    return f"{winner} trains{words.network} {as_fast(ratio, other)}{rivals}{same}"


def as_fast(ratio: Interval, base: str = "") -> str:
    """``1.25 times as fast as BASE (1.22 to 1.28)``; the text says if there is no interval.

    - `ratio`: a speed-up.
    - `base`: what it is relative to; ``""`` if another part of the sentence says so.
    """
    text = f"{n.times(ratio.estimate)} as fast"
    if base:
        text += f" as {base}"
    return f"{text} ({_interval(ratio)})"


def no_difference(first: str, second: str, ratio: Interval) -> str:
    """``FIRST is not shown to be faster than SECOND: 1.04 times as fast (0.99 to 1.10)``.

    - `first`, `second`: names as they stand in the sentence.
    - `ratio`: how many times as fast the first is.
    """
    return f"{first} is not shown to be faster than {second}: {as_fast(ratio)}"


def _interval(ratio: Interval) -> str:
    """``1.22 to 1.28``, or that there is no interval."""
    if n.is_number(ratio.low):
        return n.ratio_interval(ratio, " to ")
    return "one run"


def _without_contest(words: ContestWords) -> str:
    """The sentence if there are fewer than two contestants, so that nothing can be the fastest.

    Implementations of other functions get the ratios of their times:
    ```auto` computes a different function from `keras`, so there is no speed-up; it trains ≠ 1.21×
    as fast (1.19 to 1.23)``.
    """
    contest = words.contest
    others = contest.unequal
    if not contest.contestants:
        return "no run has a comparable result"
    winner = f"`{contest.contestants[0].name}`"
    if not any(each.is_another_function for each in contest.left_out):
        done = "has been run"
        if contest.void or contest.left_out:
            done = "has a result"
        return f"only {winner} {done}, so there is nothing to compare"

    none = "so there is no speed-up"
    if len(others) != 1:
        return f"the other {len(others)} compute different functions from {winner}, {none}"
    ((other, ratio),) = others
    text = f"{n.unequal(ratio)} as fast ({_interval(ratio)})"
    return f"{_name(other)} computes a different function from {winner}, {none}; it trains {text}"


def other_functions(words: ContestWords) -> str:
    """The ratios of several that compute other functions; ``""`` for fewer.

    ``the others train ≠ 1.21× (`auto`, 1.19 to 1.23) and ≠ 0.9× (`cell`, 0.8 to 1.0) as fast``
    """
    others = words.contest.unequal
    if len(others) < 2:
        return ""
    ratios = []
    for other, ratio in others[:OTHER_FUNCTIONS]:
        ratios.append(f"{n.unequal(ratio)} ({_name(other)}, {_interval(ratio)})")
    more = ""
    if len(others) > OTHER_FUNCTIONS:
        more = f" (the table has {len(others) - OTHER_FUNCTIONS} more)"
    listed = f"{', '.join(ratios[:-1])} and {ratios[-1]}"
    return f"{words.start}the others train {listed} as fast{more}"


def device_sentence(choice: DeviceChoice, name_machine: bool) -> str:
    """What is known about two devices: ``two threads train 1.19 times as fast as one thread
    (1.08 to 1.31), with `unrolled` and `block```.

    Nothing is said to be faster if the machine was slowed down in the rounds of one of them.

    `name_machine`: whether devices are named with their machines.
    """
    row = choice.best.configuration
    device = place_words(row, name_machine)
    other = place_words(choice.other.configuration, name_machine)
    slowed = []
    for contest, words in ((choice.best, device), (choice.other, other)):
        if contest.is_slowed:
            slowed.append(words)
    if slowed:
        return (
            f"{device} and {other} cannot be compared, because the machine was slowed down "
            f"during the runs on {' and '.join(slowed)}"
        )
    if choice.lead.low is None:
        return f"{device} and {other} cannot be compared, because one run each shows no spread"
    if not choice.lead.shown_different:
        are = "are" if _is_plural(row) else "is"
        return f"{device} {are} not shown to be faster than {other}: {as_fast(choice.lead)}"
    train = "train" if _is_plural(row) else "trains"
    names = dict.fromkeys(_name(each.contestants[0]) for each in (choice.best, choice.other))
    return f"{device} {train} {as_fast(choice.lead, other)}, with {' and '.join(names)}"


def _is_plural(row: Row) -> bool:
    """Whether a device is named as several threads."""
    return threads_in_words(row["device"], row["variant"]) not in (None, 1)
