"""Cost, efficiency, energy and thread scaling against numbers computed by hand."""

from __future__ import annotations

from statistics import geometric_mean

import pandas as pd
import pytest

from rnnbench.records.plan_file import Experiment
from rnnbench.records.record import Record
from rnnbench.report.content import Content
from rnnbench.report.cost import cost_section
from rnnbench.report.numbers import percent_span
from rnnbench.report.sections import efficiency_section
from rnnbench.report.tables import ReportInputs, Tables
from rnnbench.sources.prices import Price, PriceList
from rnnbench.sources.published import read_published
from rnnbench.tables.cost import cheapest_within, cost, fastest_under
from rnnbench.tables.efficiency import EFFICIENCY_COLUMNS, efficiency, energy
from rnnbench.tables.frame import tidy
from rnnbench.tables.scaling import published_scaling, scaling
from rnnbench.tables.time import time
from tests.conftest import ROOT
from tests.factory import FORWARD, make_record, measured, replace
from tests.report.made_up import measurements

PRICES = PriceList("x", "X", "2026", "me", (
    Price("cpu_1", "on_demand", 0.36), Price("cpu_2", "on_demand", 1.8),
    Price("cpu_2", "preemptible", 0.1)), reference="cpu_1")  # fmt: skip
FOUR_TIMES = [make_record(epoch_seconds=20.0), make_record(device="cpu_2", epoch_seconds=5.0)]
STEP_FLOP = 3 * FORWARD * 1438 / 45  # 45 steps process 1,438 samples
PEAKS = {"cpu_1": {"float32": 0.05, "tf32": 0.1}}  # TFLOP/s


def costs(records, prices=None):
    every = measured(records, prices=prices)
    return cost(every, time(every))


def row_of(*records):
    """The efficiency of the records' only configuration, on a device that states its peak."""
    (row,) = efficiency(measured(records, peaks=PEAKS)).to_dict("records")
    return row


def test_a_place_that_is_a_little_slower_at_the_same_price_is_not_on_the_front():
    records = [make_record(epoch_seconds=20.0), make_record(device="cpu_2", epoch_seconds=19.95)]
    same = [Price(device, "on_demand", 0.36) for device in ("cpu_1", "cpu_2")]
    table = costs(records, replace(PRICES, prices=tuple(same)))
    assert table["on_front"].tolist() == [False, True]


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


def test_the_reference_place_is_that_of_the_list_or_of_the_reference():
    """Else the first; of several builds, the one that the reference names."""
    records = [
        make_record(device=device, build=build, epoch_seconds=seconds)
        for device, build, seconds in (
            ("cpu_1", "old", 20.0), ("cpu_1", "new", 10.0), ("cpu_2", "old", 8.0),
            ("cpu_2", "new", 4.0),
        )
    ]  # fmt: skip

    def base(reference, prices=None):
        every = measured(records, reference, prices=prices)
        table = cost(every, time(every))
        (row,) = table[table["reference"]].to_dict("records")
        assert (row["relative"], row["relative_low"]) == (1.0, None)
        return row["device"], row["build"]

    assert base({}) == ("cpu_1", "old")
    assert base({"build": "new"}) == ("cpu_1", "new")
    assert base({"device": "cpu_2"}) == ("cpu_2", "old")
    assert base({"device": "cpu_2", "build": "new"}) == ("cpu_2", "new")
    assert base({"device": "cpu_2", "build": "new"}, PRICES) == ("cpu_1", "new")


def test_the_cheapest_and_the_fastest_are_chosen_by_their_whole_intervals():
    table = costs(FOUR_TIMES, PRICES)
    wide = table.assign(seconds_low=table["seconds"] * 0.9, seconds_high=table["seconds"] * 1.1)
    # cpu_1 takes 100 s (90 to 110) for 0.01 USD, cpu_2 25 s for 0.0125 USD (up to 0.01375).
    best, others = cheapest_within(wide, 105)
    assert best["device"] == "cpu_2" and list(others["device"]) == ["cpu_1"]
    assert cheapest_within(wide, 26)[0] is None
    best, others = fastest_under(wide, 0.013)
    assert best["device"] == "cpu_1" and list(others["device"]) == ["cpu_2"]
    assert fastest_under(wide, 0.0105)[0] is None


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


def test_speedups_over_the_fewest_threads_and_their_share_of_the_ideal():
    speedups = {2: 1.0, 4: 1.6, 16: 4.0}
    records = [make_record(device=f"cpu_{n}", epoch_seconds=1 / s) for n, s in speedups.items()]
    table = scaling(measured(records))
    assert table["speedup"].tolist() == pytest.approx([1, 1.6, 4])
    assert table["ideal"].tolist() == [1, 2, 8]
    assert table["efficiency"].tolist() == pytest.approx([1, 0.8, 0.5])
    assert scaling(measured(records[:2])).empty


