"""Cost, builds, threads, targets, warm-up and certificates against numbers worked out by hand."""

from __future__ import annotations

import dataclasses
import math

import pytest

from rnnbench.sources.certificates import checked
from rnnbench.sources.prices import Price, PriceList
from rnnbench.tables.accuracy import accuracy
from rnnbench.tables.builds import builds
from rnnbench.tables.certificates import CERTIFIED, UNEQUAL, UNKNOWN, Certificates
from rnnbench.tables.comparison import versus
from rnnbench.tables.cost import cheapest_within, cost, fastest_under
from rnnbench.tables.fastest import fastest
from rnnbench.tables.frame import tidy
from rnnbench.tables.scaling import amdahl, scaling, serial_fraction
from rnnbench.tables.target import curves_by_second, target
from rnnbench.tables.time import NOT_EQUAL, time
from rnnbench.tables.warmup import change_point, warmup
from tests.factory import make_record
from tests.report.six import certificate, steps

REFERENCE = {"rnn": "keras"}
PRICES = PriceList("x", "X", "2026", "me", (
    Price("cpu_1", "on_demand", 0.36), Price("cpu_2", "on_demand", 1.8),
    Price("cpu_2", "preemptible", 0.1)), reference="cpu_1")  # fmt: skip


def in_build(build, **changes):
    record = make_record(**changes)
    return dataclasses.replace(
        record,
        choices={**record.choices, "build": build},
        name=record.name.replace("current", build),
    )


def test_cost_by_hand():
    frame = tidy([make_record(epoch_seconds=20.0), make_record(device="cpu_2", epoch_seconds=5.0)])
    table = cost(frame, time(frame, REFERENCE), PRICES, REFERENCE)
    one, two = table.to_dict("records")
    # Five epochs: 100 s at 0.36 USD/h = 0.01 USD; 25 s at 1.8 USD/h = 0.0125 USD.
    assert (one["seconds"], one["usd"]) == (pytest.approx(100), pytest.approx(0.01))
    assert (two["relative"], two["relative_usd"]) == (pytest.approx(0.25), pytest.approx(1.25))
    assert two["break_even_usd_per_hour"] == pytest.approx(1.44)
    assert one["reference"] and one["on_front"] and two["on_front"]
    assert cheapest_within(table, 120)["device"] == "cpu_1"
    assert cheapest_within(table, 30)["device"] == "cpu_2"
    assert cheapest_within(table, 1) is None
    assert fastest_under(table, 0.011)["device"] == "cpu_1"
    assert PRICES.of("cpu_2", "preemptible").usd_per_hour == 0.1


def test_without_a_price_there_is_no_cost():
    frame = tidy([make_record(), make_record(device="cpu_2", epoch_seconds=0.25)])
    table = cost(frame, time(frame, REFERENCE), None, REFERENCE)
    assert table["usd"].isna().all() and table["relative"].tolist() == pytest.approx([1, 0.5])
    assert not table["on_front"].any()


def test_places_of_one_machine_are_compared_by_their_common_blocks_and_machines_are_not():
    drift = (1.0, 1.3, 1.7, 1.1)
    one, two = (
        [make_record(device=device, repeat=r, epoch_seconds=level * d) for r, d in enumerate(drift)]
        for device, level in (("cpu_1", 2.0), ("cpu_2", 1.0))
    )
    for other, width in ((two, 0.0), (two[1:], 0.0)):  # a void or lost run costs its block only
        frame = tidy([*one, *other])
        row = cost(frame, time(frame, REFERENCE), None, REFERENCE).to_dict("records")[1]
        assert row["relative"] == pytest.approx(0.5)
        assert row["relative_high"] - row["relative_low"] == pytest.approx(width)
    elsewhere = [dataclasses.replace(record, machine="other-1") for record in two]
    frame = tidy([*one, *elsewhere])
    row = cost(frame, time(frame, REFERENCE), None, REFERENCE).to_dict("records")[1]
    assert row["relative_low"] < 0.4 and row["relative_high"] > 0.6


