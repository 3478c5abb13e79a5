"""The main tables against numbers computed by hand."""

from __future__ import annotations

import math
import time as clock

import pandas as pd
import pytest

from rnnbench.records.record import Reason, Verdict
from rnnbench.report.notes import order_notes
from rnnbench.tables.accuracy import accuracy
from rnnbench.tables.certificates import Certificates
from rnnbench.tables.comparison import builds
from rnnbench.tables.cost import cost
from rnnbench.tables.fastest import extra_ratios, fastest
from rnnbench.tables.frame import ranked, run_values, tidy
from rnnbench.tables.learning import learning
from rnnbench.tables.runs import kernels, order, runs
from rnnbench.tables.stats import dunnett_quantile
from rnnbench.tables.time import IS_REFERENCE, NO_REFERENCE, ratios_shown, time
from tests.factory import SAMPLES, STEPS, make_late, make_record, replace

REFERENCE = {"rnn": "keras"}


def pair(**changes):
    """keras at 0.5 and 0.6 s in two blocks, unrolled at exactly half the time."""
    return [
        make_record(rnn=rnn, repeat=repeat, epoch_seconds=seconds * share, **changes)
        for repeat, seconds in enumerate((0.5, 0.6))
        for rnn, share in (("keras", 1), ("unrolled", 0.5))
    ]


def row_of(table, implementation, **conditions):
    rows = table[table["implementation"] == implementation]
    for name, value in conditions.items():
        rows = rows[rows[name] == value]
    assert len(rows) == 1
    return rows.iloc[0]


def test_the_frame_has_a_row_per_epoch_per_phase_and_per_run():
    record = make_record(epochs=5, overrides={"model.units": 128, "model.batch": 64})
    frame = tidy([record])
    assert len(frame) == 5 + len(record.phases) + 1
    assert set(map(str, frame["variant"])) == {"batch=64, units=128"}
    assert frame[frame["phase"] == "epoch"]["epoch"].tolist() == [1, 2, 3, 4, 5]
    assert frame[frame["phase"] == "evaluate"]["call_seconds"].tolist() == [0.05]


def test_a_run_without_phases_is_in_the_frame():
    frame = tidy([make_record(phases=(), epochs=0, verdict="void")])
    assert frame["phase"].tolist() == ["run"] and frame["verdict"].tolist() == ["void"]


def test_time_by_hand():
    table = time(tidy(pair()), REFERENCE)
    fast, base = row_of(table, "unrolled"), row_of(table, "keras")
    assert base["epoch_seconds"] == pytest.approx(math.sqrt(0.5 * 0.6))
    assert base["ms_per_step"] == pytest.approx(1e3 * math.sqrt(0.3) / STEPS)
    assert base["us_per_sample"] == pytest.approx(1e6 * math.sqrt(0.3) / SAMPLES)
    assert base["evaluate_seconds"] == pytest.approx(0.05)
    assert (base["speedup"], base["words"]) == (1, IS_REFERENCE)
    # The ratio of each block is exactly 2, so the paired interval has width zero.
    assert (fast["speedup"], fast["speedup_low"], fast["method"]) == (
        pytest.approx(2), pytest.approx(2), "paired",
    )  # fmt: skip
    assert fast["words"] == "faster" and ratios_shown(table) == 1


def test_the_run_is_the_unit():
    table = time(tidy([make_record(epoch_seconds=[7.0, 0.1, 0.2, 9.0])]), REFERENCE)
    row = row_of(table, "keras")
    assert row["epoch_seconds"] == pytest.approx(0.2) and pd.isna(row["epoch_low"])


def test_without_a_reference_there_is_no_speedup():
    row = row_of(time(tidy([make_record(rnn="block")]), REFERENCE), "block")
    assert pd.isna(row["speedup"]) and row["words"] == NO_REFERENCE


