"""Efficiency: time per timestep and shares, checked against numbers computed by hand."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from rnnbench.records.record import Record
from rnnbench.report.numbers import percent_span
from rnnbench.report.sections import efficiency_section
from rnnbench.tables.cost import energy
from rnnbench.tables.efficiency import EFFICIENCY_COLUMNS, efficiency
from rnnbench.tables.frame import tidy
from tests.factory import make_probe, make_record, replace
from tests.report.made_up import measurements

# FLOP per forward step of the test model; a training step needs three times as many.
FORWARD = 2 * 32 * (8 * (8 * 256 + 64 * 256) + 64 * 10)


def test_one_run_by_hand():
    # 45 steps with batches of 32 process 1,438 samples: the last batch has 30.
    (row,) = efficiency(tidy([make_record(epoch_seconds=0.45)]), [make_probe()]).to_dict("records")
    assert row["step_seconds"] == pytest.approx(0.01)
    assert row["us_per_timestep"] == pytest.approx(1250)
    assert row["gflops"] == pytest.approx(3 * FORWARD * (1438 / 1440) / 0.01 / 1e9)
    assert row["peak_share"] == pytest.approx(row["gflops"] / 50)
    assert row["why"] == "" and row["complete"]
    assert pd.isna(row["gflops_low"])


def test_the_run_is_the_unit_and_interval_ends_swap_for_rates():
    times = [0.45, 0.46, 0.44]
    frame = tidy([make_record(epoch_seconds=t, repeat=i) for i, t in enumerate(times)])
    (row,) = efficiency(frame, [make_probe()]).to_dict("records")
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
        (row,) = efficiency(frame, [probe]).to_dict("records")
        assert "were not probed" in row["why"] and row["step_seconds"] > 0
        assert pd.isna(row["peak_gflops"])
    (row,) = efficiency(frame, [make_probe(overrides={"model.units": 128})]).to_dict("records")
    assert "does not include this model" in row["why"] and row["peak_gflops"] == 50


def test_failed_or_incomplete_probes_give_a_reason_and_no_share():
    frame = tidy([make_record()])
    (row,) = efficiency(frame, [make_probe(error="it crashed", models=[])]).to_dict("records")
    assert "it crashed" in row["why"]
    partial = {**make_probe()["models"][0], "complete": False}
    (row,) = efficiency(frame, [make_probe(models=[partial])]).to_dict("records")
    assert row["us_per_timestep"] > 0 and "convolutions" in row["why"]
    assert pd.isna(row["peak_share"])


def test_a_void_run_has_no_efficiency():
    table = efficiency(tidy([make_record(verdict="void")]), [make_probe()])
    assert table.empty and list(table.columns) == EFFICIENCY_COLUMNS


@pytest.mark.parametrize("precision", ["tf32", "mixed_float16"])
def test_runs_in_another_precision_have_no_share_of_the_float32_peak(precision):
    record = make_record(epoch_seconds=0.45, overrides={"precision": precision})
    record.run.config["precision"] = precision
    probe = make_probe(config=record.run.config)
    (row,) = efficiency(tidy([record]), [probe]).to_dict("records")
    # Rates are valid in every precision, but shares of the float32 peak are not.
    assert row["gflops"] == pytest.approx(3 * FORWARD * (1438 / 1440) / 0.01 / 1e9)
    for name in ("peak_share", "peak_gflops"):
        assert pd.isna(row[name])
    assert row["why"] == f"the peak is measured in float32, and these runs compute in {precision}"


def test_runs_above_the_peak_have_no_share_and_question_the_probe():
    m = measurements([make_record(epoch_seconds=0.45)], probes=(make_probe(peak_gflops=2.0),))
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
    frame = tidy(records)
    (row,) = energy(frame).to_dict("records")
    assert (row["rnn"], row["device"], row["runs"]) == ("keras", "gpu", 2)
    assert row["millijoules"] == pytest.approx(4) and row["watts"] == pytest.approx(120)
    assert row["low"] < 4 < row["high"]
    section = efficiency_section(measurements(records))
    (view,) = section.views
    assert view.id == "energy" and [line.cells[0] for line in view.rows] == ["4.00"]


def test_no_run_reports_energy():
    assert energy(tidy([make_record()])).empty and energy(tidy([])).empty
