"""Cost, efficiency, energy and thread scaling against numbers computed by hand."""

from __future__ import annotations

from statistics import geometric_mean

import pandas as pd
import pytest

from rnnbench.records.keys import model_digest
from rnnbench.records.plan_file import Experiment
from rnnbench.records.record import Record
from rnnbench.report.content import Content
from rnnbench.report.cost import cost_section
from rnnbench.report.numbers import percent_span
from rnnbench.report.sections import efficiency_section
from rnnbench.report.tables import ReportInputs
from rnnbench.sources.prices import Price, PriceList
from rnnbench.sources.probes import probe_of
from rnnbench.sources.published import read_published
from rnnbench.tables.cost import (
    EFFICIENCY_COLUMNS,
    amdahl,
    cheapest_within,
    cost,
    efficiency,
    energy,
    fastest_under,
    published_scaling,
    scaling,
    serial_fraction,
)
from rnnbench.tables.frame import tidy
from rnnbench.tables.time import time
from tests.conftest import ROOT
from tests.factory import make_probe, make_record, measured, replace
from tests.report.made_up import measurements

PRICES = PriceList("x", "X", "2026", "me", (
    Price("cpu_1", "on_demand", 0.36), Price("cpu_2", "on_demand", 1.8),
    Price("cpu_2", "preemptible", 0.1)), reference="cpu_1")  # fmt: skip
FOUR_TIMES = [make_record(epoch_seconds=20.0), make_record(device="cpu_2", epoch_seconds=5.0)]
# FLOP per forward step of the test model; a training step needs three times as many.
FORWARD = 2 * 32 * (8 * (8 * 256 + 64 * 256) + 64 * 10)
# 45 steps with batches of 32 process 1,438 samples: the last batch has 30.
STEP_FLOP = 3 * FORWARD * (1438 / 1440)


def costs(records, prices=None):
    every = measured(records, prices=prices)
    return cost(every, time(every))


def row_of(records, **of_probe):
    """The efficiency of the records' only configuration, with a probe."""
    probe = probe_of(make_probe(**of_probe), "here")
    (row,) = efficiency(measured(records, probes=[probe])).to_dict("records")
    return row


def test_cost_by_hand():
    table = costs(FOUR_TIMES, PRICES)
    cpu_1, cpu_2 = table.to_dict("records")
    # Five epochs: 100 s at 0.36 USD/h = 0.01 USD; 25 s at 1.8 USD/h = 0.0125 USD.
    assert (cpu_1["seconds"], cpu_1["usd"]) == (pytest.approx(100), pytest.approx(0.01))
    assert (cpu_2["relative"], cpu_2["relative_usd"]) == (pytest.approx(0.25), pytest.approx(1.25))
    assert cpu_2["break_even_usd_per_hour"] == pytest.approx(1.44)
    assert cpu_1["reference"] and cpu_1["on_front"] and cpu_2["on_front"]
    for seconds, device in ((120, "cpu_1"), (30, "cpu_2")):
        assert cheapest_within(table, seconds)[0]["device"] == device
    assert cheapest_within(table, 1)[0] is None
    assert fastest_under(table, 0.011)[0]["device"] == "cpu_1"
    wide = table.assign(seconds_low=table["seconds"] / 9, seconds_high=table["seconds"] * 1.1)
    best, others = cheapest_within(wide, 120)
    assert best["device"] == "cpu_1" and list(others["device"]) == ["cpu_2"], "it may be cheaper"


def test_costs_at_another_kind_of_price_stand_beside():
    view = cost_section(measurements(FOUR_TIMES, prices=PRICES)).views[1]
    # 25 s at 0.1 USD/h, relative to 100 s at 0.36 USD/h.
    (row,) = view.rows
    assert (row.head, *row.cells[1:5]) == ("cpu_2", "preemptible", "0.1000", "0.000694", "0.069×")