def test_builds_by_hand():
    records = [
        in_build(build, repeat=repeat, epoch_seconds=level * noise)
        for repeat, noise in enumerate((1.0, 1.01, 1.02))
        for build, level in (("new", 1.0), ("old", 3.0))
    ]
    new, old = builds(tidy(records), {"build": "new"}).to_dict("records")
    assert new["change"] == 1 and old["change"] == pytest.approx(3)
    assert old["regression"] and old["words"] == "slower"
    logs = [math.log(x) for x in (1.0, 1.01, 1.02)]
    spread = math.sqrt(sum((x - sum(logs) / 3) ** 2 for x in logs) / 2)
    assert old["effect"] == pytest.approx(math.log(3) / spread)
    assert builds(tidy(records[::2]), {}).empty


def test_a_change_of_build_has_the_interval_of_the_time_table():
    noise = ((0.99, 1.02, 1.0), (1.0, 0.98, 1.03), (1.02, 1.0, 0.99))
    frame = tidy([
        in_build(build, repeat=repeat, epoch_seconds=wobble)
        for build, wobbles in zip(("new", "old", "older"), noise, strict=True)
        for repeat, wobble in enumerate(wobbles)
    ])  # fmt: skip
    changes = builds(frame, {"build": "new"}).set_index("build")
    speed = time(frame, {"build": "new"}).set_index("build")
    assert speed["method"]["old"].startswith("pooled")
    for build in ("old", "older"):
        assert changes["change_low"][build] == pytest.approx(1 / speed["speedup_high"][build])
        assert changes["change_high"][build] == pytest.approx(1 / speed["speedup_low"][build])


def test_amdahl_is_found_again():
    counts = [1, 2, 4, 8]
    assert serial_fraction(counts, [amdahl(n, 0.1) for n in counts]) == pytest.approx(0.1)
    # 1 / (0.5 + 0.5 / 2) = 4/3.
    assert amdahl(2, 0.5) == pytest.approx(4 / 3)
    records = [
        make_record(device=f"cpu_{n}", epoch_seconds=1 / amdahl(n, 0.1)) for n in counts
    ]  # fmt: skip
    table = scaling(tidy(records))
    assert table["speedup"].tolist() == pytest.approx([amdahl(n, 0.1) for n in counts])
    assert table["serial_fraction"].tolist() == pytest.approx([0.1] * 4)
    assert scaling(tidy(records[:2])).empty


def test_time_to_target_by_hand():
    # Accuracy grows 0.6, 0.7, 0.8, 0.9, 1.0 of `acc`: the worst best is 0.9, its 99 % 0.891.
    frame = tidy([make_record(acc=0.9, epoch_seconds=2.0), make_record(rnn="cell", acc=1.0)])
    keras, other = target(frame).to_dict("records")
    assert keras["target"] == pytest.approx(0.891) and keras["seconds"] == pytest.approx(10)
    assert other["seconds"] == pytest.approx(2.0) and other["epochs"] == 4
    assert curves_by_second(frame, "val_acc")["elapsed"].iloc[1] == pytest.approx(4)


@pytest.mark.parametrize(
    ("seconds", "found"),
    [
        ([2.0, 1.0, 1.01, 0.99, 1.0, 1.0], 1),
        ([1.5, 1.4, 1.0, 1.01, 0.99, 1.0], 2),
        ([1.0, 1.01, 0.99, 1.0, 1.0], 0),
        ([1.03, 1.0, 1.0, 1.0, 1.0], 0),  # slower by less than 5 %
        ([1.0, 1.0, 1.0, 1.0, 5.0], 0),  # slow at the end is no warm-up
        ([9.0, 1.0, 1.0, 1.0], 0),  # too short to tell
    ],
)
def test_warmup_is_a_change_point(seconds, found):
    assert change_point(seconds) == found
    if len(seconds) > 4:
        table = warmup(tidy([make_record(epoch_seconds=[9.0, *seconds])]))
        assert table["still_warm"].tolist() == [int(found > 0)]


def cells(rnn, build="tf_2_21", options="", device="cpu_1"):
    return {"model": "mnist_rnn", "cell": "lstm", "build": build, "rnn": rnn, "options": options,
            "device": device, "variant": options}  # fmt: skip


