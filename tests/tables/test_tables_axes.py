"""Cost, builds, threads, targets, warm-up and certificates against numbers computed by hand."""

from __future__ import annotations

import math

import pytest

from rnnbench.records.overrides import Overrides
from rnnbench.report.cost import cost_section
from rnnbench.sources.prices import Price, PriceList
from rnnbench.tables.accuracy import accuracy
from rnnbench.tables.certificates import CERTIFIED, UNEQUAL, UNKNOWN, Certificates
from rnnbench.tables.comparison import builds, versus
from rnnbench.tables.cost import cheapest_within, cost, fastest_under
from rnnbench.tables.efficiency import amdahl, scaling, serial_fraction
from rnnbench.tables.fastest import fastest
from rnnbench.tables.frame import tidy
from rnnbench.tables.learning import curves, target
from rnnbench.tables.runs import steadiness, warm_epochs
from rnnbench.tables.time import NOT_EQUAL, time
from tests.factory import make_record, replace
from tests.report.made_up import measurements
from tests.report.six import SIZES, as_read, certificate, layers, steps

REFERENCE = {"rnn": "keras"}
PRICES = PriceList("x", "X", "2026", "me", (
    Price("cpu_1", "on_demand", 0.36), Price("cpu_2", "on_demand", 1.8),
    Price("cpu_2", "preemptible", 0.1)), reference="cpu_1")  # fmt: skip


def in_build(build, **changes):
    record = make_record(**changes)
    return replace(
        record,
        choices={**record.run.choices, "build": build},
        name=record.name.replace("current", build),
    )


def test_cost_by_hand():
    frame = tidy([make_record(epoch_seconds=20.0), make_record(device="cpu_2", epoch_seconds=5.0)])
    table = cost(frame, time(frame, REFERENCE), PRICES, REFERENCE)
    cpu_1, cpu_2 = table.to_dict("records")
    # Five epochs: 100 s at 0.36 USD/h = 0.01 USD; 25 s at 1.8 USD/h = 0.0125 USD.
    assert (cpu_1["seconds"], cpu_1["usd"]) == (pytest.approx(100), pytest.approx(0.01))
    assert (cpu_2["relative"], cpu_2["relative_usd"]) == (pytest.approx(0.25), pytest.approx(1.25))
    assert cpu_2["break_even_usd_per_hour"] == pytest.approx(1.44)
    assert cpu_1["reference"] and cpu_1["on_front"] and cpu_2["on_front"]
    assert cheapest_within(table, 120)[0]["device"] == "cpu_1"
    assert cheapest_within(table, 30)[0]["device"] == "cpu_2"
    assert cheapest_within(table, 1)[0] is None
    assert fastest_under(table, 0.011)[0]["device"] == "cpu_1"
    wide = table.assign(seconds_low=table["seconds"] / 9, seconds_high=table["seconds"] * 1.1)
    best, others = cheapest_within(wide, 120)
    assert best["device"] == "cpu_1" and list(others["device"]) == ["cpu_2"], (
        "its cost may be lower"
    )
    assert PRICES.price_of("cpu_2", "preemptible").usd_per_hour == 0.1


def test_costs_at_another_kind_of_price_stand_beside():
    records = [make_record(epoch_seconds=20.0), make_record(device="cpu_2", epoch_seconds=5.0)]
    view = cost_section(measurements(records, REFERENCE, prices=PRICES)).views[1]
    # 25 s at 0.1 USD/h, relative to 100 s at 0.36 USD/h.
    (row,) = view.rows
    assert (row.head, *row.cells[1:5]) == ("cpu_2", "preemptible", "0.1000", "0.000694", "0.069×")


def test_the_price_of_a_device_is_not_that_of_its_replicas():
    records = [make_record(), make_record(device="cpu_2")]
    records.append(make_record(device="cpu_2", overrides={"device.replicas": 2}))
    m = measurements(records, REFERENCE, prices=PRICES)
    assert m.cost["usd"].notna().tolist() == [True, True, False]
    (row,) = cost_section(m).views[1].rows
    assert row.head == "cpu_2" and "replicas" not in row.group


