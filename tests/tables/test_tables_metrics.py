"""The further metrics of a model: in the tables, on the page and in MLflow."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from rnnbench.records.record import Record
from rnnbench.report.conditions import conditions
from rnnbench.report.learning import accuracy_section
from rnnbench.report.notes import random_note
from rnnbench.report.terminal import print_run
from rnnbench.tables.frame import tidy
from rnnbench.tables.metrics import metrics, metrics_of_epochs
from rnnbench.tables.runs import epochs
from rnnbench.tracking import mapping
from tests.factory import KERAS, make_record, measured, replace
from tests.report.made_up import measurements


def with_metrics(values: list[float], name: str = "mae", **arguments) -> Record:
    record = make_record(epochs=len(values), **arguments)
    changed = []
    for epoch, value in zip(record.epochs, values, strict=True):
        changed.append(replace(epoch, metrics={name: value, f"val_{name}": value + 1}))
    return replace(record, epochs=changed)


def test_the_last_epoch_counts_and_runs_are_averaged() -> None:
    records = [
        with_metrics([5.0, 3.0]),
        with_metrics([5.0, 1.0], seed=1),
        with_metrics([9.0, 7.0], rnn="block"),
        with_metrics([0.0, 0.0], rnn="block", seed=1, verdict="void"),
    ]
    table = metrics(measured(records, KERAS), records).set_index("implementation")
    assert table["mae"].to_dict() == {"keras": 2.0, "block": 7.0}
    assert table["val_mae"].to_dict() == {"keras": 3.0, "block": 8.0}
    assert table["seeds"].to_dict() == {"keras": 2, "block": 1}


def test_models_without_further_metrics_have_no_table() -> None:
    records = [make_record()]
    assert metrics(measured(records, KERAS), records).empty
    assert "mae" not in epochs(tidy(records), records)


def test_every_epoch_has_its_metrics_and_other_models_have_none() -> None:
    records = [with_metrics([5.0, 3.0]), make_record(rnn="block", epochs=1)]
    table = epochs(tidy(records), records)
    assert table["mae"].tolist()[:2] == [5.0, 3.0] and pd.isna(table["mae"].iloc[2])
    assert len(metrics_of_epochs(records)) == 3


@pytest.mark.parametrize("name", ["samples", "epoch", "record", "seed"])
def test_a_metric_with_the_name_of_a_column_has_a_column_of_its_own(name: str) -> None:
    records = [with_metrics([5.0, 3.0], name=name)]
    table, plain = epochs(tidy(records), records), epochs(tidy(records), [])
    assert table[f"{name}_metric"].tolist() == [5.0, 3.0]
    assert table[plain.columns].equals(plain)
    found = metrics(measured(records, KERAS), records)
    assert found.filter(regex=f"^{name}(_metric)?$").iloc[0].tolist()[-1] == 3.0


def test_a_metric_that_never_was_finite_is_missing() -> None:
    record = make_record(epochs=1)
    records = [replace(record, epochs=[replace(record.epochs[0], metrics={"mae": None})])]
    assert metrics(measured(records, KERAS), records)["mae"].isna().all()


def test_mlflow_has_each_epoch_of_a_metric() -> None:
    points = mapping.metrics(with_metrics([5.0, 3.0]))
    found = [(point.step, point.value) for point in points if point.key == "val_mae"]
    assert found == [(1, 6.0), (2, 4.0)]


def test_a_metric_never_replaces_one_of_ours_in_mlflow() -> None:
    record = with_metrics([5.0, 3.0], name="epoch_seconds", epoch_seconds=[0.5, 0.25])
    points = mapping.metrics(record)
    assert [each.value for each in points if each.key == "epoch_seconds"] == [0.5, 0.25]
    assert [each.value for each in points if each.key == "epoch_seconds_metric"] == [5.0, 3.0]


def test_the_page_has_a_column_for_each_metric() -> None:
    records = [with_metrics([5.0, 3.0], verdict="suspect"), with_metrics([9.0, 7.0], rnn="block")]
    *_, view = accuracy_section(measurements(records)).views
    assert [column.label for column in view.columns] == ["mae", "validation mae"]
    cells = {row.head: row.cells for row in view.rows}
    assert cells == {"keras": ("3.00 †", "4.00 †"), "block": ("7.00", "8.00")}
    views = accuracy_section(measurements([make_record()])).views
    assert "metrics" not in [view.id for view in views]


def test_show_has_the_metrics_of_the_last_epoch(capsys) -> None:
    print_run(with_metrics([5.0, 3.0], name="[/mae]"), "here")
    shown = capsys.readouterr().out
    assert re.search(r"\[/mae\] +3\.000 *\n +val_\[/mae\] +4\.000", shown)
    print_run(make_record(), "here")
    assert "metric" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("weighted", "words"),
    [([], None), (["train"], "training"), (["train", "val"], "training and validation")],
)
def test_the_page_says_which_samples_have_weights(weighted, words) -> None:
    record = make_record()
    phases = [
        replace(phase, facts={"weighted": weighted}) if phase.name == "data" else phase
        for phase in record.phases
    ]
    found = conditions([replace(record, phases=phases)])["Training"]
    assert ("sample weights" in found) is bool(words)
    assert words is None or f"sample weights {words}" in found


def test_the_page_names_the_layers_that_draw_random_numbers() -> None:
    records = [
        make_record(),
        make_record(facts={"random_layers": ["mask"]}),
        make_record(facts={"random_layers": ["mask", "noise"]}),
    ]
    assert "draw random numbers: `mask`, `noise` of digits_rnn. " in random_note(records)
    assert random_note(records[:1]) == ""


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        (0.0010000000474974513, "learning_rate 0.001"),
        ({"class_name": "CosineDecay"}, "learning_rate CosineDecay"),
    ],
)
def test_the_page_names_what_a_model_compiles_itself(rate, words) -> None:
    facts = {"loss": "mse", "optimizer": {"class_name": "Adam", "learning_rate": rate}}
    record = make_record(facts=facts)
    model = {**record.run.config["model"], "loss": None, "optimizer": None}
    config = {**record.run.config, "model": model}
    found = conditions([replace(record, config=config)])["Training"]
    assert "loss mse" in found and "optimizer Adam" in found and words in found


def test_what_the_model_states_goes_before_what_it_compiles() -> None:
    record = make_record(facts={"loss": "mse", "optimizer": {"class_name": "Ftrl"}})
    found = conditions([record])["Training"]
    assert "loss sparse_categorical_crossentropy" in found and "Ftrl" not in found