def test_certificates_decide():
    both = Certificates((certificate("tf_2_21"), certificate("tf_1_15")))
    assert both.judge(cells("block"), cells("keras"))[0] == CERTIFIED
    word, why = both.judge(cells("cell", "tf_1_15"), cells("keras", "tf_1_15"))
    assert word == UNEQUAL and "gradients differ by 0.03" in why
    assert both.judge(cells("block", "tf_1_15"), cells("keras"))[0] == CERTIFIED
    assert both.judge(cells("mine"), cells("keras"))[0] == UNKNOWN
    assert Certificates().judge(cells("block"), cells("keras"))[0] == UNKNOWN
    failed = certificate("tf_2_21")
    why = "outputs are NaN"
    failed["implementations"]["block"] |= {"status": "failed", "why": why, "function_why": why}
    word, why = Certificates((failed,)).judge(cells("block"), cells("keras"))
    assert word == UNEQUAL and "outputs are NaN" in why


def with_options():
    """A certificate of `keras` and `unrolled`, and of both with relu."""
    one = certificate("tf_2_21")
    plain = one["implementations"]["keras"]
    relu = {"activation": "relu", "recurrent_activation": "sigmoid", "use_bias": True}
    for name in ("keras", "unrolled"):
        one["implementations"][name] = plain | {"function": relu | {"activation": "tanh"}}
        one["implementations"][f"{name} activation=relu"] = plain | {"function": relu}
    return one


def test_an_implementation_is_judged_with_its_options():
    one, relu = Certificates((with_options(),)), "activation=relu"
    assert one.judge(cells("unrolled", options=relu), cells("keras", options=relu))[0] == CERTIFIED
    word, why = one.judge(cells("keras", options=relu), cells("keras"))
    assert (word, why) == (UNEQUAL, "not the same function: activation relu instead of tanh")
    word, why = one.judge(cells("block", options="activation=relu"), cells("keras"))
    assert word == UNEQUAL and "relu instead of tanh" in why
    # What one side's certificate calls by its full name is no difference to the other's options.
    hard = with_options()
    hard["implementations"]["keras recurrent_activation=hard_sigmoid"] = hard["implementations"][
        "keras"
    ] | {"function": {"recurrent_activation": "hard_sigmoid of Keras 3"}}
    asked = "recurrent_activation=hard_sigmoid"
    pair = cells("keras", options=asked), cells("keras", "tf_1_15", options=asked)
    assert Certificates((hard,)).judge(*pair)[0] == UNKNOWN
    # Without any certificate the options speak, and the default is no other function.
    assert Certificates().judge(cells("keras", options=relu), cells("keras"))[0] == UNEQUAL
    other = cells("keras", options="activation=tanh")
    assert Certificates().judge(other, cells("keras"))[0] == UNKNOWN
    word, why = one.judge(cells("unrolled", options="implementation=1"), cells("keras"))
    assert word == UNKNOWN and why.startswith("unrolled implementation=1 was not certified")


def test_a_failed_entry_harms_no_other_with_the_same_name():
    one = certificate("tf_2_21")
    why = "ValueError: no such op"
    one["implementations"]["cudnn_raw op=A"] = one["implementations"]["keras"]
    one["implementations"]["cudnn_raw op=B"] = one["implementations"]["keras"] | {
        "status": "failed", "why": why, "function_why": why,
    }  # fmt: skip
    found = Certificates((one,))
    assert found.judge(cells("cudnn_raw", options="op=A"), cells("keras"))[0] == CERTIFIED
    assert found.judge(cells("cudnn_raw", options="op=B"), cells("keras"))[0] == UNEQUAL


def not_learning(build="current", device="cpu_1"):
    """A certificate of digits_rnn whose `block` applies other gradients on `device`."""
    one = certificate(build) | {"model": "digits_rnn", "machine": None}
    applied = one["implementations"]["block"]["applied"] | {device: steps(12, 0.87)}
    one["implementations"]["block"] |= {"status": "failed", "why": "…", "applied": applied}
    return one