def test_without_a_price_there_is_no_cost():
    frame = tidy([make_record(), make_record(device="cpu_2", epoch_seconds=0.25)])
    table = cost(frame, time(frame, REFERENCE), None, REFERENCE)
    assert table["usd"].isna().all() and table["relative"].tolist() == pytest.approx([1, 0.5])
    assert not table["on_front"].any()


def test_places_are_paired_by_common_blocks_only_on_one_machine():
    drift = (1.0, 1.3, 1.7, 1.1)
    cpu_1, cpu_2 = (
        [make_record(device=device, repeat=r, epoch_seconds=level * d) for r, d in enumerate(drift)]
        for device, level in (("cpu_1", 2.0), ("cpu_2", 1.0))
    )
    for runs in (cpu_2, cpu_2[1:]):  # a missing run only removes its block
        frame = tidy([*cpu_1, *runs])
        row = cost(frame, time(frame, REFERENCE), None, REFERENCE).to_dict("records")[1]
        assert row["relative"] == pytest.approx(0.5)
        assert row["relative_high"] - row["relative_low"] == pytest.approx(0)
    other_machine = [replace(record, machine="other-1") for record in cpu_2]
    frame = tidy([*cpu_1, *other_machine])
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


def test_change_between_builds_has_the_interval_of_the_time_table():
    times = ((0.99, 1.02, 1.0), (1.0, 0.98, 1.03), (1.02, 1.0, 0.99))
    frame = tidy([
        in_build(build, repeat=repeat, epoch_seconds=seconds)
        for build, by_repeat in zip(("new", "old", "older"), times, strict=True)
        for repeat, seconds in enumerate(by_repeat)
    ])  # fmt: skip
    changes = builds(frame, {"build": "new"}).set_index("build")
    speed = time(frame, {"build": "new"}).set_index("build")
    assert speed["method"]["old"].startswith("pooled")
    for build in ("old", "older"):
        assert changes["change_low"][build] == pytest.approx(1 / speed["speedup_high"][build])
        assert changes["change_high"][build] == pytest.approx(1 / speed["speedup_low"][build])


def test_serial_fraction_is_recovered():
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
    # Accuracy grows as 0.6, 0.7, 0.8, 0.9, 1.0 of `acc`: the lowest best is 0.9, 99 % of it 0.891.
    frame = tidy([make_record(acc=0.9, epoch_seconds=2.0), make_record(rnn="cell", acc=1.0)])
    keras, other = target(frame).to_dict("records")
    assert keras["target"] == pytest.approx(0.891) and keras["seconds"] == pytest.approx(10)
    assert other["seconds"] == pytest.approx(2.0) and other["epochs"] == 4
    assert curves(frame, "val_acc")["elapsed"].iloc[1] == pytest.approx(4)


@pytest.mark.parametrize(
    ("seconds", "epochs"),
    [
        ([2.0, 1.0, 1.01, 0.99, 1.0, 1.0], 1),
        ([1.5, 1.4, 1.0, 1.01, 0.99, 1.0], 2),
        ([1.0, 1.01, 0.99, 1.0, 1.0], 0),
        ([1.03, 1.0, 1.0, 1.0, 1.0], 0),  # slower by less than 5 %
        ([1.0, 1.0, 1.0, 1.0, 5.0], 0),  # slow at the end
    ],
)
def test_warmup_is_a_change_point(seconds, epochs):
    assert warm_epochs(seconds) == epochs
    assert steadiness(tidy([make_record(epoch_seconds=[9.0, *seconds])]))["warm"].tolist() == [
        epochs
    ]


def config(rnn, build="tf_2_21", device="cpu_1", **options):
    overrides = Overrides.of({f"rnn.options.{name}": value for name, value in options.items()})
    return {"model": "mnist_rnn", "cell": "lstm", "build": build, "rnn": rnn, "device": device,
            "options": overrides, "variant": overrides}  # fmt: skip


