"""The tables of training times, of calls and of the fastest against numbers computed by hand."""

from __future__ import annotations

import itertools
import math

import pandas as pd
import pytest

from rnnbench.records.plan_file import Experiment
from rnnbench.records.record import Phase, Reason, Record, Verdict
from rnnbench.report.calls import call_answers, calls_section
from rnnbench.report.content import Content
from rnnbench.tables.comparison import builds
from rnnbench.tables.contests import Contest, Contestant, LeftOut, contests, extra_ratios
from rnnbench.tables.cost import cost
from rnnbench.tables.estimates import Measurements
from rnnbench.tables.frame import ranked, tidy
from rnnbench.tables.learning import accuracy, learning
from rnnbench.tables.outcome import Outcome
from rnnbench.tables.ratios import Basis, Method, Ratio
from rnnbench.tables.runs import kernels, order, runs
from rnnbench.tables.time import calls, ratios_shown, time
from tests.factory import (
    KERAS,
    SAMPLES,
    STEPS,
    make_late,
    make_record,
    make_runs,
    measured,
    replace,
)
from tests.report.made_up import WrongSteps, measurements


def pair(**changes):
    """keras at 0.5 and 0.6 s in two blocks, unrolled at exactly half the time."""
    return [
        make_record(rnn=rnn, repeat=repeat, epoch_seconds=seconds * share, **changes)
        for repeat, seconds in enumerate((0.5, 0.6))
        for rnn, share in (("keras", 1), ("unrolled", 0.5))
    ]


def row_of(table, implementation, **conditions):
    for name, value in {"implementation": implementation, **conditions}.items():
        table = table[table[name] == value]
    assert len(table) == 1
    return table.iloc[0]


def test_time_by_hand():
    table = time(measured(pair()))
    fast, base = row_of(table, "unrolled"), row_of(table, "keras")
    assert base["epoch_seconds"] == pytest.approx(math.sqrt(0.5 * 0.6))
    assert base["ms_per_step"] == pytest.approx(1e3 * math.sqrt(0.3) / STEPS)
    assert base["us_per_sample"] == pytest.approx(1e6 * math.sqrt(0.3) / SAMPLES)
    assert base["evaluate_seconds"] == base["predict_seconds"] == pytest.approx(0.05)
    assert (base["speedup"], base["words"]) == (1, Outcome.REFERENCE)
    # The ratio of each block is exactly 2, so the paired interval has width zero.
    assert (fast["speedup"], fast["speedup_low"]) == (pytest.approx(2), pytest.approx(2))
    assert fast["method"].basis is Basis.PAIRED
    assert fast["words"] == "faster" and ratios_shown(table) == 1


def test_the_run_is_the_unit_and_one_run_has_no_speedup():
    table = time(measured([make_record(rnn="block", epoch_seconds=[7.0, 0.1, 0.2, 9.0])]))
    row = row_of(table, "block")
    assert row["epoch_seconds"] == pytest.approx(0.2) and pd.isna(row["epoch_low"])
    assert pd.isna(row["speedup"]) and row["words"] == Outcome.NO_REFERENCE


def test_a_reference_may_be_a_device_and_an_alias_is_compared_with_the_run_without():
    records = [make_record(device="cpu_1", epoch_seconds=0.6), make_record(device="cpu_2")]
    table = time(measured(records, {"device": "cpu_1"}))
    assert row_of(table, "keras", device="cpu_2")["speedup"] == pytest.approx(1.2)
    records = [make_record(), make_record(alias="twin", name="twin", epoch_seconds=0.25)]
    assert row_of(time(measured(records)), "keras as twin")["speedup"] == pytest.approx(2)


def test_void_runs_are_in_no_number():
    void = make_record(epoch_seconds=99.0, repeat=2, verdict="void", acc=0.1)
    every, without = measured([*pair(), void]), measured(pair())
    for table in (time, accuracy, learning):
        assert table(every).equals(table(without))
    assert void.key not in set(every.values["record"])
    assert "void" in set(runs(every.frame)["verdict"])


