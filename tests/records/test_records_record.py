from __future__ import annotations

import json
from pathlib import Path

import pytest

from rnnbench.errors import RecordError
from rnnbench.records import record as room
from rnnbench.records.record import SCHEMA, Phase, Record, Verdict
from rnnbench.records.store import read_record
from tests.factory import make_record


def as_read(record: Record) -> dict:
    return json.loads(json.dumps(record.to_json()))


@pytest.mark.parametrize("verdict", ["clean", "suspect", "void"])
def test_round_trip(verdict: str) -> None:
    record = make_record(verdict=verdict, overrides={"model.units": 128}, epochs=2)
    assert Record.from_json(as_read(record)) == record


def test_key_and_phase() -> None:
    record = make_record(rnn="block", machine="box-1")
    assert record.key == f"box-1/{record.name}/{record.started}"
    train = record.phase("train")
    assert train is not None
    assert train.name == "train"
    assert record.phase("dreaming") is None


def test_seconds_of_a_phase() -> None:
    assert Phase("train", 2.0, 5.5).seconds == 3.5


def test_a_newer_schema_is_refused_and_says_which() -> None:
    data = {**as_read(make_record()), "schema": SCHEMA + 1, "new_field": 1}
    with pytest.raises(RecordError) as told:
        Record.from_json(data, "there.json")
    assert f"has schema {SCHEMA + 1}; this rnnbench reads {SCHEMA}" in str(told.value)
    assert told.value.where == "there.json"
    assert "newer" in told.value.remedy


@pytest.mark.parametrize("data", [None, [], "record", 7, {}, {"name": "x"}])
def test_what_has_no_schema_is_no_record(data: object) -> None:
    with pytest.raises(RecordError, match="no schema"):
        Record.from_json(data)


def test_missing_and_unknown_fields_are_named() -> None:
    data = as_read(make_record())
    del data["digest"]
    data["colour"] = "red"
    with pytest.raises(RecordError) as told:
        Record.from_json(data)
    assert "missing ['digest'], unknown ['colour']" in str(told.value)


@pytest.mark.parametrize(
    "change",
    [
        {"phases": None},
        {"phases": [{"name": "train"}]},
        {"epochs": [{"epoch": 1, "colour": "red"}]},
        {"verdict": {"status": "clean"}},
        {"round": {"id": "x"}},
        {"round": {"id": "x", "members": [], "companion": False, "effect": "much"}},
        {"turns": {"turn": [1], "cycle": []}},
        {"turns": {"turn": 1}},
        {"verdict": {"status": "splendid", "reasons": []}},
        {"verdict": None},
    ],
)
def test_parts_that_do_not_fit_are_one_line(change: dict) -> None:
    with pytest.raises(RecordError) as told:
        Record.from_json({**as_read(make_record()), **change}, "there.json")
    assert "\n" not in str(told.value)


def test_only_three_verdicts() -> None:
    with pytest.raises(RecordError, match="clean, suspect, void"):
        Verdict("good")


@pytest.mark.parametrize("number", range(1, SCHEMA + 1))
def test_a_record_of_every_schema_is_read(number: int) -> None:
    """The files are as they were written then, and are never edited."""
    file = Path(__file__).parent / f"schema_{number}.json"
    record = read_record(file)
    assert record.schema == SCHEMA
    assert record.key == f"testbox-0123abcd/{record.name}/20261121T075000_123456Z"
    assert [epoch.seconds for epoch in record.epochs] == [0.5, 0.5]


def test_older_schemas_are_lifted_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def renamed(data: dict) -> dict:
        rest = {name: value for name, value in data.items() if name != "title"}
        return {**rest, "name": data["title"], "schema": 0}

    def with_alias(data: dict) -> dict:
        return {**data, "alias": None, "schema": SCHEMA}

    monkeypatch.setattr(room, "LIFTS", {-1: renamed, 0: with_alias})
    record = make_record()
    old = {**as_read(record), "title": record.name, "schema": -1}
    del old["name"], old["alias"]
    assert Record.from_json(old) == record


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"started": "yesterday"}, "started is 'yesterday', not a moment"),
        ({"finished": None}, "finished"),
        ({"machine": "../../elsewhere"}, "machine is '../../elsewhere', not a part of a path"),
        ({"name": ".."}, "name"),
        ({"site": ""}, "site"),
        ({"seed": True}, "seed is 'True', not a whole number"),
        ({"order": "first"}, "order"),
        ({"choices": {"rnn": 3}}, "choices"),
        ({"config": []}, "config"),
        ({"epochs": [{"epoch": 1, "start": "now", "seconds": 1, "samples": 1, "steps": 1}]}, "now"),
        ({"verdict": {"status": "clean", "reasons": "none"}}, "verdict.reasons"),
    ],
)
def test_fields_are_what_they_must_be(change: dict, words: str) -> None:
    with pytest.raises(RecordError) as told:
        Record.from_json({**as_read(make_record()), **change}, "there.json")
    assert words in str(told.value)