KERAS = config("keras")
PUBLISHED = {"build.as_published": True, "model.units": 8}


def judging(*made):
    """Certificates with records of the functions that the tests judge."""
    records = [
        replace(record, choices={**record.run.choices, "model": model, "build": build})
        for record in (make_record(), make_record(overrides=PUBLISHED))
        for model in ("mnist_rnn", "digits_rnn")
        for build in ("tf_2_21", "tf_1_15", "current")
    ]
    return Certificates(as_read(*made), tuple(records))


def test_judgement_follows_the_certificates():
    certificates = judging(certificate("tf_2_21"), certificate("tf_1_15"))
    assert certificates.judge(config("block"), KERAS)[0] == CERTIFIED
    verdict, why = certificates.judge(config("cell", "tf_1_15"), config("keras", "tf_1_15"))
    assert verdict == UNEQUAL and "gradients differ by 0.03" in why
    assert certificates.judge(config("block", "tf_1_15"), KERAS)[0] == CERTIFIED
    assert certificates.judge(config("mine"), KERAS)[0] == UNKNOWN
    assert Certificates().judge(config("block"), KERAS)[0] == UNKNOWN
    failed, why = certificate("tf_2_21"), "outputs are NaN"
    failed["implementations"]["block"] |= {"status": "failed", "why": why, "function_why": why}
    verdict, why = judging(failed).judge(config("block"), KERAS)
    assert verdict == UNEQUAL and "outputs are NaN" in why


def with_options():
    """A certificate of `keras` and `unrolled`, both with tanh and with relu."""
    result = certificate("tf_2_21")
    plain = result["implementations"]["keras"]
    relu = {"activation": "relu", "recurrent_activation": "sigmoid", "use_bias": True}
    for name in ("keras", "unrolled"):
        result["implementations"][name] = plain | {"function": relu | {"activation": "tanh"}}
        result["implementations"][f"{name} activation=relu"] = plain | {"function": relu}
    return result


def test_an_implementation_is_judged_with_its_options():
    certificates, relu = judging(with_options()), {"activation": "relu"}
    keras_relu = config("keras", **relu)
    assert certificates.judge(config("unrolled", **relu), keras_relu)[0] == CERTIFIED
    verdict, why = certificates.judge(keras_relu, KERAS)
    assert (verdict, why) == (UNEQUAL, "not the same function: activation relu instead of tanh")
    verdict, why = certificates.judge(config("block", **relu), KERAS)
    assert verdict == UNEQUAL and "relu instead of tanh" in why
    # A full name in the certificate of one side does not differ from the options of the other.
    hard = with_options()
    options = {"recurrent_activation": "hard_sigmoid"}
    function = {"recurrent_activation": "hard_sigmoid of Keras 3"}
    entries = hard["implementations"]
    entries["keras recurrent_activation=hard_sigmoid"] = entries["keras"] | {"function": function}
    pair = (config("keras", **options), config("keras", "tf_1_15", **options))
    assert judging(hard).judge(*pair)[0] == UNKNOWN
    # Without a certificate the options decide, and naming the default is not a difference.
    assert Certificates().judge(keras_relu, KERAS)[0] == UNEQUAL
    other = config("keras", activation="tanh")
    assert Certificates().judge(other, KERAS)[0] == UNKNOWN
    verdict, why = certificates.judge(config("unrolled", implementation=1), KERAS)
    assert verdict == UNKNOWN and why.startswith("unrolled implementation=1 was not certified")


def test_a_failed_entry_does_not_affect_other_options():
    failing = certificate("tf_2_21")
    entries, why = failing["implementations"], "ValueError: no such op"
    entries["cudnn_raw op=A"] = entries["keras"]
    entries["cudnn_raw op=B"] = entries["keras"] | {
        "status": "failed", "why": why, "function_why": why,
    }  # fmt: skip
    certificates = judging(failing)
    assert certificates.judge(config("cudnn_raw", op="A"), KERAS)[0] == CERTIFIED
    assert certificates.judge(config("cudnn_raw", op="B"), KERAS)[0] == UNEQUAL


