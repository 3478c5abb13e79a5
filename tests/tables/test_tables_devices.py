"""On which device a network trains fastest."""

from __future__ import annotations

import pytest

from rnnbench.tables.contests import contests, device_choices
from rnnbench.tables.estimates import Measurements
from rnnbench.tables.frame import tidy
from rnnbench.tables.time import time
from tests.factory import make_runs

KERAS = {"rnn": "keras"}


def choices(records, reference=KERAS):
    measured = Measurements(tidy(records), reference)
    return measured, device_choices(measured, contests(measured, time(measured)))


def winners(choice):
    return choice.best.contestants[0], choice.other.contestants[0]


def records(on_two: float, noise: float = 0.001):
    one = make_runs({"keras": 0.5, "block": 0.4}, noise=noise)
    return [*one, *make_runs({"keras": 0.3, "block": on_two}, noise=noise, device="cpu_2")]


def test_the_fastest_of_each_device_are_compared():
    measured, (choice,) = choices(records(0.2))
    best, other = winners(choice)
    assert (best.name, other.name) == ("block", "block")
    assert choice.best.configuration["device"] == "cpu_2"
    assert choice.other.configuration["device"] == "cpu_1"
    assert best.seconds == pytest.approx(0.2, rel=0.01)
    assert other.seconds == pytest.approx(0.4, rel=0.01)
    assert choice.lead.estimate == pytest.approx(other.seconds / best.seconds)
    assert choice.lead.shown_different
    # The interval is that of the pair wherever it stands.
    keys = [key for key in measured.groups if measured.groups[key]["rnn"][0] == "block"]
    one, two = sorted(keys, key=lambda key: measured.groups[key]["device"][0])
    assert choice.lead == measured.estimates.ratio(two, one)


def test_another_implementation_may_be_the_fastest_on_the_other_device():
    _, (choice,) = choices(records(0.6))
    assert [each.name for each in winners(choice)] == ["keras", "block"]
    assert choice.best.configuration["device"] == "cpu_2"


def test_devices_that_may_differ_by_chance_are_not_ranked():
    one = make_runs({"keras": 0.5, "block": 0.4}, noise=0.05)
    noisy = [*one, *make_runs({"block": 0.4, "keras": 0.5}, noise=0.05, device="cpu_2")]
    _, (choice,) = choices(noisy)
    assert not choice.lead.shown_different and choice.lead.low < 1 < choice.lead.high


def test_there_is_no_choice_of_one_device_or_if_the_reference_names_it():
    assert choices(make_runs({"keras": 0.5, "block": 0.4}))[1] == []
    assert choices(records(0.2), {"device": "cpu_1"})[1] == []
    assert choices([])[1] == []
