"""What MLflow is told, without MLflow."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest

from rnnbench.records.record import Epoch
from rnnbench.tracking import mapping, metrics
from rnnbench.tracking.address import database_file, redacted, tracking_uri
from rnnbench.tracking.run_matching import Found, own, stale_runs
from tests.factory import DIGITS_MD5, make_late, make_record


def test_every_axis_and_hyperparameter_is_a_param():
    record = make_record(rnn="unrolled", overrides={"model.units": 512})
    params = mapping.params(record.choices, record.config)
    assert params["rnn"] == "unrolled" and params["device"] == "cpu_1"
    assert params["model.units"] == "512" and params["model.optimizer.learning_rate"] == "0.001"
    assert not [key for key in params if key.startswith("limits") or key.endswith("about")]


def test_params_and_tags_keep_to_the_lengths_of_mlflow():
    params = mapping.params({"model": "m"}, {"model": {"k" * 300: "v" * 9000, "a/ü": 1}})
    assert max(map(len, params)) == 250 and "model.a__" in params
    (value,) = [value for value in params.values() if len(value) > 10]
    assert len(value) == 6000 and value.endswith(mapping.TRUNCATED)


def test_tags_hold_verdict_machine_versions_and_dataset():
    tags = mapping.tags(make_record(verdict="void"))
    assert tags["rnnbench.verdict"] == "void" and tags["rnnbench.reasons"] == "loss_not_finite"
    assert tags["environment.tensorflow"] == "2.21.0" and "hardware.cores" not in tags
    assert tags["dataset.md5"] == DIGITS_MD5 and "void" in tags["mlflow.note.content"]
    assert "rnnbench.alias" not in tags and "environment.packages" not in tags


def test_the_facts_that_are_no_tags_are_all_kept():
    facts = mapping.facts(make_record())
    assert facts["hardware"]["cores"] == 2 and "packages" not in facts["environment"]
    assert not any(map(metrics.is_number, facts["measured"].values()))


def test_tags_name_the_round_and_who_is_only_a_companion():
    first, late, again = make_late()
    assert mapping.tags(again)["rnnbench.companion"] == "true"
    assert mapping.tags(late)["rnnbench.round"] == late.round["id"]
    assert "rnnbench.companion" not in mapping.tags(late)
    assert "rnnbench.round" not in mapping.tags(first)


def test_points_are_at_the_moment_they_describe():
    points = metrics.metrics(make_record(epoch_seconds=[0.5, 0.25]))
    first, second = [point for point in points if point.key == "epoch_seconds"]
    assert (first.step, second.step) == (1, 2) and second.value == 0.25
    assert second.timestamp - first.timestamp == 290  # its validation, then itself
    (median,) = [point.value for point in points if point.key == "median_epoch_seconds"]
    assert median == 0.25  # a run counts with its epochs after the first
    keys = {point.key for point in points}
    assert {"evaluate_seconds", "peak_memory_bytes", "closure", "samples_per_second"} <= keys


def test_what_is_shown_live_is_what_the_record_says_later():
    record = make_record()
    some = metrics.live_metrics(record.started, record.phases[:6], record.epochs)
    assert some and set(some) <= set(metrics.metrics(record))


@pytest.mark.parametrize("value", [None, math.nan, math.inf, 10**400])
def test_what_is_no_finite_number_is_left_out(value):
    epoch = Epoch(1, 1010.0, 0.5, 10, 1, loss=value)
    points = metrics.metrics(make_record(epochs=1, measured={"closure": value}))
    assert not [point for point in points if point.key == "closure"]
    assert not [
        point
        for point in metrics.live_metrics("20260101T000000_000000Z", make_record().phases, [epoch])
        if point.key == "loss"
    ]


def test_dataset_has_the_md5_that_dvc_pins_and_its_source():
    record = make_record()
    seen = mapping.dataset(record)
    assert seen and seen.digest == DIGITS_MD5 and json.loads(seen.source)["uri"]
    assert mapping.dataset(dataclasses.replace(record, identity={})) is None


def test_dead_runs_are_those_without_record_begun_before_on_this_machine():
    key = "box/name/20260102T000000_000000Z"

    def running(started: str, machine: str = "box", status: str = "RUNNING") -> Found:
        tags = mapping.identity_tags(f"{machine}/name/{started}", "quick", "d")
        return Found(f"{machine} {started} {status}", "name", status, tags)

    killed = running("20260101T000000_000000Z")
    others = [
        running("20260101T000000_000000Z", machine="other"),
        running("20260101T000000_000000Z", status="FINISHED"),
        running("20260103T000000_000000Z"),
        running("20260101T120000.000000Z"),
    ]
    assert stale_runs([killed, *others], key, {"20260101T120000.000000Z"}) == [killed]


def test_the_complete_twin_is_the_one_to_keep():
    tags = {mapping.RECORD: "k"}
    empty, full = Found("a", "n", "RUNNING", tags), Found("b", "n", "RUNNING", tags, frozenset("p"))
    done = Found("c", "n", "FINISHED", tags | {mapping.COMPLETE: "sha"})
    assert own([empty, full, done], "k") == [done, full, empty]


def test_addresses(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert database_file(tracking_uri(tmp_path)) == tmp_path / "mlflow.db"
    assert database_file("postgresql://a:b@host/db") is None
    uri = "http://me:p%40ss@host:5000"
    assert redacted(f"no answer\n from {uri} with p@ss", uri) == (
        "no answer from http://host:5000 with ***"
    )