def wrong_gradients(build, device="cpu_1", **changes):
    """A certificate whose `block` applies wrong gradients on `device`."""
    result = certificate(build, **changes) | {"machine": None}
    block = result["implementations"]["block"]
    applied = block["applied"] | {device: steps(12, 0.87)}
    block |= {"status": "failed", "why": "…", "applied": applied}
    return result


def test_wrong_gradients_make_unequal_on_that_device_only():
    certificates = judging(wrong_gradients("tf_2_21"))
    text = (
        "applies wrong gradients: 12 of 30 training steps applied a gradient other than the "
        "computed one (worst 87 %)"
    )
    assert certificates.why_not_learning(config("block")) == text
    assert certificates.why_not_learning(KERAS) is None
    assert certificates.judge(config("block"), KERAS) == (UNEQUAL, f"block {text}")
    # It is not even equal to itself there.
    other = config("block", device="cpu_4")
    assert certificates.judge(config("block"), other)[0] == UNEQUAL
    assert certificates.why_not_learning(other) is None
    assert certificates.judge(other, config("keras", device="cpu_4"))[0] == CERTIFIED
    verdict, why = certificates.judge(config("block", device="cpu_2"), KERAS)
    assert (verdict, why) == (UNKNOWN, "block is not certified for cpu_2: it was not tried")


def test_a_certificate_of_a_build_as_published_names_that():
    as_published = wrong_gradients("current", **PUBLISHED)
    block = config("block", "current")
    certificates = judging(as_published)
    assert certificates.why_not_learning(block) is None
    overrides = Overrides.of(PUBLISHED)
    why = certificates.why_not_learning(block | {"variant": overrides})
    assert why is not None and why.endswith("(worst 87 %), as published")


def test_a_certificate_of_schema_1_is_read_without_steps():
    old = certificate("tf_2_21") | {"schema": 1, "key": "mnist_rnn-lstm-tf_2_21"}
    for entry in old["implementations"].values():
        for name in ("probed", "applied", "function", "function_why"):
            del entry[name]
    old["pairs"][2] |= {"outputs": 1.0}
    certificates = judging(old)
    verdict, why = certificates.judge(config("block"), KERAS)
    assert verdict == UNKNOWN and why.startswith("block is not certified for cpu_1")
    assert certificates.judge(config("cudnn"), KERAS)[0] == UNEQUAL


def test_a_certificate_of_schema_2_is_not_inherited_but_its_failures_count():
    old = wrong_gradients("tf_2_21") | {"schema": 2, "key": "mnist_rnn-lstm-tf_2_21"}
    for entry in old["implementations"].values():
        del entry["probed"]
    old["implementations"]["cell"] |= {"status": "failed", "function_why": "outputs differ"}
    certificates = judging(old)
    assert certificates.judge(config("unrolled"), KERAS) == (
        UNKNOWN, "unrolled is not certified for cpu_1: its certificate states no batches",
    )  # fmt: skip
    assert certificates.judge(config("cell"), KERAS) == (UNEQUAL, "cell failed: outputs differ")
    verdict, why = certificates.judge(config("block"), KERAS)
    assert verdict == UNEQUAL and "applies wrong gradients" in why
    # With an override that its function lacks, it says nothing, not even by fallback.
    wide = Overrides.of(PUBLISHED)
    pair = (config("cell") | {"variant": wide}, KERAS | {"variant": wide})
    assert certificates.judge(*pair) == (UNKNOWN, "there is no certificate for them")