def test_the_turns_of_training_say_nothing_about_calls():
    """Neither their effect nor that the machine was slowed down."""
    every = measured(make_runs({"keras": 0.5, "block": 0.4}))
    slowed = every.frame.assign(log=-9.0, state=2.0, slowness=0.2)
    pd.testing.assert_frame_equal(calls(Measurements(slowed, KERAS)), calls(every))


def test_machines_are_never_pooled():
    every = measured([*pair(), *pair(machine="other-1")])
    table = time(every)
    assert len(table) == 4 and set(table["runs"]) == {2}
    assert set(accuracy(every)["machine"]) == {"other-1", "testbox-0123abcd"}


def test_suspect_runs_are_counted_and_mark_comparisons_with_them():
    table = time(measured([make_record(epoch_seconds=0.5, verdict="suspect"), *pair()[1:]]))
    assert (row_of(table, "keras")["suspect"], row_of(table, "unrolled")["suspect"]) == (1, 0)
    assert row_of(table, "unrolled")["speedup_suspect"]


def contest_of(every):
    return contests(every, time(every))[0]


def names(contest):
    return [contestant.name for contestant in contest.contestants]


def test_fastest_and_its_runner_up():
    every = measured(pair())
    contest = contest_of(every)
    assert names(contest) == ["unrolled", "keras"]
    (lead,) = contest.leads
    assert lead.estimate == pytest.approx(2) and lead.shown_different and contest.rivals == ()
    assert len(contest_of(measured(pair(), {"build": "current"})).contestants) == 2
    single = row_of(time(every), "unrolled")
    speedup = contest.speedup
    assert (speedup.low, speedup.high) == (single["speedup_low"], single["speedup_high"])
    # A lead over the reference is already a ratio of the time table.
    three = measured([*pair(), *make_runs({"block": 0.3}, repeats=2)])
    for some, extra in ((every, 0), (three, 1)):
        assert extra_ratios(contests(some, time(some))) == extra


def test_the_fastest_has_the_interval_of_the_table_and_must_beat_every_other():
    levels = {"keras": 0.5, "a": 0.49, "b": 0.51, "c": 0.5, "d": 0.505, "e": 0.482}
    every = measured(make_runs(levels, noise=0.01))
    contest, single = contest_of(every), row_of(time(every), "e")
    speedup = contest.speedup
    assert names(contest)[0] == "e" and speedup.estimate == pytest.approx(single["speedup"])
    assert (speedup.low, speedup.high) == (single["speedup_low"], single["speedup_high"])
    assert "a" in {each.name for each in contest.rivals}
    assert not contest.is_faster, "one that may be the fastest is not shown to beat the reference"
    clear = contest_of(measured(make_runs({"keras": 0.5, "a": 0.44, "e": 0.438}, noise=0.005)))
    assert len(clear.rivals) == 1 and clear.is_faster
    alone = contest_of(measured(make_runs({"keras": 0.5, "a": 0.45, "e": 0.4}, noise=0.005)))
    assert alone.rivals == () and alone.is_faster


def test_a_noisy_third_may_be_as_fast_although_the_second_is_not():
    own = [Contestant((name,), name, seconds, False) for name, seconds in zip("abc", (1, 2, 3))]  # noqa: B905
    leads = [Ratio(2.0, 1.9, 2.1, Method(Basis.PAIRED)), Ratio(3.0, 0.9, 9.9, Method(Basis.PAIRED))]
    contest = Contest({}, 3, tuple(own), (), (), "", False, leads=tuple(leads))
    assert [rival.name for rival in contest.rivals] == ["c"]


def test_configurations_without_a_usable_run_are_listed_with_their_shortest_reason():
    why = ("it ran no recurrent kernel that is known.", "the loss is not finite from epoch 2.")
    verdicts = [Verdict("void", (Reason("x", text, "y"),)) for text in why]
    void = [make_record(repeat=r, verdict=verdict) for r, verdict in enumerate(verdicts)]
    every = measured([*void, *make_runs({"unrolled": 0.4, "block": 0.5})])
    contest = contest_of(every)
    assert names(contest) == ["unrolled", "block"]
    assert contest.void == (LeftOut(("keras",), "the loss is not finite from epoch 2"),)
    assert contest.reference_void == "the loss is not finite from epoch 2"


