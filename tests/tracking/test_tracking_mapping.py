"""The data that is sent to MLflow; MLflow itself is not needed."""

from __future__ import annotations

import json
import math

import pytest
from mlflow.entities import Param, Run, RunData, RunInfo, RunTag

from rnnbench.records.record import Epoch
from rnnbench.tracking import mapping
from rnnbench.tracking.store import database_file, redacted, tracking_uri
from rnnbench.tracking.track import kept_first
from tests.factory import DIGITS_MD5, make_late, make_record, replace


def test_every_axis_and_hyperparameter_is_a_param():
    record = make_record(rnn="unrolled", overrides={"model.units": 512})
    params = mapping.params(record.run.choices, record.run.config)
    assert params["rnn"] == "unrolled" and params["device"] == "cpu_1"
    assert params["model.units"] == "512" and params["model.optimizer.learning_rate"] == "0.001"
    assert not [key for key in params if key.startswith("limits") or key.endswith("about")]


def test_params_respect_the_length_limits_of_mlflow():
    params = mapping.params({"model": "m"}, {"model": {"k" * 300: "v" * 9000, "a/ü": 1}})
    assert max(map(len, params)) == 250 and "model.a__" in params
    (value,) = [value for value in params.values() if len(value) > 10]
    assert len(value) == 6000 and value.endswith(mapping.TRUNCATED)


def test_tags_and_facts_have_verdict_versions_and_dataset():
    tags = mapping.tags(make_record(verdict="void"))
    assert tags["verdict"] == "void" and tags["reasons"] == "loss_not_finite"
    assert tags["environment.tensorflow"] == "2.21.0" and "hardware.cores" not in tags
    assert tags["dataset.md5"] == DIGITS_MD5 and "void" in tags["mlflow.note.content"]
    assert "rnnbench.alias" not in tags and "environment.packages" not in tags
    facts = mapping.facts(make_record())
    assert facts["hardware"]["cores"] == 2 and "packages" not in facts["environment"]
    assert not any(map(mapping.is_number, facts["measured"].values()))


def test_tags_name_the_round_and_mark_companions():
    _, late, companion = make_late()
    assert mapping.tags(companion)["rnnbench.companion"] == "true"
    assert mapping.tags(late)["rnnbench.round"] == late.round.id
    assert "rnnbench.companion" not in mapping.tags(late)


def test_points_have_the_timestamp_of_what_they_measure():
    points = mapping.metrics(make_record(epoch_seconds=[0.5, 0.25]))
    first, second = [point for point in points if point.key == "epoch_seconds"]
    assert (first.step, second.step) == (1, 2) and second.value == 0.25
    # The validation of the first epoch, then the second epoch.
    assert second.timestamp - first.timestamp == 290
    (median,) = [point.value for point in points if point.key == "median_epoch_seconds"]
    assert median == 0.25  # the first epoch of a run is not counted
    (train,) = [point.value for point in points if point.key == "train_seconds"]
    assert train == 0.75  # without validations and the turns of others
    keys = {point.key for point in points}
    assert {"evaluate_seconds", "peak_memory_bytes", "closure", "samples_per_second"} <= keys


@pytest.mark.parametrize("value", [None, math.nan, math.inf, 10**400])
def test_values_that_are_not_finite_numbers_are_omitted(value):
    epoch = Epoch(1, 1010.0, 0.5, 10, 1, loss=value)
    record = replace(make_record(facts={"unknown": value}), epochs=(epoch,))
    points = mapping.metrics(record)
    assert {point.key for point in points}.isdisjoint({"unknown", "loss"})
    assert "epoch_seconds" in {point.key for point in points}


def test_dataset_has_the_md5_that_dvc_pins_and_its_source():
    record = make_record()
    dataset = mapping.dataset(record)
    assert dataset["digest"] == DIGITS_MD5 and json.loads(dataset["source"])["uri"]
    assert mapping.dataset(replace(record, identity={})) == {}
    config = {**record.run.config, "dataset": {"name": "digits", "about": "Ziffern: 8×8"}}
    described = mapping.dataset(replace(record, config=config))
    assert json.loads(described["profile"]) == {"about": "Ziffern: 8×8"}


def test_the_complete_duplicate_is_kept():
    def run(run_id: str, tags: tuple[str, ...] = (), params: tuple[str, ...] = ()) -> Run:
        info = RunInfo(run_id, "e", "u", "RUNNING", 0, None, "active")
        data = RunData([], [Param(name, "") for name in params], [RunTag(n, "") for n in tags])
        return Run(info, data)

    found = [run("a"), run("b", params=("p",)), run("c", tags=(mapping.COMPLETE,))]
    assert [each.info.run_id for each in kept_first(found)] == ["c", "b", "a"]


def test_store_addresses_and_redaction(tmp_path):
    assert database_file(tracking_uri(tmp_path)) == tmp_path / "mlflow.db"
    assert database_file("postgresql://a:b@host/db") is None
    uri = "http://me:p%40ss@host:5000"
    assert redacted(f"no answer\n from {uri} with p@ss", uri) == (
        "no answer from http://host:5000 with ***"
    )
