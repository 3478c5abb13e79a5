"""A probe from a worker of its own: limited in memory, killed, dead for want of memory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import rnnworker
from rnnbench.errors import RunError
from rnnbench.records.store import read_json
from rnnbench.running import probe as room
from rnnbench.running import worker
from rnnbench.running.train import Place

PLANNED = {
    "key": "cpu_1-current",
    "digest": "d",
    "choices": {"device": "cpu_1", "build": "current"},
    "overrides": {},
    "config": {
        "device": {"name": "cpu_1", "kind": "cpu", "threads": 1},
        "build": {"name": "current"},
        "limits": {"memory_bytes": 2**30},
    },
    "models": [],
}
WORKER = """
import os, sys
sys.path.insert(0, {source!r})
from rnnworker import probe, run
def probed(job, events, phases):
    with phases.phase("large"):
        {what}
probe.probe = probed
sys.exit(run.main(sys.argv[2:]))
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, tmp_path / "results", "here", "mine", tmp_path / "timing.lock")


def probed(what: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The probe of a worker that does `what`."""
    script = WORKER.format(source=str(Path(rnnworker.__file__).parents[1]), what=what)
    monkeypatch.setattr(worker, "launcher", lambda build, root: (sys.executable, "-c", script))
    return room.probe(PLANNED, place)


def test_it_is_written_where_snakemake_looks_for_it(place: Place, monkeypatch) -> None:
    found = probed('events.emit("facts", probe={"peak_gflops": 3.0})', place, monkeypatch)
    file = place.folder / "probes" / "cpu_1-current.json"
    assert read_json(file) == found
    assert list(file.parent.glob("*.json")) == [file]
    assert found["error"] is None and found["peak_gflops"] == 3.0


def test_it_is_held_to_the_limit_of_memory(place: Place, monkeypatch) -> None:
    found = probed("bytearray(2**31)", place, monkeypatch)
    assert "MemoryError in phase large" in found["error"]


def test_what_its_log_says_of_memory_is_taken_into_account(place: Place, monkeypatch) -> None:
    found = probed('os.write(2, b"std::bad_alloc"); os.abort()', place, monkeypatch)
    assert found["error"] == "died for memory in native code (SIGABRT) in phase large"
    # Of an earlier attempt nothing is left.
    again = probed("os.abort()", place, monkeypatch)
    assert again["error"] == "died in native code (SIGABRT) in phase large"


def test_killed_from_outside_is_no_probe(place: Place, monkeypatch) -> None:
    with pytest.raises(RunError, match="killed from outside in phase large"):
        probed("os.kill(os.getpid(), 9)", place, monkeypatch)
    assert not (place.folder / "probes" / "cpu_1-current.json").exists()