def test_wrong_gradients_exclude_from_contests_costs_and_changes_of_time():
    levels = {"keras": 0.5, "cell": 0.2, "block": 0.4}
    records = [run for build in ("new", "old") for run in make_runs(levels, build=build)]
    every = measured(records, KERAS, WrongSteps())
    table = time(every)
    cell, block = (row_of(table, name, build="new") for name in ("cell", "block"))
    assert cell["words"] == "applies wrong gradients"
    assert pd.isna(cell["speedup"]) and block["speedup"] > 1
    contest = contests(every, table)[0]
    assert names(contest) == ["block", "keras"]
    assert contest.left_out == (LeftOut(("cell",), "applies wrong gradients: worst 210 %"),)
    assert set(cost(every, table)["implementation"]) == {"block"}
    old = builds(every).set_index(["build", "rnn"]).loc["old"]
    assert old.loc["cell", "words"] == "applies wrong gradients"
    assert pd.isna(old.loc["cell", "change"]) and old.loc["keras", "change"] > 0


def test_ranked_puts_devices_in_natural_order_and_the_fastest_first():
    frame = ranked(tidy([*pair(device="cpu_16"), *pair(device="cpu_2")]))
    table = time(Measurements(frame, KERAS))
    assert table["device"].tolist() == ["cpu_2", "cpu_2", "cpu_16", "cpu_16"]
    assert table["implementation"].tolist() == ["unrolled", "keras"] * 2


@pytest.mark.parametrize("records", [[], [make_record(verdict="void", epochs=0, phases=())]])
def test_tables_without_usable_runs_are_empty(records):
    frame = ranked(tidy(records))
    every = Measurements(frame, KERAS)
    assert all(table(every).empty for table in (time, accuracy, learning, calls))
    assert order(frame).empty and kernels(frame).empty
    # Configurations whose runs are void are listed.
    found = contests(every, time(every))
    assert [contest.contestants for contest in found] == [()] * len(records)
    assert len(runs(frame)) == len(records)


def test_companions_without_a_run_of_their_configuration_are_ignored():
    first, late, again = make_late()
    row = row_of(time(measured([first, late, again])), "block")
    assert row["speedup"] == pytest.approx(math.exp(-0.2))
    (row,) = time(measured([late, again])).to_dict("records")
    assert (row["implementation"], row["words"]) == ("block", Outcome.NO_REFERENCE)
    assert pd.isna(row["speedup"])


def runs_with_calls(
    rnn: str, predict: float, batch: int = 8, samples: int = 8, **changes
) -> list[Record]:
    """Three repeats whose ``predict()`` calls take about `predict` seconds and ``evaluate()`` calls
    one."""
    records = []
    for repeat in range(3):
        durations = {"evaluate": 1.0, "predict": predict * (1 + 0.01 * repeat)}
        phases = tuple(
            Phase(name, 0.0, 1.0, True, {"calls": [seconds] * 3, "samples": samples})
            for name, seconds in durations.items()
        )
        record = make_record(rnn=rnn, repeat=repeat, phases=phases, **changes)
        model = {**record.run.config["model"], "batch": batch}
        records.append(replace(record, config={**record.run.config, "model": model}))
    return records


def sentences(records: list[Record], reference: dict[str, str] = KERAS) -> list[str]:
    """The answer of a report that leads with the calls."""
    return list(map(str, call_answers(measurements(records, reference))))


