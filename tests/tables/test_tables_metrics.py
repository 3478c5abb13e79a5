"""The further metrics of a model: in the tables, on the page and in MLflow."""

from __future__ import annotations

import pandas as pd
import pytest

from rnnbench.records.record import Record
from rnnbench.report.conditions import conditions
from rnnbench.report.notes import random_note
from rnnbench.tables.frame import tidy
from rnnbench.tables.metrics import metrics, metrics_of_epochs
from rnnbench.tables.runs import epochs
from rnnbench.tracking import mapping
from tests.factory import KERAS, make_record, measured, replace


def with_metrics(values: list[float | None], name: str = "mae", **arguments) -> Record:
    record = make_record(epochs=len(values), **arguments)
    changed = []
    for epoch, value in zip(record.epochs, values, strict=True):
        further = {} if value is None else {name: value, f"val_{name}": value + 1}
        changed.append(replace(epoch, metrics=further))
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


def test_a_metric_with_the_name_of_a_column_has_a_column_of_its_own() -> None:
    records = [with_metrics([5.0, 3.0], name="samples")]
    table = epochs(tidy(records), records)
    assert table["samples_metric"].tolist() == [5.0, 3.0]
    assert table["samples"].tolist() == [1438, 1438]
    assert metrics(measured(records, KERAS), records)["samples_metric"].tolist() == [3.0]


def test_mlflow_has_each_epoch_of_a_metric() -> None:
    points = mapping.metrics(with_metrics([5.0, 3.0]))
    found = [(point.step, point.value) for point in points if point.key == "val_mae"]
    assert found == [(1, 6.0), (2, 4.0)]


def test_the_page_names_the_layers_that_draw_random_numbers() -> None:
    records = [
        make_record(),
        make_record(measured={"random_layers": ["mask"]}),
        make_record(measured={"random_layers": ["mask", "noise"]}),
    ]
    assert "draw random numbers: `mask`, `noise`. " in random_note(records)
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
    record = make_record(measured=facts)
    model = {**record.run.config["model"], "loss": None, "optimizer": None}
    config = {**record.run.config, "model": model}
    found = conditions([replace(record, config=config)])["Training"]
    assert "loss mse" in found and "optimizer Adam" in found and words in found