def test_a_reference_may_be_a_device():
    records = [make_record(device="cpu_1", epoch_seconds=0.6), make_record(device="cpu_2")]
    table = time(tidy(records), {"device": "cpu_1"})
    assert row_of(table, "keras", device="cpu_2")["speedup"] == pytest.approx(1.2)


def test_an_alias_is_compared_with_the_run_without_alias():
    records = [make_record(), make_record(alias="twin", name="twin", epoch_seconds=0.25)]
    assert row_of(time(tidy(records), REFERENCE), "keras as twin")["speedup"] == pytest.approx(2)


def test_void_runs_are_in_no_number():
    void = make_record(epoch_seconds=99.0, repeat=2, verdict="void", acc=0.1)
    frame = tidy([*pair(), void])
    assert time(frame, REFERENCE).equals(time(tidy(pair()), REFERENCE))
    assert accuracy(frame).equals(accuracy(tidy(pair())))
    assert learning(frame, REFERENCE).equals(learning(tidy(pair()), REFERENCE))
    assert void.key not in set(run_values(frame)["record"])
    assert "void" in set(runs(frame)["verdict"])


def test_machines_are_never_pooled():
    frame = tidy([*pair(), *pair(machine="other-1")])
    table = time(frame, REFERENCE)
    assert len(table) == 4 and set(table["runs"]) == {2}
    assert set(accuracy(frame)["machine"]) == {"other-1", "testbox-0123abcd"}


def test_suspect_runs_are_counted_and_mark_comparisons_with_them():
    records = pair()
    records[0] = make_record(rnn="keras", epoch_seconds=0.5, verdict="suspect")
    table = time(tidy(records), REFERENCE)
    assert (row_of(table, "keras")["suspect"], row_of(table, "unrolled")["suspect"]) == (1, 0)
    assert row_of(table, "unrolled")["speedup_suspect"]


def test_accuracy_by_hand():
    row = row_of(accuracy(tidy([make_record(acc=0.9), make_record(acc=1.0, seed=1)])), "keras")
    assert row["val_acc"] == pytest.approx(0.95) and row["seeds"] == 2
    assert row["val_acc_sd"] == pytest.approx(math.sqrt(0.005))


def test_a_missing_last_loss_is_not_taken_from_an_earlier_epoch():
    record = make_record(epochs=3)
    last = replace(record.epochs[-1], loss=None, val_acc=None)
    frame = tidy([replace(record, epochs=(*record.epochs[:-1], last))])
    assert pd.isna(accuracy(frame).iloc[0]["val_acc"]) and pd.isna(runs(frame).iloc[0]["loss"])


def test_learning_by_hand():
    records = [
        make_record(rnn=rnn, seed=seed, acc=acc)
        for seed, (base, other) in enumerate([(0.90, 0.89), (0.92, 0.90), (0.94, 0.925)])
        for rnn, acc in (("keras", base), ("block", other))
    ]
    row = row_of(learning(tidy(records), REFERENCE), "block")
    assert row["val_acc_difference"] == pytest.approx(-0.015)
    assert row["val_acc_high"] == pytest.approx(-0.015 + 4.3026527 * 0.005 / 3**0.5)
    assert row["val_acc_largest"] == pytest.approx(0.02) and row["shown_different"]
    assert row["loss_largest"] == 0


def test_fastest_and_its_runner_up():
    frame = tidy(pair())
    table = time(frame, REFERENCE)
    row = fastest(frame, table, REFERENCE).iloc[0]
    assert (row["name"], row["runner_up"], row["contestants"]) == ("unrolled", "keras", 2)
    assert row["lead"] == pytest.approx(2) and row["lead_shown"]
    by_build = fastest(frame, time(frame, {"build": "current"}), {"build": "current"})
    assert by_build.iloc[0]["contestants"] == 2


