"""Latency, throughput and speed-ups of ``evaluate()`` and ``predict()``."""

from __future__ import annotations

import pytest

from rnnbench.records.overrides import Overrides
from rnnbench.records.plan_file import Experiment
from rnnbench.records.record import Record
from rnnbench.report.content import Content
from rnnbench.report.measurements import ReportInputs
from rnnbench.report.sections import kernels_view
from rnnbench.sources.published import read_published
from rnnbench.tables.efficiency import published_scaling
from rnnbench.tables.frame import tidy
from rnnbench.tables.runs import kernels
from rnnbench.tables.time import FASTER, IS_REFERENCE, NOT_EQUAL, SLOWER, calls, time
from tests.conftest import ROOT
from tests.factory import make_record, replace

KERAS = {"rnn": "keras"}


def run(rnn: str, repeat: int, predict: float, samples: int, batch: int, **changes) -> Record:
    """A record whose ``predict()`` calls take `predict` seconds and ``evaluate()`` calls one."""
    record = make_record(rnn=rnn, repeat=repeat, **changes)
    durations = {"evaluate": [1.0, 1.0, 1.0], "predict": [predict * (1 + 0.01 * repeat)] * 3}
    phases = tuple(
        replace(phase, details={"calls": durations[phase.name], "samples": samples})
        if phase.name in durations
        else phase
        for phase in record.phases
    )
    model = {**record.run.config["model"], "batch": batch}
    return replace(record, phases=phases, config={**record.run.config, "model": model})


def table(records: list[Record], reference: dict[str, str] = KERAS):
    frame = tidy(records)
    return calls(frame, time(frame, reference), reference)


def test_latency_throughput_and_speedup_by_hand():
    keras = [run("keras", repeat, 0.2, 128, 32, epoch_seconds=0.5) for repeat in range(3)]
    block = [run("block", repeat, 0.4, 128, 32, epoch_seconds=0.25) for repeat in range(3)]
    rows = table([*keras, *block]).set_index(["call", "rnn"])
    row = rows.loc["predict", "keras"]
    assert row["seconds"] == pytest.approx(0.2 * (1 * 1.01 * 1.02) ** (1 / 3))
    assert row["ms_per_batch"] == pytest.approx(1e3 * row["seconds"] / 4)  # 128 / 32 batches
    assert row["samples_per_second"] == pytest.approx(128 / row["seconds"])
    assert row["words"] == IS_REFERENCE and (row["samples"], row["batch"]) == (128, 32)
    # It trains in half the time and predicts in twice the time.
    slow = rows.loc["predict", "block"]
    assert slow["words"] == SLOWER and slow["speedup"] == pytest.approx(0.5)
    assert slow["speedup_low"] <= 0.5 <= slow["speedup_high"]
    assert rows.loc["evaluate", "block"]["speedup"] == pytest.approx(1)
    assert time(tidy([*keras, *block]), KERAS)["words"].tolist() == [IS_REFERENCE, FASTER]


def test_a_call_of_a_different_function_is_marked():
    relu = {"rnn.options.activation": "relu"}
    plain = {"rnn.options.activation": "tanh"}
    records = [run("keras", r, 0.2, 64, 32, overrides=plain) for r in range(2)]
    records += [run("keras", r, 0.1, 64, 32, overrides=relu) for r in range(2)]
    report = Content(records, Experiment("relu", "t", "", {**KERAS, **plain}))
    row = report.csv["calls"].set_index(["call", "options"]).loc["predict", Overrides.of(relu)]
    assert row["words"] == NOT_EQUAL and row["speedup"] != row["speedup"]
    assert str(row["unequal"]).startswith("≠2.0") and "relu instead of tanh" in row["difference"]
    (section,) = [section for section in report.sections if section.id == "calls"]
    texts = [text for row in section.views[0].rows for text in row.cells if "2.00×" in text]
    assert texts == ["≠ 2.00×"]


