from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from rnnbench.cli import log_interval


def test_each_command_appends_one_line(tmp_path: Path) -> None:
    path = tmp_path / "site" / "intervals.jsonl"
    before = time.monotonic()
    with log_interval(str(path), "track", ["quick", "secret"]):
        time.sleep(0.05)
    with pytest.raises(ValueError), log_interval(str(path), "report", []):
        raise ValueError
    first, second = [json.loads(line) for line in path.read_text().splitlines()]
    assert (first["command"], first["arguments"], first["pid"]) == ("track", ["quick"], os.getpid())
    assert before <= first["start"] <= first["end"] - 0.05
    assert first["boot"]
    assert (second["command"], second["arguments"]) == ("report", [])
    assert second["start"] >= first["end"]


def test_a_command_runs_even_if_its_line_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = []
    for path in (None, str(tmp_path / "file" / "intervals.jsonl")):
        with log_interval(path, "track", []):
            done.append(path)
    assert len(done) == 2