def test_a_cell_that_does_not_learn_what_it_computes_is_not_equal_on_that_device_alone():
    one = Certificates((not_learning("tf_2_21") | {"model": "mnist_rnn"},))
    words = (
        "does not learn what it computes: 12 of 30 training steps applied another gradient "
        "(worst 87 %)"
    )
    assert one.why_not_learning(cells("block")) == words
    assert one.why_not_learning(cells("keras")) is None
    assert one.judge(cells("block"), cells("keras")) == (UNEQUAL, f"block {words}")
    # Neither is it the same as itself there.
    assert one.judge(cells("block"), cells("block", device="cpu_4"))[0] == UNEQUAL
    assert one.why_not_learning(cells("block", device="cpu_4")) is None
    assert one.judge(cells("block", device="cpu_4"), cells("keras", device="cpu_4"))[0] == CERTIFIED
    word, why = one.judge(cells("block", device="cpu_2"), cells("keras"))
    assert word == UNKNOWN and "applies on cpu_2 were not looked at" in why


def test_a_certificate_of_a_build_as_published_says_so():
    one = not_learning() | {"overrides": {"build.as_published": True}}
    cell = cells("block", "current") | {"model": "digits_rnn"}
    found = Certificates((one,))
    assert found.why_not_learning(cell) is None
    marked = found.why_not_learning(cell | {"variant": "as_published=True, units=8"})
    assert marked is not None and marked.endswith("(worst 87 %), as published")


def test_a_certificate_of_schema_1_is_read_and_says_nothing_of_the_steps():
    one = certificate("tf_2_21") | {"schema": 1}
    for entry in one["implementations"].values():
        for name in ("applied", "function", "function_why"):
            del entry[name]
    one["pairs"][2] |= {"equal": False}
    found = Certificates((checked(one, "x"),))
    word, why = found.judge(cells("block"), cells("keras"))
    assert word == UNKNOWN and "were not looked at" in why
    assert found.judge(cells("cudnn"), cells("keras"))[0] == UNEQUAL


def test_no_run_is_clean_whose_cell_does_not_learn_what_it_computes():
    records = [
        make_record(rnn=rnn, verdict=verdict)
        for rnn in ("keras", "block")
        for verdict in ("clean", "suspect", "void")
    ]
    marked = Certificates((not_learning(),)).marked(records)
    assert [one.verdict.status for one in marked] == [
        "clean", "suspect", "void", "suspect", "suspect", "void",
    ]  # fmt: skip
    assert [one.verdict.reasons[-1].code == "not_learning" for one in marked[3:]] == [True] * 3
    assert marked[:3] == records[:3]
    table = accuracy(tidy(marked)).set_index("rnn")
    assert table["not_learning"].to_dict() == {"keras": False, "block": True}
    assert table.loc["block", "suspect"] == table.loc["block", "runs"]


def test_an_unequal_cell_has_no_speedup_and_wins_nothing():
    unequal = certificate("current") | {"model": "digits_rnn"}
    unequal["pairs"] = [{"a": "cell", "b": "keras", "gradients": 0.5, "equal": False}]
    levels = {"keras": 0.5, "block": 0.45, "cell": 0.01}
    frame = tidy([make_record(rnn=rnn, epoch_seconds=level) for rnn, level in levels.items()])
    table = time(frame, REFERENCE, Certificates((unequal,)))
    cell = table[table["rnn"] == "cell"].iloc[0]
    assert cell["words"] == NOT_EQUAL and math.isnan(cell["speedup"])
    assert str(cell["unequal"]) == "≠50.0000" and "gradients differ by 0.5" in cell["difference"]
    assert table.loc[table["rnn"] != "cell", ["unequal", "difference"]].eq("").all(axis=None)
    winner = fastest(frame, table, REFERENCE).iloc[0]
    assert winner["name"] == "block" and "gradients differ by 0.5" in winner["left_out"]


def test_versus_pairs_what_is_alike():
    records = [
        make_record(rnn=rnn, device=device, repeat=repeat, epoch_seconds=level)
        for repeat in (0, 1)
        for device in ("cpu_1", "cpu_2")
        for rnn, level in (("keras", 0.6), ("block", 0.3))
    ]
    table = versus(tidy(records), ["block"], ["keras"])
    assert table["same"].tolist() == ["cpu_1", "cpu_2"]
    assert table["ratio"].tolist() == pytest.approx([2, 2])
    one = versus(tidy(records), ["cpu_1", "keras"], ["cpu_2", "keras"])
    assert len(one) == 1 and one["ratio"].iloc[0] == pytest.approx(1)
    assert versus(tidy(records), ["nothing"], ["keras"]).empty
