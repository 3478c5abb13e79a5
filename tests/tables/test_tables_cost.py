"""Cost, efficiency, energy and thread scaling against numbers computed by hand."""

from __future__ import annotations

import math

import pandas as pd
import pytest

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
from rnnbench.tables.estimates import Measurements
from rnnbench.tables.frame import tidy
from rnnbench.tables.time import time
from tests.conftest import ROOT
from tests.factory import make_probe, make_record, measured, replace
from tests.report.made_up import measurements

PRICES = PriceList("x", "X", "2026", "me", (
    Price("cpu_1", "on_demand", 0.36), Price("cpu_2", "on_demand", 1.8),
    Price("cpu_2", "preemptible", 0.1)), reference="cpu_1")  # fmt: skip


FOUR_TIMES = [make_record(epoch_seconds=20.0), make_record(device="cpu_2", epoch_seconds=5.0)]


def costs(records, prices=None):
    every = measured(records, prices=prices)
    return cost(every, time(every))


def test_cost_by_hand():
    table = costs(FOUR_TIMES, PRICES)
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
    drift = (1.0, 1.3, 1.7, 1.1)
    cpu_1, cpu_2 = (
        [make_record(device=device, repeat=r, epoch_seconds=level * d) for r, d in enumerate(drift)]
        for device, level in (("cpu_1", 2.0), ("cpu_2", 1.0))
    )
    for runs in (cpu_2, cpu_2[1:]):  # a missing run only removes its block
        row = costs([*cpu_1, *runs]).iloc[1]
        assert row["relative"] == pytest.approx(0.5)
        assert row["relative_high"] - row["relative_low"] == pytest.approx(0)
    other_machine = [replace(record, machine="other-1") for record in cpu_2]
    row = costs([*cpu_1, *other_machine]).iloc[1]
    assert row["relative_low"] < 0.4 and row["relative_high"] > 0.6


def test_serial_fraction_is_recovered():
    counts = [1, 2, 4, 8]
    assert serial_fraction(counts, [amdahl(n, 0.1) for n in counts]) == pytest.approx(0.1)
    # 1 / (0.5 + 0.5 / 2) = 4/3.
    assert amdahl(2, 0.5) == pytest.approx(4 / 3)
    records = [
        make_record(device=f"cpu_{n}", epoch_seconds=1 / amdahl(n, 0.1)) for n in counts
    ]  # fmt: skip
    table = scaling(measured(records))
    assert table["speedup"].tolist() == pytest.approx([amdahl(n, 0.1) for n in counts])
    assert table["serial_fraction"].tolist() == pytest.approx([0.1] * 4)
    assert scaling(measured(records[:2])).empty


# FLOP per forward step of the test model; a training step needs three times as many.
FORWARD = 2 * 32 * (8 * (8 * 256 + 64 * 256) + 64 * 10)


def table_of(frame, *made):
    return efficiency(Measurements(frame, probes=[probe_of(each, "here") for each in made]))


def row_of(frame, probe):
    (row,) = table_of(frame, probe).to_dict("records")
    return row


def test_one_run_by_hand():
    # 45 steps with batches of 32 process 1,438 samples: the last batch has 30.
    row = row_of(tidy([make_record(epoch_seconds=0.45)]), make_probe())
    assert row["step_seconds"] == pytest.approx(0.01)
    assert row["us_per_timestep"] == pytest.approx(1250)
    assert row["gflops"] == pytest.approx(3 * FORWARD * (1438 / 1440) / 0.01 / 1e9)
    assert row["peak_share"] == pytest.approx(row["gflops"] / 50)
    assert row["why"] == "" and row["complete"]
    assert pd.isna(row["gflops_low"])


def test_the_run_is_the_unit_and_interval_ends_swap_for_rates():
    times = [0.45, 0.46, 0.44]
    frame = tidy([make_record(epoch_seconds=t, repeat=i) for i, t in enumerate(times)])
    row = row_of(frame, make_probe())
    assert row["runs"] == 3
    mean = math.exp(sum(map(math.log, times)) / 3) / 45
    assert row["step_seconds"] == pytest.approx(mean)
    for name in ("us_per_timestep", "gflops", "peak_share"):
        assert row[f"{name}_low"] < row[name] < row[f"{name}_high"]
    ratio = row["us_per_timestep_high"] / row["us_per_timestep"]
    assert row["gflops"] / row["gflops_low"] == pytest.approx(ratio)


