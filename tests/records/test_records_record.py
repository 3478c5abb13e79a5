from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from rnnbench.errors import RecordError
from rnnbench.records import record as record_module
from rnnbench.records.record import SCHEMA, Record
from rnnbench.records.store import read_record
from tests.factory import make_record


def parsed(record: Record) -> dict:
    return json.loads(json.dumps(msgspec.to_builtins(record)))


@pytest.mark.parametrize("verdict", ["clean", "suspect", "void"])
def test_round_trip(verdict: str) -> None:
    record = make_record(verdict=verdict, overrides={"model.units": 128}, epochs=2)
    assert Record.from_json(parsed(record)) == record


def test_a_newer_schema_is_refused_and_named() -> None:
    data = {**parsed(make_record()), "schema": SCHEMA + 1, "new_field": 1}
    with pytest.raises(RecordError) as caught:
        Record.from_json(data, "there.json")
    assert f"has schema {SCHEMA + 1}; this rnnbench reads up to {SCHEMA}" in str(caught.value)
    assert caught.value.where == "there.json"
    assert "newer" in caught.value.remedy


@pytest.mark.parametrize("data", [None, [], "record", 7, {}, {"name": "x"}])
def test_data_without_a_schema_is_not_a_record(data: object) -> None:
    with pytest.raises(RecordError, match="no schema"):
        Record.from_json(data)


def test_missing_and_unknown_fields_are_named() -> None:
    data = parsed(make_record())
    with pytest.raises(RecordError, match="unknown field `colour`"):
        Record.from_json({**data, "colour": "red"})
    del data["run"]["digest"]
    with pytest.raises(RecordError, match=r"missing required field `digest` - at `\$.run`"):
        Record.from_json(data)


@pytest.mark.parametrize("number", range(1, SCHEMA + 1))
def test_a_record_of_every_schema_is_read(number: int) -> None:
    """The files are as the rnnbench of their schema wrote them and are never edited."""
    file = Path(__file__).parent / f"schema_{number}.json"
    record = read_record(file)
    assert record.schema == SCHEMA
    assert record.key == f"testbox-0123abcd/{record.name}/20261121T075000_123456Z"
    assert [epoch.seconds for epoch in record.epochs] == [0.5, 0.5]


def test_older_schemas_are_upgraded_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def renamed(data: dict) -> dict:
        rest = {name: value for name, value in data.items() if name != "place"}
        return {**rest, "site": data["place"], "schema": 0}

    def with_turns(data: dict) -> dict:
        return {**data, "turns": {}, "schema": SCHEMA}

    monkeypatch.setattr(record_module, "UPGRADES", {-1: renamed, 0: with_turns})
    record = make_record()
    old = {**parsed(record), "place": record.site, "schema": -1}
    del old["site"], old["turns"]
    assert Record.from_json(old) == record


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"started": "yesterday"}, "started is 'yesterday', not a timestamp"),
        ({"finished": None}, "got `null` - at `$.finished`"),
        ({"machine": "../../elsewhere"}, "machine is '../../elsewhere', not a path component"),
        ({"run": {"name": ".."}}, "name is '..', not a path component"),
        ({"site": ""}, "site is ''"),
        ({"run": {"seed": True}}, "Expected `int`, got `bool` - at `$.run.seed`"),
        ({"run": {"order": "first"}}, "at `$.run.order`"),
        ({"run": {"choices": {"rnn": 3}}}, "at `$.run.choices"),
        ({"run": {"config": []}}, "at `$.run.config`"),
        (
            {"epochs": [{"epoch": 1, "start": "now", "seconds": 1, "samples": 1, "steps": 1}]},
            "at `$.epochs[0].start`",
        ),
        ({"verdict": {"status": "clean", "reasons": "none"}}, "at `$.verdict.reasons`"),
        ({"verdict": {"status": "splendid", "reasons": []}}, "clean, suspect, void"),
        ({"verdict": None}, "at `$.verdict`"),
        ({"phases": None}, "at `$.phases`"),
        ({"phases": [{"name": "train"}]}, "`start` - at `$.phases[0]`"),
        ({"epochs": [{"epoch": 1, "colour": "red"}]}, "unknown field `colour`"),
        ({"round": {"id": "x"}}, "`members` - at `$.round`"),
        ({"round": {"id": "x", "members": [], "companion": "much"}}, "at `$.round.companion`"),
        ({"turns": {"turn": [1], "cycle": []}}, "turns"),
        ({"turns": {"turn": 1}}, "at `$.turns[...]`"),
    ],
)
def test_fields_with_wrong_values_are_named(change: dict, message: str) -> None:
    with pytest.raises(RecordError) as caught:
        data = parsed(make_record())
        change = {**change, "run": {**data["run"], **change.get("run", {})}}
        Record.from_json({**data, **change}, "there.json")
    assert message in str(caught.value) and "\n" not in str(caught.value)