def noisy_runs(levels, repeats=3, noise=0.01, **changes):
    """Runs at `levels` (rnn → seconds) with noise that differs by implementation and block."""
    pattern = (0, 1, -1, 2, -2, 0.5, -0.5)
    return [
        make_record(rnn=rnn, repeat=r, epoch_seconds=level * (1 + noise * pattern[(r + 2 * i) % 7]),
                    **changes)
        for r in range(repeats) for i, (rnn, level) in enumerate(levels.items())
    ]  # fmt: skip


def test_intervals_of_the_fastest_hold_simultaneously_for_all_contestants():
    levels = {"keras": 0.5, "a": 0.49, "b": 0.51, "c": 0.5, "d": 0.505, "e": 0.482}
    frame = tidy(noisy_runs(levels))
    table = time(frame, REFERENCE)
    row, single = fastest(frame, table, REFERENCE).iloc[0], row_of(table, "e")
    assert row["name"] == "e" and row["speedup"] == pytest.approx(single["speedup"])
    # On logarithms, wider than in the time table by Dunnett's quantile / Student's.
    is_pooled = single["method"] == "pooled over configurations, 10 degrees of freedom"
    ratio = math.log(row["high"] / row["low"]) / math.log(
        single["speedup_high"] / single["speedup_low"]
    )
    assert is_pooled and ratio == pytest.approx(
        dunnett_quantile(0.95, 5, 10) / dunnett_quantile(0.95, 1, 10)
    )
    assert (single["words"], row["words"]) == ("faster", "no difference shown")


def test_two_contestants_need_no_simultaneous_interval():
    frame = tidy(noisy_runs({"keras": 0.5, "block": 0.45}))
    table = time(frame, REFERENCE)
    row, single = fastest(frame, table, REFERENCE).iloc[0], row_of(table, "block")
    assert (row["low"], row["high"]) == (single["speedup_low"], single["speedup_high"])


def test_configurations_without_a_usable_run_are_listed_with_their_shortest_reason():
    why = ("it ran no recurrent kernel that is known.", "the loss is not finite from epoch 2.")
    verdicts = [Verdict("void", (Reason("x", text, "y"),)) for text in why]
    void = [make_record(repeat=r, verdict=verdict) for r, verdict in enumerate(verdicts)]
    frame = tidy([*void, *noisy_runs({"unrolled": 0.4, "block": 0.5})])
    row = fastest(frame, time(frame, REFERENCE), REFERENCE).iloc[0]
    assert (row["name"], row["contestants"]) == ("unrolled", 2)
    assert row["void"] == "`keras` (the loss is not finite from epoch 2)"
    assert row["reference_void"] == "the loss is not finite from epoch 2"


class WrongSteps(Certificates):
    """Certificates according to which the implementation `cell` applies wrong gradients."""

    def why_not_learning(self, configuration):
        is_wrong = configuration["rnn"] == "cell"
        return "applies wrong gradients: worst 210 %" if is_wrong else None


def test_wrong_gradients_exclude_from_the_contest():
    frame = tidy(noisy_runs({"keras": 0.5, "cell": 0.2, "block": 0.4}))
    table = time(frame, REFERENCE, WrongSteps())
    assert row_of(table, "cell")["words"] == "applies wrong gradients"
    assert pd.isna(row_of(table, "cell")["speedup"]) and row_of(table, "block")["speedup"] > 1
    row = fastest(frame, table, REFERENCE).iloc[0]
    assert (row["name"], row["contestants"]) == ("block", 2)
    assert row["left_out"] == "`cell` (applies wrong gradients: worst 210 %)"
    assert set(cost(frame, table, None, REFERENCE)["implementation"]) == {"block"}


def test_a_build_with_wrong_gradients_has_no_change_of_time():
    records = [
        replace(run, choices={**run.run.choices, "build": build}, name=run.name + build)
        for build in ("new", "old") for rnn in ("keras", "cell") for run in noisy_runs({rnn: 0.5})
    ]  # fmt: skip
    table = builds(tidy(records), {"build": "new"}, WrongSteps())
    old = table[table["build"] == "old"].set_index("rnn")
    assert old.loc["cell", "words"] == "applies wrong gradients"
    assert pd.isna(old.loc["cell", "change"]) and old.loc["keras", "change"] > 0


