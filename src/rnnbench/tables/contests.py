"""The fastest implementation of each contest, and the fastest device of each network.

Picking the fastest of several configurations finds differences by chance. A configuration is
therefore called the fastest only if it is shown to be faster than *every* other: a wrong one would
have to beat the true fastest, so this happens in about 2.5 % of the experiments at most, however
many take part (an intersection-union test; Berger, Technometrics 24, 1982). It needs no wider
intervals, so a ratio has the same interval everywhere. Simulated in ``benchmarks/fastest.py``.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pandas as pd

from rnnbench.axes import DEVICE_COLUMNS, KEY, Row
from rnnbench.tables.estimates import Key, Measurements, key_of
from rnnbench.tables.frame import columns_of, split
from rnnbench.tables.outcome import COMPARED, Outcome
from rnnbench.tables.ratios import Ratio, Unequal
from rnnbench.tables.time import outcome_of

IMPLEMENTATION_AXES = {"rnn", "options", "alias"}


class LeftOut(NamedTuple):
    """Configurations that are not compared.

    - `names` of the configurations, and `why` they are not compared.
    - `is_another_function`: whether they compute another function by design.
    """

    names: tuple[str, ...]
    why: str
    is_another_function: bool = False


class Contestant(NamedTuple):
    """A configuration with a time.

    - `key`: values of `KEY`.
    - `name`: its distinguishing axes as text.
    - `seconds`: per epoch.
    - `is_suspect`: whether it has suspect runs.
    """

    key: Key
    name: str
    seconds: float
    is_suspect: bool


@dataclass(frozen=True, eq=False)
class Contest:
    """Configurations that differ only in the implementation or in the axes that the reference
    names.

    - `configuration`: the columns of the fastest; of the first one if none has a comparable time.
    - `implementations`: their number, void ones included.
    - `contestants`: those with a comparable time, the fastest first.
    - `left_out`: those that do not compute the reference's function or apply wrong gradients.
    - `void`: those without a usable run; `reference_void`: the reason if the reference is one of
      them.
    - `speedup` of the fastest over the reference (None if they are not compared); `outcome`: what
      that comparison found.
    - `leads`: for each other contestant, its seconds / seconds of the fastest.
    - `is_faster`: whether all that may be the fastest are shown to be faster than the reference.
      One of several would often be so by chance.
    - `unequal`: if there is one contestant, each configuration that computes another function, with
      the ratio of its time.
    - `is_slowed`: whether too few rounds of the fastest are undisturbed, so that slowed ones count.
      `is_slowed_apart`: whether this is so of the fastest or of what it is compared with, and both
      did not train in turns: one may have met a slower machine than the other.
    - `keys`: the name of each configuration, void ones included → values of `KEY`.
    """

    configuration: Row
    implementations: int
    contestants: tuple[Contestant, ...]
    left_out: tuple[LeftOut, ...]
    void: tuple[LeftOut, ...]
    reference_void: str
    unequal: tuple[tuple[Contestant, Unequal], ...] = ()
    speedup: Ratio | None = None
    outcome: Outcome | None = None
    leads: tuple[Ratio, ...] = ()
    is_faster: bool = False
    is_slowed: bool = False
    is_slowed_apart: bool = False
    keys: Mapping[str, Key] = field(default_factory=dict)

    @property
    def rivals(self) -> tuple[Contestant, ...]:
        """The contestants that may be as fast as the first."""
        others = zip(self.contestants[1:], self.leads, strict=True)
        return tuple(other for other, lead in others if not lead.shown_different)

    def values(self, axes: Sequence[str]) -> Key:
        """The values of `axes`."""
        return tuple(self.configuration[axis] for axis in axes)


@dataclass(frozen=True)
class DeviceChoice:
    """The devices of a network.

    - `best`: the contest whose fastest configuration is the fastest on all devices; `other`: that
      of the second-fastest device.
    - `lead` = seconds of the other / seconds of the best. Its interval contains what varies
      between the rounds of each device.
    """

    best: Contest
    other: Contest
    lead: Ratio


def contests(measured: Measurements, time_table: pd.DataFrame) -> list[Contest]:
    """The contests between the configurations of the time table and those whose runs are void, in
    the order of their first configurations."""
    reference_axes = set(measured.reference) & set(KEY) - IMPLEMENTATION_AXES
    contest_axes = [axis for axis in KEY if axis not in reference_axes | IMPLEMENTATION_AXES]
    members = defaultdict(list)
    for row in time_table.to_dict("records") + _void_configurations(measured):
        contest = tuple(row[axis] for axis in contest_axes)
        members[contest].append(row)
    return [_contest(measured, rows, sorted(reference_axes)) for rows in members.values()]


def _void_configurations(measured: Measurements) -> list[Row]:
    """The configurations without a usable run, with `void`: the shortest reason of their runs."""
    found = []
    runs = measured.frame[measured.frame["phase"] == "run"]
    for key, own in split(runs, KEY, ["reasons", "implementation"]).items():
        if key not in measured.groups:
            reasons = [reason for reason in own["reasons"] if reason]
            row = columns_of(key)
            row["implementation"] = own["implementation"][0]
            row["void"] = min(reasons, key=len, default="no epoch was finished").rstrip(".")
            found.append(row)
    return found


def _contest(measured: Measurements, members: list[Row], reference_axes: list[str]) -> Contest:
    """The contest of some configurations.

    - `members`: rows of the time table and of `_void_configurations`.
    - `reference_axes`: those axes of the reference that are not of the implementation.
    """
    axes = []
    for axis in reference_axes:
        if len({row[axis] for row in members}) > 1:
            axes.append(axis)
    implementations = len({row["implementation"] for row in members})
    if implementations > 1 or not axes:
        axes.insert(0, "implementation")

    ranked = []
    others = []  # that compute another function by design
    left_out = []
    void = []
    void_reasons = {}
    rows = {}
    keys = {}
    for row in sorted(members, key=lambda row: row.get("epoch_seconds", math.inf)):
        key = key_of(row)
        rows[key] = row
        texts = [str(row[axis]) for axis in axes if row[axis]]
        name = ", ".join(texts) or str(row["model"])
        keys[name] = key
        if "void" in row:
            void_reasons[key] = row["void"]
            void.append(LeftOut((name,), row["void"]))
            continue
        own = Contestant(key, name, row["epoch_seconds"], bool(row["suspect"]))
        is_another = bool(row["is_another_function"])
        if is_another:
            others.append(own)
        if row["not_learning"] or row["words"] == Outcome.ANOTHER_FUNCTION:
            why = row["not_learning"] or row["equal_why"]
            left_out.append(LeftOut((name,), why, is_another))
        else:
            ranked.append(own)

    shown = rows[ranked[0].key] if ranked else members[0]
    base = measured.against[key_of(shown)]
    contest = Contest(
        configuration=shown,
        implementations=implementations,
        keys=keys,
        contestants=tuple(ranked),
        left_out=_by_reason(left_out),
        void=_by_reason(void),
        reference_void=void_reasons.get(base, ""),
    )
    if ranked:
        contest = with_ratios(
            measured,
            contest,
            base,
            others,
        )
    return contest


def _by_reason(left_out: Sequence[LeftOut]) -> tuple[LeftOut, ...]:
    """Those with the same reason together.

    `left_out`: one for each configuration.
    """
    found: dict[str, LeftOut] = {}
    for each in left_out:
        if each.why in found:
            each = each._replace(names=found[each.why].names + each.names)
        found[each.why] = each
    return tuple(found.values())


def with_ratios(
    measured: Measurements,
    contest: Contest,
    base: Key,
    others: Sequence[Contestant],
) -> Contest:
    """A contest with its ratios.

    - `base`: the reference.
    - `others`: the configurations that compute another function.
    """
    estimates = measured.estimates
    first = contest.contestants[0].key
    speedup = None
    outcome = contest.configuration["words"]
    if outcome in COMPARED:
        speedup = estimates.ratio(first, base)
        outcome = outcome_of(speedup)
    leads = [estimates.ratio(first, other.key) for other in contest.contestants[1:]]
    unequal = []
    if not leads:
        for other in others:
            ratio = estimates.ratio(other.key, base)
            unequal.append((other, Unequal(ratio.estimate, ratio.low, ratio.high)))
    is_slowed_apart = False
    if leads:
        against = base if speedup else contest.contestants[1].key
        ratio = speedup or leads[0]
        is_slowed = estimates.is_slowed(first) or estimates.is_slowed(against)
        is_slowed_apart = is_slowed and not ratio.method.in_turns
    contest = replace(contest, leads=tuple(leads))
    is_faster = outcome == Outcome.FASTER
    if speedup:
        for rival in contest.rivals:
            is_faster &= outcome_of(estimates.ratio(rival.key, base)) == Outcome.FASTER
    return replace(
        contest,
        speedup=speedup,
        outcome=outcome,
        is_faster=is_faster,
        unequal=tuple(unequal),
        is_slowed=estimates.is_slowed(first),
        is_slowed_apart=is_slowed_apart,
    )


def extra_ratios(every: Iterable[Contest]) -> int:
    """The number of leads with an interval that are not already a ratio in the time table."""
    count = 0
    for contest in every:
        known = [lead for lead in contest.leads if lead.low is not None]
        count += len(known)
        if contest.speedup and contest.speedup in known:
            count -= 1
    return count


def device_choices(measured: Measurements, every: Iterable[Contest]) -> list[DeviceChoice]:
    """The device of each network that has results on several; none if the reference names the
    device, because the contests then compare devices."""
    if set(DEVICE_COLUMNS) & set(measured.reference):
        return []
    by_network = defaultdict(list)
    for contest in every:
        if contest.contestants:
            by_network[contest.values(measured.group_axes)].append(contest)
    choices = []
    for places in by_network.values():
        if len(places) > 1:
            ordered = sorted(places, key=lambda contest: contest.contestants[0].seconds)
            best, other = ordered[:2]
            own = best.contestants[0].key
            lead = measured.estimates.ratio(own, other.contestants[0].key)
            choices.append(DeviceChoice(best, other, lead))
    return choices