def test_the_price_of_a_device_is_not_that_of_its_replicas():
    records = [make_record(), make_record(device="cpu_2")]
    records.append(make_record(device="cpu_2", overrides={"device.replicas": 2}))
    m = measurements(records, prices=PRICES)
    assert m.cost["usd"].notna().tolist() == [True, True, False]
    (row,) = cost_section(m).views[1].rows
    assert row.head == "cpu_2" and "replicas" not in row.group


def test_without_a_price_there_is_no_cost():
    table = costs([make_record(), make_record(device="cpu_2", epoch_seconds=0.25)])
    assert table["usd"].isna().all() and table["relative"].tolist() == pytest.approx([1, 0.5])
    assert not table["on_front"].any()


def test_places_are_paired_by_common_blocks_only_on_one_machine():
    for machine in ("testbox-0123abcd", "other-1"):
        records = []
        for repeat, drift in enumerate((1.0, 1.3, 1.7, 1.1)):
            records.append(make_record(repeat=repeat, epoch_seconds=2 * drift))
            on_2 = {"device": "cpu_2", "machine": machine, "epoch_seconds": drift}
            records.append(make_record(repeat=repeat, **on_2))
        row = costs(records).iloc[1]
        assert row["relative"] == pytest.approx(0.5)
        is_paired = row["relative_high"] - row["relative_low"] == pytest.approx(0)
        assert is_paired == (machine != "other-1")
        assert is_paired or (row["relative_low"] < 0.4 and row["relative_high"] > 0.6)


def test_serial_fraction_is_recovered():
    counts = [1, 2, 4, 8]
    speedups = [amdahl(n, 0.1) for n in counts]
    assert serial_fraction(counts, speedups) == pytest.approx(0.1)
    assert amdahl(2, 0.5) == pytest.approx(4 / 3)  # 1 / (0.5 + 0.5 / 2)
    times = zip(counts, speedups, strict=True)
    records = [make_record(device=f"cpu_{n}", epoch_seconds=1 / speedup) for n, speedup in times]
    table = scaling(measured(records))
    assert table["speedup"].tolist() == pytest.approx(speedups)
    assert table["serial_fraction"].tolist() == pytest.approx([0.1] * 4)
    assert scaling(measured(records[:2])).empty


@pytest.mark.parametrize("precision", [None, "tf32", "mixed_float16"])
def test_one_run_by_hand(precision):
    record = make_record(
        epoch_seconds=0.45, overrides={"precision": precision} if precision else {}
    )
    row = row_of([record], config=record.run.config)
    assert row["step_seconds"] == pytest.approx(0.01)
    assert row["us_per_timestep"] == pytest.approx(1250) and row["complete"]
    assert row["gflops"] == pytest.approx(STEP_FLOP / 0.01 / 1e9) and pd.isna(row["gflops_low"])
    if precision is None:
        assert row["why"] == "" and row["peak_share"] == pytest.approx(row["gflops"] / 50)
    else:  # rates are valid in every precision, but shares of the float32 peak are not
        assert pd.isna(row["peak_share"]) and pd.isna(row["peak_gflops"])
        reason = "the peak is measured in float32, and these runs compute in "
        assert row["why"] == reason + precision


def test_the_run_is_the_unit_and_interval_ends_swap_for_rates():
    times = [0.45, 0.46, 0.44]
    row = row_of([make_record(epoch_seconds=t, repeat=i) for i, t in enumerate(times)])
    assert row["runs"] == 3
    assert row["step_seconds"] == pytest.approx(geometric_mean(times) / 45)
    for name in ("us_per_timestep", "gflops", "peak_share"):
        assert row[f"{name}_low"] < row[name] < row[f"{name}_high"]
    ratio = row["us_per_timestep_high"] / row["us_per_timestep"]
    assert row["gflops"] / row["gflops_low"] == pytest.approx(ratio)


PARTIAL = {**make_probe()["models"][0], "complete": False}


def test_other_words_about_a_model_and_an_older_probe_leave_the_efficiency():
    run = make_record().run
    described = {**run.config, "model": {**run.config["model"], "about": "other words"}}
    older = {**PARTIAL, "config": model_digest(described, without=()), "complete": True}
    record = replace(make_record(), config=described)
    for probe in ({}, {"models": [older]}):
        assert row_of([record], **probe)["peak_share"] > 0


