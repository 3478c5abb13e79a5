from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from rnnbench.errors import RecordError
from rnnbench.records.measured import Details, Measured
from rnnbench.records.record import SCHEMA, Phase, Reason, Record, Verdict
from rnnbench.records.store import json_bytes, read_record
from rnnbench.running.verdict import STOP_THEM
from tests.factory import make_record


def parsed(record: Record) -> dict:
    return json.loads(json.dumps(msgspec.to_builtins(record)))


def test_round_trip() -> None:
    for verdict in ("clean", "suspect", "void"):
        record = make_record(verdict=verdict, overrides={"model.units": 128}, epochs=2)
        assert Record.from_json(parsed(record)) == record


def test_the_reasons_are_joined_and_equal_fixes_said_once() -> None:
    reasons = [Reason("foreign_load", text, STOP_THEM) for text in ("one is busy", "two.")]
    record = make_record(verdict=Verdict("suspect", tuple(reasons)))
    again = f"rnnbench retry quick {record.name}."
    assert record.why == f"one is busy; two. Fix: stop them and measure the run again: {again}"
    assert make_record().why == ""


@pytest.mark.parametrize("number", [SCHEMA - 1, SCHEMA + 1])
def test_another_schema_is_refused_and_named(number: int) -> None:
    data = {**parsed(make_record()), "schema": number, "new_field": 1}
    words = f"has schema {number}; this rnnbench reads schema {SCHEMA}"
    with pytest.raises(RecordError, match=words) as caught:
        Record.from_json(data, "there.json")
    assert caught.value.where == "there.json"
    assert "the rnnbench that wrote it" in caught.value.remedy


@pytest.mark.parametrize("data", [None, [], "record", 7, {}, {"name": "x"}])
def test_data_without_a_schema_is_not_a_record(data: object) -> None:
    with pytest.raises(RecordError, match="no schema"):
        Record.from_json(data)


def test_a_record_of_this_schema_is_read() -> None:
    """The file is as rnnbench wrote it and is never edited."""
    record = read_record(Path(__file__).parent / "schema_4.json")
    assert record.schema == SCHEMA
    assert record.key == f"amd_epyc-2c-22c945/{record.name}/20261126T040543_918916Z"
    assert [round(epoch.seconds, 3) for epoch in record.epochs] == [2.715, 2.744]


def test_facts_that_no_field_has_stay_as_they_are_in_the_file() -> None:
    """Those of a newer or older rnnbench, at the top and inside others, in their order."""
    data = parsed(make_record())
    kernel = {"later": [1, 2.0], "found": ["while"], "expected": None}
    data["measured"] = {"unknown": {"of": ["another", None]}, "kernel": kernel, "timesteps": 8}
    data["phases"][0]["details"] = {"slept": [0.5], "waited": 0, "load": {"busy": 2, "own": 1}}
    record = Record.from_json(data)
    assert json_bytes(record) == json_bytes(data)
    assert record.measured.kernel.found == ("while",) and record.measured.timesteps == 8
    assert record.phases[0].details.load.own == 1


def test_a_fact_that_is_null_was_not_reported() -> None:
    nothing = dict.fromkeys(Measured.__struct_fields__)
    record = make_record(facts=nothing, phases=(Phase("data", 0, 1, facts={"waited": None}),))
    assert record.measured == Measured() and record.phases[0].details == Details()


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
        ({"epochs": [{"epoch": 1, "start": "now"}]}, "at `$.epochs[0].start`"),
        ({"verdict": {"status": "clean", "reasons": "none"}}, "at `$.verdict.reasons`"),
        ({"verdict": {"status": "splendid", "reasons": []}}, "clean, suspect, void"),
        ({"verdict": None}, "at `$.verdict`"),
        ({"phases": None}, "at `$.phases`"),
        ({"phases": [{"name": "train"}]}, "`start` - at `$.phases[0]`"),
        ({"epochs": [{"epoch": 1, "colour": "red"}]}, "unknown field `colour`"),
        ({"colour": "red"}, "unknown field `colour`"),
        ({"round": {"id": "x"}}, "missing required field `members` - at `$.round`"),
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