@pytest.mark.parametrize(
    ("precision", "peak"), [(None, 50), ("tf32", 100), ("mixed_float16", None)]
)
def test_one_run_by_hand(precision, peak):
    changed = {"precision": precision} if precision else {}
    row = row_of(make_record(epoch_seconds=0.45, overrides=changed))
    assert row["step_seconds"] == pytest.approx(0.01)
    assert row["us_per_timestep"] == pytest.approx(1250)
    assert (row["timesteps"], row["flops_per_sample"]) == (8, 3 * FORWARD)
    assert row["gflops"] == pytest.approx(STEP_FLOP / 0.01 / 1e9) and pd.isna(row["gflops_low"])
    if peak:
        assert row["why"] == "" and row["mfu"] == pytest.approx(row["gflops"] / peak)
    else:
        assert pd.isna(row["mfu"]) and pd.isna(row["peak_tflops"])
        assert row["why"] == "conf/device/cpu_1.yaml states no peak_tflops of mixed_float16"


def test_the_run_is_the_unit_and_interval_ends_swap_for_rates():
    times = [0.45, 0.46, 0.44]
    row = row_of(*(make_record(epoch_seconds=t, repeat=i) for i, t in enumerate(times)))
    assert row["runs"] == 3
    assert row["step_seconds"] == pytest.approx(geometric_mean(times) / 45)
    for name in ("us_per_timestep", "gflops", "mfu"):
        assert row[f"{name}_low"] < row[name] < row[f"{name}_high"]
    ratio = row["us_per_timestep_high"] / row["us_per_timestep"]
    assert row["gflops"] / row["gflops_low"] == pytest.approx(ratio)


def with_facts(**facts) -> Record:
    record = make_record()
    return replace(record, facts={**record.facts, **facts})


@pytest.mark.parametrize(
    ("record", "why", "lacks"),
    [
        (make_record(device="cpu_2"), "conf/device/cpu_2.yaml states no", {"mfu"}),
        (make_record(overrides={"device.threads": 2}), "states no peak_tflops", {"mfu"}),
        (make_record(overrides={"device.replicas": 2}), "states no peak_tflops", {"mfu"}),
        (with_facts(flops_per_sample=None), "do not count", {"mfu", "gflops"}),
        (with_facts(flops_per_sample=0), "do not count", {"mfu", "gflops"}),
        (
            with_facts(flops_per_sample=None, timesteps=None),
            "do not count",
            {"mfu", "gflops", "us_per_timestep"},
        ),
        (make_record(epoch_seconds=1e-3), "which is therefore too low", {"mfu"}),
    ],
)
def test_what_is_missing_has_a_reason(record, why, lacks):
    row = row_of(record)
    assert why in row["why"] and row["step_seconds"] > 0
    assert {name for name in ("us_per_timestep", "gflops", "mfu") if pd.isna(row[name])} == lacks


def test_a_void_run_has_no_efficiency():
    table = efficiency(measured([make_record(verdict="void")], peaks=PEAKS))
    assert table.empty and list(table.columns) == EFFICIENCY_COLUMNS


@pytest.mark.parametrize("peaks", [{}, PEAKS])
def test_the_mfu_is_shown_with_reasons_if_a_device_states_its_peak(peaks):
    records = [make_record(), make_record(device="cpu_2")]
    facts = Experiment(name="x", title="x", about="", reference={}, peak_tflops=peaks)
    section = efficiency_section(Tables(records, facts, ReportInputs()))
    (view,) = section.views
    assert ("MFU" in [column.label for column in view.columns]) == bool(peaks)
    assert any("No MFU: conf/device/cpu_2" in text for text in section.paragraphs) == bool(peaks)
    assert percent_span(0.9, 1.04) == "90–over 100 %"


def on_card(joules: float | None, watts: float | None, **choices) -> Record:
    record = make_record(device="gpu", **choices)
    energy_of = {"joules_per_sample": joules, "card_watts": watts}
    return replace(record, facts={**record.facts, **energy_of})


def test_energy_by_hand():
    records = [on_card(0.002, 90, repeat=0), on_card(0.008, 160, repeat=1), make_record()]
    records.append(on_card(None, None, rnn="cudnn"))  # a slice of a card reports no energy
    m = measurements(records)
    (row,) = energy(m.measured).to_dict("records")
    assert (row["rnn"], row["device"], row["runs"]) == ("keras", "gpu", 2)
    assert row["millijoules"] == pytest.approx(4) and row["watts"] == pytest.approx(120)
    assert row["low"] < 4 < row["high"]
    _, view = efficiency_section(m).views
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
    assert [view.id for view in section.views if view.rows] == ["threads-published"]
    assert len(section.figures) == 1 and "Fewer than three" in section.paragraphs[0]