def test_a_batch_or_device_that_was_not_tested_is_not_certified():
    lacking = certificate("tf_2_21") | {"machine": None}
    entries = lacking["implementations"]
    for name, sizes in (("block", SIZES[1:]), ("unrolled", SIZES[:1] + SIZES[2:])):
        entries[name]["probed"]["cpu_1"] = layers(sizes)
    entries["cell"]["probed"]["cpu_1"] = layers(SIZES[:3])
    entries["cudnn"]["probed"]["cpu_1"] = layers()
    entries["cudnn"]["probed"]["cpu_1"]["batches"][3]["outputs"] = 0.5
    certificates = judging(lacking)
    expected = {
        "block": (UNKNOWN, "block is not certified for batch 32 with training=True on cpu_1"),
        "unrolled": (UNKNOWN, "unrolled is not certified for batch 30 with training=True on cpu_1"),
        "cell": (UNKNOWN, "cell is not certified for batch 7 with training=False on cpu_1"),
        "cudnn": (
            UNEQUAL,
            "cudnn failed: outputs differ from the float64 reference by 5e-01 (tolerance 1e-05) at "
            "batch 7 with training=False on cpu_1",
        ),
    }
    for name, verdict in expected.items():
        assert certificates.judge(config(name), KERAS) == verdict
        on_4 = config(name, device="cpu_4"), config("keras", device="cpu_4")
        assert certificates.judge(*on_4)[0] == CERTIFIED
    alone = config("cudnn"), config("cudnn", device="cpu_4")
    assert certificates.judge(*alone) == expected["cudnn"], "the device differs"


def test_runs_with_wrong_gradients_are_not_clean():
    records = [
        make_record(rnn=rnn, verdict=verdict)
        for rnn in ("keras", "block")
        for verdict in ("clean", "suspect", "void")
    ]
    marked = judging(wrong_gradients("current", model="digits_rnn")).mark_wrong_gradients(records)
    assert [record.verdict.status for record in marked] == [
        "clean", "suspect", "void", "suspect", "suspect", "void",
    ]  # fmt: skip
    assert all(record.verdict.reasons[-1].code == "not_learning" for record in marked[3:])
    assert marked[:3] == records[:3]
    table = accuracy(tidy(marked)).set_index("rnn")
    assert table["not_learning"].to_dict() == {"keras": False, "block": True}
    assert table.loc["block", "suspect"] == table.loc["block", "runs"]


def test_an_unequal_configuration_has_no_speedup_and_is_not_a_contestant():
    unequal = certificate("current", "digits_rnn")
    unequal["pairs"] = [{"a": "cell", "b": "keras", "gradients": 0.5, "equal": False}]
    levels = {"keras": 0.5, "block": 0.45, "cell": 0.01}
    frame = tidy([make_record(rnn=rnn, epoch_seconds=level) for rnn, level in levels.items()])
    table = time(frame, REFERENCE, judging(unequal))
    row = table[table["rnn"] == "cell"].iloc[0]
    assert row["words"] == NOT_EQUAL and math.isnan(row["speedup"])
    assert str(row["unequal"]) == "≠50.0000" and "gradients differ by 0.5" in row["difference"]
    assert table.loc[table["rnn"] != "cell", ["unequal", "difference"]].eq("").all(axis=None)
    winner = fastest(frame, table, REFERENCE).iloc[0]
    assert winner["name"] == "block" and "gradients differ by 0.5" in winner["left_out"]


def test_versus_pairs_configurations_that_are_otherwise_equal():
    records = [
        make_record(rnn=rnn, device=device, repeat=repeat, epoch_seconds=level)
        for repeat in (0, 1)
        for device in ("cpu_1", "cpu_2")
        for rnn, level in (("keras", 0.6), ("block", 0.3))
    ]
    table = versus(tidy(records), ["block"], ["keras"])
    assert table["same"].tolist() == ["cpu_1", "cpu_2"]
    assert table["ratio"].tolist() == pytest.approx([2, 2])
    table = versus(tidy(records), ["cpu_1", "keras"], ["cpu_2", "keras"])
    assert len(table) == 1 and table["ratio"].iloc[0] == pytest.approx(1)
    assert versus(tidy(records), ["nothing"], ["keras"]).empty