def test_a_probe_of_another_configuration_is_ignored():
    frame = tidy([make_record()])
    for probe in (
        make_probe(device="cpu_2"),
        make_probe(machine="elsewhere"),
        make_probe(overrides={"build.jit_compile": True}),
    ):
        row = row_of(frame, probe)
        assert "were not probed" in row["why"] and row["step_seconds"] > 0
        assert pd.isna(row["peak_gflops"])
    row = row_of(frame, make_probe(overrides={"model.units": 128}))
    assert "does not include this model" in row["why"] and row["peak_gflops"] == 50


def test_failed_or_incomplete_probes_give_a_reason_and_no_share():
    frame = tidy([make_record()])
    row = row_of(frame, make_probe(error="it crashed", models=[]))
    assert "it crashed" in row["why"]
    partial = {**make_probe()["models"][0], "complete": False}
    row = row_of(frame, make_probe(models=[partial]))
    assert row["us_per_timestep"] > 0 and "convolutions" in row["why"]
    assert pd.isna(row["peak_share"])


def test_a_void_run_has_no_efficiency():
    table = table_of(tidy([make_record(verdict="void")]), make_probe())
    assert table.empty and list(table.columns) == EFFICIENCY_COLUMNS


@pytest.mark.parametrize("precision", ["tf32", "mixed_float16"])
def test_runs_in_another_precision_have_no_share_of_the_float32_peak(precision):
    record = make_record(epoch_seconds=0.45, overrides={"precision": precision})
    record.run.config["precision"] = precision
    probe = make_probe(config=record.run.config)
    row = row_of(tidy([record]), probe)
    # Rates are valid in every precision, but shares of the float32 peak are not.
    assert row["gflops"] == pytest.approx(3 * FORWARD * (1438 / 1440) / 0.01 / 1e9)
    for name in ("peak_share", "peak_gflops"):
        assert pd.isna(row[name])
    assert row["why"] == f"the peak is measured in float32, and these runs compute in {precision}"


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
    measured = {**record.measured, "joules_per_sample": joules, "card_watts": watts}
    return replace(record, measured=measured)


def test_energy_by_hand():
    cpu = make_record(rnn="keras")
    records = [on_card(0.002, 90, repeat=0), on_card(0.008, 160, repeat=1), cpu]
    records.append(on_card(None, None, rnn="cudnn"))  # a slice of a card reports no energy
    m = measurements(records)
    (row,) = energy(m.measured).to_dict("records")
    assert (row["rnn"], row["device"], row["runs"]) == ("keras", "gpu", 2)
    assert row["millijoules"] == pytest.approx(4) and row["watts"] == pytest.approx(120)
    assert row["low"] < 4 < row["high"]
    (view,) = efficiency_section(m).views
    assert view.id == "energy" and [line.cells[0] for line in view.rows] == ["4.00"]


def test_no_run_reports_energy():
    assert energy(measured([make_record()])).empty and energy(measured([])).empty


def test_published_thread_counts_are_shown_next_to_measured_ones():
    def measured(*devices: str) -> list[Record]:
        records = [make_record(device=device) for device in devices]
        choices = [{**record.run.choices, "model": "imdb_bilstm"} for record in records]
        return [replace(r, choices=c) for r, c in zip(records, choices, strict=True)]

    rows = read_published(ROOT / "reports/published")
    assert published_scaling(tidy(measured("cpu_1")), rows).empty
    assert published_scaling(tidy([make_record(device=f"cpu_{n}") for n in (1, 2)]), rows).empty
    table = published_scaling(tidy(measured("cpu_1", "cpu_2")), rows).set_index(
        ["build", "threads"]
    )
    assert table.loc[("pip", 8), "speedup"] == 1
    assert table.loc[("pip", 64), "speedup"] == pytest.approx(627.13 / 545.07)
    assert len(table) == 8  # two builds; the later article has two vCPU counts only
    report = Content(measured("cpu_1", "cpu_2"), Experiment("t", "t", "", {"device": "cpu_1"}),
                    beside=ReportInputs(published=tuple(rows)))  # fmt: skip
    (section,) = [section for section in report.sections if section.id == "threads"]
    assert [view.id for view in section.views] == ["threads-published"]
    assert len(section.figures) == 1 and "Fewer than three" in section.paragraphs[0]
