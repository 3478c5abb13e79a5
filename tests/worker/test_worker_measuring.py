"""When an attempt at a run began."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from rnnbench.records import timestamps
from rnnworker.measuring import start_stamp


def test_an_attempt_is_later_than_each_earlier_one_although_the_clock_was_set_back(
    tmp_path: Path,
) -> None:
    (tmp_path / "20261231T235959_999999Z.json").touch()
    (tmp_path / "20991231T235959_999999Z.events.jsonl").touch()
    (tmp_path / "notes").touch()
    assert start_stamp(tmp_path) == "21000101T000000_000999Z"


def test_the_first_attempt_began_now(tmp_path: Path) -> None:
    """The controller reads the worker's timestamps."""
    began = timestamps.read(start_stamp(tmp_path / "nothing yet"))
    assert abs(began - datetime.now(UTC)) < timedelta(minutes=1)
