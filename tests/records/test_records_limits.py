"""Values that no real machine has are refused with their field; results say what retries ask."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from rnnbench.errors import RecordError
from rnnbench.records.record import Phase, Record, run_seconds
from rnnbench.records.rounds import NotNeeded, Result, read_results
from rnnbench.records.store import write_json
from tests.factory import make_record, put

COLUMNS = {
    "turn": [1],
    "cycle": [0],
    "start": [0.0],
    "seconds": [0.1],
    "steps": [9],
    "full": [True],
    "others": [None],
    "took": [0.2],
    "cores": [1],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"measured": {"wall_seconds": -1.0}}, "measured.wall_seconds: Expected `float` >= 0"),
        (
            {"measured": {"threads": {"pinned_to": 3}}},
            "measured.threads: Expected `array | null`, got",
        ),
        ({"measured": {"closure": "none"}}, "measured.closure: Expected `float | null`, got `str`"),
        ({"phases": [{"name": "train", "start": 2.0, "end": 1.0}]}, "'train' ends before it"),
        (
            {"phases": [{"name": "t", "start": 1.0, "end": 2.0, "details": {"waited": -1.0}}]},
            "details.waited: Expected `float` >= 0",
        ),
        ({"run": {"config": {"device": 3}}}, "config.device: Expected `object`, got `int`"),
        ({"turns": {"turn": [1]}}, "turns has no cores and no cycle and no full and no others"),
        ({"turns": {**COLUMNS, "reads": []}}, "turns is not a mapping of lists of equal length"),
        ({"turns": {**COLUMNS, "steps": [0]}}, "turns.steps: Expected `int` >= 1"),
        ({"machine": "a" * 256}, "machine is 'aaa"),
        ({"site": "."}, "site is '.', not a path component"),
        ({"site": "a\\b"}, "not a path component"),
        ({"experiment": "a\x1fb"}, "experiment is 'a\\x1fb', not a path component"),
        ({"finished": "x"}, "finished is 'x', not a timestamp such as 20261121T075000_123456Z"),
    ],
)
def test_the_field_is_named(change: dict, message: str) -> None:
    data = json.loads(json.dumps(msgspec.to_builtins(make_record())))
    change = {**change, "run": {**data["run"], **change.get("run", {})}}
    with pytest.raises(RecordError) as caught:
        Record.from_json({**data, **change}, "there.json")
    assert message in caught.value.what and caught.value.where == "there.json"


def test_what_is_just_possible_is_read() -> None:
    """A name of 255 bytes with a space, a phase that takes no time, a machine that has no turns."""
    data = json.loads(json.dumps(msgspec.to_builtins(make_record())))
    name = "a b" + "c" * 252
    record = Record.from_json({**data, "machine": name, "turns": COLUMNS})
    assert record.machine == name and record.turns == COLUMNS
    assert Phase("build", 1.0, 1.0).seconds == 0
    assert Record.from_json({**data, "machine": "m", "turns": {}}).machine == "m"


def test_data_without_a_schema_names_its_file() -> None:
    with pytest.raises(RecordError) as caught:
        Record.from_json({}, "there.json")
    assert str(caught.value).startswith("there.json: is not a record: it has no schema.")


@pytest.mark.parametrize(
    ("seconds", "value"),
    [([9.0, 1.0, 2.0, 3.0], 2.0), ([9.0, 2.0], 2.0), ([5.0], 5.0), ([9.0, 3.0, 1.0], 2.0)],
)
def test_the_first_epoch_counts_only_if_it_is_the_only_one(seconds: list, value: float) -> None:
    assert run_seconds(seconds) == value


def test_a_result_repeats_what_retries_ask_of_its_record(tmp_path: Path) -> None:
    record = make_record(verdict="void")
    result = read_results(put(tmp_path, record))[record.name]
    assert result.digest == record.run.digest and result.verdict == "void"
    assert result.wall_seconds == record.measured.wall_seconds


def test_a_result_without_a_record_is_valid_for_the_rule_that_it_names(tmp_path: Path) -> None:
    rule = {"least": 3, "most": 8, "until": 0.02, "budget_s": None}
    record = make_record()
    result = read_results(put(tmp_path, record))[record.name]
    assert result.is_valid(tmp_path, None) and result.is_valid(tmp_path, rule)
    why = NotNeeded(halfwidth=0.01, until=0.02, runs=3)
    result = Result(record=None, digest="d", not_needed=why, repeats=rule)
    assert result.is_valid(tmp_path, rule)
    assert not result.is_valid(tmp_path, {**rule, "until": 0.01})
    assert not result.is_valid(tmp_path, None)


def test_a_file_that_is_not_of_a_round_says_how_to_make_it_again(tmp_path: Path) -> None:
    write_json(tmp_path / "a-s0-r0.json", {"members": {"a": {"record": None}}})
    with pytest.raises(RecordError) as caught:
        read_results(tmp_path / "a-s0-r0.json")
    text = str(caught.value)
    assert "a-s0-r0.json: is not the file of a round" in text
    assert "it names no record, and no reason why none is needed" in text
    assert "Fix: run the same snakemake command again, which makes it again." in text
