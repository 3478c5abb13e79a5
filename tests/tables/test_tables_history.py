"""The measurements of an experiment over time, and what changed between them."""

from __future__ import annotations

import math
from datetime import timedelta

import numpy as np
import pytest

from rnnbench.records.interval import Interval
from rnnbench.records.record import Record
from rnnbench.tables.estimates import Measurements
from rnnbench.tables.frame import tidy
from rnnbench.tables.history import Trend, history, measurements, quotient
from rnnbench.tables.stats import difference_interval
from rnnbench.tables.time import time
from tests.factory import BEGINNING, KERAS, make_late, make_runs, replace

LATER = BEGINNING + timedelta(days=3)


def at(days: float, block: float, repeats: int = 3, **changes: object) -> list[Record]:
    """Runs of keras at 0.5 s and of block at so many seconds."""
    levels = {"keras": 0.5, "block": block}
    return make_runs(levels, repeats, started=BEGINNING + timedelta(days=days), **changes)


def table_of(*each: list[Record]):
    times = [time(Measurements(tidy(own), KERAS)) for own in each]
    return history(times, [own[0].started for own in each])


def names(found: list[list[Record]]) -> list[int]:
    return [len(own) for own in found]


def test_a_pause_or_another_version_begins_a_measurement():
    first, second = at(0, 0.4), at(3, 0.4)
    assert names(measurements(second + first)) == [6, 6]
    assert measurements(second + first)[0][0].started == first[0].started
    soon = at(0.01, 0.4)  # a quarter of an hour
    assert names(measurements(first + soon)) == [6], "the last record of each run counts"
    assert {record.started for record in measurements(first + soon)[0]} == {soon[0].started}
    for change in ({"identity": {"worker": "another"}}, {"digest": "e" * 64}):
        changed = [replace(record, **change) for record in soon]
        assert names(measurements(first + changed)) == [6, 6], change
    # A repeat more, of another version.
    more = [replace(record, repeat=9, identity={"worker": "x"}) for record in soon[:1]]
    assert names(measurements(first + more)) == [6, 1]


def test_companions_stay_with_the_round_of_their_last_records():
    reference, late, companion = make_late()
    found = measurements([reference, late, companion])
    assert [record.is_companion for own in found for record in own] == [False, False, True]
    again = replace(late, started="20261121T090000_000000Z", finished="20261121T090100_000000Z")
    again = replace(again, round=replace(again.round, id="another"))
    found = measurements([reference, late, companion, again])
    assert all(companion not in own for own in found)


def test_a_reference_that_was_measured_only_beside_a_changed_kernel_counts():
    first, second = at(0, 0.4), at(0.01, 0.5)
    changed = []
    for record in second:
        if record.run.choices["rnn"] == "keras":
            changed.append(replace(record, round=replace(record.round, companion=True)))
        else:
            changed.append(replace(record, digest="e" * 64))
    found = measurements(first + changed)
    assert names(found) == [6, 6]
    table = table_of(*found)
    (row,) = table[(table["rnn"] == "block") & (table["measurement"] == 2)].to_dict("records")
    assert (row["trend"], row["before"]) == (Trend.REGRESSION, 1)
    assert row["change"] == pytest.approx(0.8, rel=0.01)


@pytest.mark.parametrize(
    ("block", "trend"),
    [
        (0.50, Trend.REGRESSION),
        (0.405, Trend.SLOWER),
        (0.4, Trend.NO_CHANGE),
        (0.3, Trend.FASTER),
    ],
)
def test_a_change_is_told_with_its_interval(block, trend):
    table = table_of(at(0, 0.4), at(3, block)).set_index(["measurement", "rnn"])
    row = table.loc[(2, "block")]
    assert row["trend"] == trend and row["before"] == 1
    assert row["change"] == pytest.approx(0.4 / block, rel=0.01)
    assert row["change_low"] < 0.4 / block < row["change_high"]
    assert table.loc[(1, "block")]["trend"] == Trend.FIRST
    assert table.loc[(2, "keras")]["trend"] == Trend.FIRST  # the reference has no speed-up


def test_one_round_is_not_told_and_a_gap_is_bridged():
    table = table_of(at(0, 0.4), at(3, 0.5, repeats=1), at(6, 0.5))
    of_block = table[table["rnn"] == "block"].set_index("measurement")
    assert of_block["trend"].tolist() == [Trend.FIRST, Trend.UNKNOWN, Trend.UNKNOWN]
    without = [record for record in at(3, 0.5) if record.run.choices["rnn"] == "keras"]
    table = table_of(at(0, 0.4), without, at(6, 0.5))
    (row,) = table[(table["rnn"] == "block") & (table["measurement"] == 3)].to_dict("records")
    assert (row["before"], row["trend"]) == (1, Trend.REGRESSION)


@pytest.mark.parametrize(("rounds", "others"), [(2, 2), (2, 5), (3, 3), (5, 5)])
def test_the_interval_of_a_change_contains_the_truth(rounds, others):
    """In 95 % or a little more, with two rounds on both sides in 99 %; 2,000 tries with spreads
    that differ by a factor of three."""
    generator = np.random.default_rng(rounds)
    inside = 0
    for _ in range(2000):
        ends = []
        for count, spread in ((rounds, 0.01), (others, 0.03)):
            values = generator.normal(0.2, spread, count).tolist()
            ends.append(difference_interval(values).map(math.exp))
        change = quotient(*ends)
        assert change.low is not None and change.high is not None
        inside += change.low <= 1 <= change.high
    assert 0.94 <= inside / 2000 <= (0.996 if rounds == others == 2 else 0.985)


def test_the_quotient_of_equal_intervals_is_wider_than_each():
    one = Interval(2.0, 1.9, 2.0**2 / 1.9)
    change = quotient(one, one)
    assert change.estimate == 1 and change.high == pytest.approx((2 / 1.9) ** math.sqrt(2))
    assert quotient(one, Interval(2.0, None, None)) == Interval(1.0, None, None)