@pytest.mark.parametrize(
    ("probe", "why", "peak"),
    [
        ({"device": "cpu_2"}, "were not probed", None),
        ({"machine": "elsewhere"}, "were not probed", None),
        ({"overrides": {"build.jit_compile": True}}, "were not probed", None),
        ({"overrides": {"model.units": 128}}, "does not include this model", 50),
        ({"error": "it crashed", "models": []}, "it crashed", 50),
        ({"models": [PARTIAL]}, "convolutions", 50),
    ],
)
def test_without_a_complete_probe_of_the_configuration_there_is_a_reason_and_no_share(
    probe, why, peak
):
    row = row_of([make_record()], **probe)
    assert why in row["why"] and row["step_seconds"] > 0 and pd.isna(row["peak_share"])
    assert row["peak_gflops"] == peak or (peak is None and pd.isna(row["peak_gflops"]))
    assert pd.isna(row["us_per_timestep"]) == (why != "convolutions")


def test_a_void_run_has_no_efficiency():
    table = efficiency(
        measured([make_record(verdict="void")], probes=[probe_of(make_probe(), "here")])
    )
    assert table.empty and list(table.columns) == EFFICIENCY_COLUMNS


def test_runs_above_the_peak_have_no_share_and_question_the_probe():
    probe = probe_of(make_probe(peak_gflops=2.0), "here")
    m = measurements([make_record(epoch_seconds=0.45)], probes=(probe,))
    (row,) = m.efficiency.to_dict("records")
    assert row["gflops"] > 2.0 == row["peak_gflops"] and pd.isna(row["peak_share"])
    assert "exceed the peak of the probe" in row["why"]
    section = efficiency_section(m)
    assert any("No share of the peak: the runs exceed" in text for text in section.paragraphs)
    assert percent_span(0.9, 1.04) == "90–over 100 %"


def on_card(joules: float | None, watts: float | None, **choices) -> Record:
    record = make_record(device="gpu", **choices)
    energy_of = {"joules_per_sample": joules, "card_watts": watts}
    return replace(record, measured={**record.measured, **energy_of})


def test_energy_by_hand():
    records = [on_card(0.002, 90, repeat=0), on_card(0.008, 160, repeat=1), make_record()]
    records.append(on_card(None, None, rnn="cudnn"))  # a slice of a card reports no energy
    m = measurements(records)
    (row,) = energy(m.measured).to_dict("records")
    assert (row["rnn"], row["device"], row["runs"]) == ("keras", "gpu", 2)
    assert row["millijoules"] == pytest.approx(4) and row["watts"] == pytest.approx(120)
    assert row["low"] < 4 < row["high"]
    (view,) = efficiency_section(m).views
    assert view.id == "energy" and [line.cells[0] for line in view.rows] == ["4.00"]
    assert energy(measured(records[2:3])).empty and energy(measured([])).empty


def test_published_thread_counts_are_shown_next_to_measured_ones():
    rows = read_published(ROOT / "reports/published")
    other = [make_record(device=f"cpu_{n}") for n in (1, 2)]
    records = [make_record(device=f"cpu_{n}", model="imdb_bilstm") for n in (1, 2)]
    assert published_scaling(tidy(records[:1]), rows).empty
    assert published_scaling(tidy(other), rows).empty
    table = published_scaling(tidy(records), rows).set_index(["build", "threads"])
    assert table.loc[("pip", 8), "speedup"] == 1
    assert table.loc[("pip", 64), "speedup"] == pytest.approx(627.13 / 545.07)
    assert len(table) == 8  # two builds; the later article has two vCPU counts only
    inputs = ReportInputs(published=tuple(rows))
    report = Content(records, Experiment("t", "t", "", {"device": "cpu_1"}), beside=inputs)
    (section,) = [section for section in report.sections if section.id == "threads"]
    assert [view.id for view in section.views] == ["threads-published"]
    assert len(section.figures) == 1 and "Fewer than three" in section.paragraphs[0]
