"""On which device a network trains fastest."""

from __future__ import annotations

import pytest

from rnnbench.tables.contests import fastest
from rnnbench.tables.devices import device_choice
from rnnbench.tables.estimates import Measurements
from rnnbench.tables.frame import tidy
from rnnbench.tables.time import time
from tests.factory import make_runs

KERAS = {"rnn": "keras"}


def choices(records, reference=KERAS):
    measured = Measurements(tidy(records), reference)
    return measured, device_choice(measured, fastest(measured, time(measured)))


def records(on_two: float, noise: float = 0.001):
    one = make_runs({"keras": 0.5, "block": 0.4}, noise=noise)
    return [*one, *make_runs({"keras": 0.3, "block": on_two}, noise=noise, device="cpu_2")]


def test_the_fastest_of_each_device_are_compared():
    measured, table = choices(records(0.2))
    (row,) = table.to_dict("records")
    assert (row["device"], row["name"], row["other_device"], row["other_name"]) == (
        "cpu_2", "block", "cpu_1", "block",
    )  # fmt: skip
    assert row["seconds"] == pytest.approx(0.2, rel=0.01)
    assert row["other_seconds"] == pytest.approx(0.4, rel=0.01)
    assert row["lead"] == pytest.approx(row["other_seconds"] / row["seconds"])
    assert row["lead_shown"] and row["machines"] == 1
    # It was chosen from four configurations, so the interval is wider than that of one comparison.
    keys = [key for key in measured.groups if measured.groups[key]["rnn"][0] == "block"]
    one, two = sorted(keys, key=lambda key: measured.groups[key]["device"][0])
    single, chosen = (measured.estimates.ratio(two, one, count) for count in (1, 3))
    assert (row["lead_low"], row["lead_high"]) == (chosen.low, chosen.high)
    assert chosen.high > single.high


def test_another_implementation_may_be_the_fastest_on_the_other_device():
    _, table = choices(records(0.6))
    (row,) = table.to_dict("records")
    assert (row["name"], row["other_name"], row["device"]) == ("keras", "block", "cpu_2")


def test_devices_that_may_differ_by_chance_are_not_ranked():
    one = make_runs({"keras": 0.5, "block": 0.4}, noise=0.05)
    noisy = [*one, *make_runs({"block": 0.4, "keras": 0.5}, noise=0.05, device="cpu_2")]
    (row,) = choices(noisy)[1].to_dict("records")
    assert not row["lead_shown"] and row["lead_low"] < 1 < row["lead_high"]


def test_there_is_no_choice_of_one_device_or_if_the_reference_names_it():
    assert choices(make_runs({"keras": 0.5, "block": 0.4}))[1].empty
    assert choices(records(0.2), {"device": "cpu_1"})[1].empty
    assert choices([])[1].empty
