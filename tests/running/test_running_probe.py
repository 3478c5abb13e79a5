"""Probes from real workers: with a memory limit, killed, and out of memory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import rnnworker
from rnnbench.errors import RunError
from rnnbench.records.store import Place, read_json
from rnnbench.running import preflights, worker

PLANNED = {
    "key": "cpu_1-current",
    "digest": "d",
    "choices": {"device": "cpu_1", "build": "current"},
    "overrides": {},
    "config": {
        "device": {"name": "cpu_1", "kind": "cpu", "threads": 1},
        "build": {"name": "current", "framework": "keras3_torch"},
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
        {statement}
probe.probe = probed
sys.exit(run.main(sys.argv[2:]))
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, tmp_path / "results", "here", "mine", tmp_path / "timing.lock")


def probed(statement: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The probe of a worker that executes `statement`."""
    script = WORKER.format(source=str(Path(rnnworker.__file__).parents[1]), statement=statement)
    monkeypatch.setattr(worker, "launcher", lambda build, root: (sys.executable, "-c", script))
    return preflights.probe(PLANNED, place)


def test_it_is_written_to_the_path_that_snakemake_expects(place: Place, monkeypatch) -> None:
    result = probed('events.emit("facts", probe={"peak_gflops": 3.0})', place, monkeypatch)
    file = place.folder / "probes" / "cpu_1-current.json"
    assert read_json(file) == result
    assert list(file.parent.glob("*.json")) == [file]
    assert result["error"] is None and result["peak_gflops"] == 3.0


def test_the_memory_limit_applies_to_it(place: Place, monkeypatch) -> None:
    result = probed("bytearray(2**31)", place, monkeypatch)
    assert "MemoryError in phase large" in result["error"]


def test_memory_errors_in_its_log_are_recognised(place: Place, monkeypatch) -> None:
    result = probed('os.write(2, b"std::bad_alloc"); os.abort()', place, monkeypatch)
    assert result["error"] == "ran out of memory in native code (SIGABRT) in phase large"
    # The log of the earlier attempt has been removed.
    again = probed("os.abort()", place, monkeypatch)
    assert again["error"] == "was terminated by SIGABRT in phase large"


def test_an_external_sigkill_leaves_no_probe(place: Place, monkeypatch) -> None:
    with pytest.raises(RunError, match="received an external SIGKILL in phase large"):
        probed("os.kill(os.getpid(), 9)", place, monkeypatch)
    assert not (place.folder / "probes" / "cpu_1-current.json").exists()