def test_a_reference_with_wrong_gradients_gives_no_speedup():
    frame = tidy(noisy_runs({"keras": 0.5, "cell": 0.6}))
    table = time(frame, {"rnn": "cell"}, WrongSteps())
    assert table["speedup"].isna().all()
    row = fastest(frame, table, {"rnn": "cell"}).iloc[0]
    assert (row["name"], row["contestants"]) == ("keras", 1)
    assert row["words"] == "the reference applies wrong gradients"


def test_leads_that_are_in_the_time_table_are_not_counted_twice():
    block = [make_record(rnn="block", repeat=r, epoch_seconds=0.3 + r / 99) for r in (0, 1)]
    for records, extra in ((pair(), 0), ([*pair(), *block], 1)):
        frame = tidy(records)
        assert extra_ratios(fastest(frame, time(frame, REFERENCE), REFERENCE)) == extra


def test_runs_kernels_and_order():
    records = [
        make_record(order=2, started=make_started(0)),
        make_record(
            rnn="block", order=1, started=make_started(60), measured={"kernel": {"op": "B"}}
        ),
    ]
    frame = tidy(records)
    assert runs(frame)["first_step"].tolist() == pytest.approx([1.1, 1.1])
    assert runs(frame)["peak_memory_bytes"].iloc[0] == 612_345_678
    assert kernels(frame)[["implementation", "kernel", "runs"]].values.tolist() == [
        ["block", "op: B", 1]
    ]
    not_found = {"found": [], "expected": ["while"]}
    table = kernels(tidy([make_record(measured={"kernel": not_found})]))
    assert table["kernel"].tolist() == ["not attested: no kernel found"]
    assert kernels(tidy([make_record(measured={"kernel": {**not_found, "expected": None}})])).empty
    assert order(frame)["planned"].tolist() == [2, 1]
    (note,) = order_notes(order(frame))
    assert "not exactly in the planned order" in note


def make_started(seconds):
    from datetime import timedelta

    from tests.factory import BEGINNING

    return BEGINNING + timedelta(seconds=seconds)


def test_ranked_puts_devices_in_natural_order_and_the_fastest_first():
    devices = ("cpu_16", "cpu_2")
    records = [record for device in devices for record in pair(device=device)]
    table = time(ranked(tidy(records)), REFERENCE)
    assert table[["device", "implementation"]].values.tolist() == [
        ["cpu_2", "unrolled"], ["cpu_2", "keras"], ["cpu_16", "unrolled"], ["cpu_16", "keras"],
    ]  # fmt: skip


@pytest.mark.parametrize("records", [[], [make_record(verdict="void", epochs=0, phases=())]])
def test_tables_without_usable_runs_are_empty(records):
    frame = ranked(tidy(records))
    table = time(frame, REFERENCE)
    assert table.empty and accuracy(frame).empty and learning(frame, REFERENCE).empty
    assert order(frame).empty and kernels(frame).empty
    # Configurations whose runs are void are listed.
    assert fastest(frame, table, REFERENCE)["contestants"].tolist() == [0] * len(records)
    assert len(runs(frame)) == len(records)


def test_the_frame_takes_linear_time():
    record = make_record(epochs=10)
    start = clock.perf_counter()
    tidy([record] * 2000)
    assert clock.perf_counter() - start < 5


def test_companions_without_a_run_of_their_configuration_are_ignored():
    first, late, again = make_late()
    table = time(tidy([first, late, again]), REFERENCE)
    row = row_of(table, "block")
    assert row["speedup"] == pytest.approx(math.exp(-0.2))
    table = time(tidy([late, again]), REFERENCE)
    assert list(table["implementation"]) == ["block"]
    assert table.iloc[0]["words"] == NO_REFERENCE and pd.isna(table.iloc[0]["speedup"])