def test_latency_throughput_and_speedup_by_hand():
    records = runs_with_calls("keras", 0.2, 32, 128, epoch_seconds=0.5)
    every = measured([*records, *runs_with_calls("block", 0.4, 32, 128, epoch_seconds=0.25)])
    rows = calls(every).set_index(["call", "rnn"])
    row = rows.loc["predict", "keras"]
    assert row["seconds"] == pytest.approx(0.2 * (1 * 1.01 * 1.02) ** (1 / 3))
    assert row["ms_per_batch"] == pytest.approx(1e3 * row["seconds"] / 4)  # 128 / 32 batches
    assert row["samples_per_second"] == pytest.approx(128 / row["seconds"])
    assert row["words"] == Outcome.REFERENCE and (row["samples"], row["batch"]) == (128, 32)
    # It trains in half the time and predicts in twice the time.
    slow = rows.loc["predict", "block"]
    assert slow["words"] == Outcome.SLOWER and slow["speedup"] == pytest.approx(0.5)
    assert slow["speedup_low"] <= 0.5 <= slow["speedup_high"]
    assert rows.loc["evaluate", "block"]["speedup"] == pytest.approx(1)
    assert time(every)["words"].tolist() == [Outcome.REFERENCE, Outcome.FASTER]


def test_a_call_of_a_different_function_is_marked_and_not_called_fastest():
    option = "rnn.options.activation"
    records = runs_with_calls("keras", 0.004, overrides={option: "tanh"})
    records += runs_with_calls("keras", 0.002, overrides={option: "relu"})
    reference = {**KERAS, option: "tanh"}
    m = measurements(records, reference)
    row = row_of(m.calls, "keras activation=relu", call="predict")
    assert row["words"] == Outcome.ANOTHER_FUNCTION and row["speedup"] != row["speedup"]
    assert str(row["unequal"]).startswith("≠2.0") and "relu instead of tanh" in row["difference"]
    rows = calls_section(m).views[0].rows
    assert [text for row in rows for text in row.cells if "2.00×" in text] == ["≠ 2.00×"]
    assert "takes 4.04 ms for a batch of 8 with `keras`." in sentences(records, reference)[0]


def test_without_calls_there_is_no_row_and_a_report_that_leads_with_them_says_so():
    *phases, evaluate, _ = make_record().phases
    assert calls(measured([make_record(phases=phases)])).empty
    evaluated = make_record(phases=[*phases, evaluate])
    assert "No run has timed predict()" in sentences([evaluated])[0]


def test_a_report_may_lead_with_the_calls():
    seconds = {("keras", 1): 0.002, ("block", 1): 0.001, ("keras", 8): 0.004, ("block", 8): 0.008}
    records = []
    for (rnn, batch), duration in seconds.items():
        overrides = {"model.batch": batch, "model.lr": 1}
        records += runs_with_calls(rnn, duration, batch, batch, overrides=overrides)
    report = Content(records, Experiment("x", "x?", "", KERAS, lead="calls"))
    (answer,) = report.answers
    text = str(answer)
    start = "On one thread, predict() of digits_rnn takes 1.01 ms for a batch of 1 with `block`, "
    assert text.startswith(f"{start}2.00 times as fast as `keras` (2.00 to 2.00). ")
    assert text.endswith(" It takes 4.04 ms for a batch of 8 with `keras`.")
    assert [view.id for view in report.lead_views] == ["calls-table"]
    assert [figure.kind for figure in report.lead_figures] == ["calls"]
    assert [row.group for row in report.lead_views[0].rows[:2]] == ["batch=1", "batch=1"]
    (section,) = [section for section in report.sections if section.id == "calls"]
    assert section.paragraphs and not section.views and not section.figures


def test_calls_of_several_networks_and_variants_are_told_apart():
    records = []
    for cell, rnn, units in itertools.product(("lstm", "gru"), ("keras", "block"), (32, 64)):
        records += runs_with_calls(rnn, 0.002, overrides={"model.units": units}, cell=cell)
    lstm_text, gru_text = sentences(records)
    assert "predict() of digits_rnn (lstm) takes" in lstm_text and "(gru)" in gru_text
    assert "for a batch of 8, units=32, with" in lstm_text and "units=64, with" in lstm_text


def test_a_sentence_about_calls_names_the_device_once():
    records = runs_with_calls("keras", 0.004, device="cpu_1")
    records += runs_with_calls("keras", 0.002, device="cpu_2")
    first, second = sentences(records, {"device": "cpu_1"})
    takes = "predict() of digits_rnn takes 4.04 ms for a batch of 8 with `keras`."
    assert first == f"On one thread, {takes}"
    assert second.startswith("On two threads, ") and "cpu_2" not in second