def test_kernel_groups_name_the_variant_if_kernels_differ():
    def attested(why: str, **overrides) -> Record:
        record = make_record(overrides={f"model.{k}": v for k, v in overrides.items()})
        kernel = {"found": ["while"], "expected": None, "why_not_cudnn": why.split("; ")}
        return replace(record, measured={**record.measured, "kernel": kernel})

    def groups(*records: Record) -> list[tuple[str, str]]:
        rows = kernels_view(kernels(tidy(records))).rows
        return [(row.group, row.cells[2]) for row in rows]

    plain, masked = attested("a CPU", units=8), attested("a mask", padding="left")
    assert groups(plain, masked) == [
        ("lstm · current · units=8", "a CPU"),
        ("lstm · current · padding=left", "a mask"),
    ]
    assert groups(plain, attested("a CPU", units=9)) == [("", "a CPU")]
    both = kernels_view(kernels(tidy([plain, attested("a CPU; a mask", padding="left")])))
    assert [row.cells[2] for row in both.rows] == ["–", "a mask"]
    assert both.notes == ("In every row, cuDNN is also ruled out because a CPU.",)


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


def test_a_run_without_calls_has_no_row():
    record = make_record()
    phases = tuple(p for p in record.phases if p.name not in ("evaluate", "predict"))
    assert table([replace(record, phases=phases)]).empty


def test_a_report_may_lead_with_the_calls():
    seconds = {("keras", 1): 0.002, ("block", 1): 0.001, ("keras", 8): 0.004, ("block", 8): 0.008}
    records = [
        run(rnn, repeat, duration, batch, batch, overrides={"model.batch": batch, "model.lr": 1})
        for (rnn, batch), duration in seconds.items()
        for repeat in range(3)
    ]
    report = Content(records, Experiment("x", "x?", "", KERAS, "calls"))
    (answer,) = report.answers
    text = str(answer)
    assert text.startswith("On cpu_1, predict() of digits_rnn takes 1.01 ms for a batch of 1 with")
    assert "with `block` (2.00× as fast as `keras`, 95 % CI" in text
    assert text.endswith("; 4.04 ms for a batch of 8 with `keras`.")
    assert [view.id for view in report.lead_views] == ["calls-table"]
    assert [figure.kind for figure in report.lead_figures] == ["calls"]
    assert [row.group for row in report.lead_views[0].rows[:2]] == ["batch=1", "batch=1"]
    assert "calls" not in [section.id for section in report.sections]


def test_calls_of_another_function_are_not_called_fastest():
    records = [
        run("keras", repeat, seconds, 8, 8, overrides={"rnn.options.activation": activation})
        for activation, seconds in (("tanh", 0.004), ("relu", 0.001))
        for repeat in range(3)
    ]
    reference = {**KERAS, "rnn.options.activation": "tanh"}
    report = Content(records, Experiment("x", "x?", "", reference, "calls"))
    words = report.csv["calls"].set_index(["call", "implementation"])["words"]
    assert words["predict", "keras activation=relu"] == NOT_EQUAL
    assert "takes 4.04 ms for a batch of 8 with `keras`." in str(report.answers[0])


def test_calls_of_several_networks_and_variants_are_told_apart():
    runs = [
        run(rnn, repeat, 0.002, 8, 8, overrides={"model.units": units})
        for rnn in ("keras", "block")
        for units in (32, 64)
        for repeat in range(3)
    ]
    gru = [replace(r, name=f"gru-{r.name}", choices={**r.run.choices, "cell": "gru"}) for r in runs]
    report = Content([*runs, *gru], Experiment("x", "x?", "", KERAS, "calls"))
    lstm_text, gru_text = map(str, report.answers)
    assert "predict() of digits_rnn (lstm) takes" in lstm_text and "(gru)" in gru_text
    assert "for a batch of 8, units=32, with" in lstm_text and "units=64, with" in lstm_text


def test_a_sentence_about_calls_names_the_device_once():
    records = [
        run("keras", repeat, seconds, 8, 8, device=device)
        for device, seconds in (("cpu_1", 0.004), ("cpu_2", 0.002))
        for repeat in range(3)
    ]
    report = Content(records, Experiment("x", "x?", "", {"device": "cpu_1"}, "calls"))
    first, second = map(str, report.answers)
    assert first == "On cpu_1, predict() of digits_rnn takes 4.04 ms for a batch of 8 with `keras`."
    assert second.startswith("On cpu_2, ") and second.count("cpu_2") == 1


def test_a_report_that_leads_with_calls_says_if_there_are_none():
    records = [
        replace(record, phases=[p for p in record.phases if p.name != "predict"])
        for record in (make_record(repeat=repeat) for repeat in range(3))
    ]
    report = Content(records, Experiment("x", "x?", "", KERAS, "calls"))
    assert "No run has timed predict()" in str(report.answers[0])
