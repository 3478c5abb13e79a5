"""A certificate from what a worker reported, well and badly."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import rnnworker
from rnnbench.commands.certify import summary
from rnnbench.errors import RunError
from rnnbench.records.store import read_json
from rnnbench.running import certify as room
from rnnbench.running import worker
from rnnbench.running.supervise import Outcome
from rnnbench.running.train import Place

FOUND = {"status": "certified", "why": None, "kernel": ["while"], "outputs": 1e-7}
FOUND |= {"gradients": 1e-6, "loss_curve": [2.0] * 20, "round_trip": True}
TOLD = {
    "precision": "float32",
    "tolerance": {"outputs": 1e-5, "gradients": 1e-4, "loss_curve": 1e-3},
    "implementations": {"keras": FOUND},
    "pairs": [],
    "portability": [],
}
PLANNED = {
    "key": "digits_rnn-lstm-current",
    "digest": "d",
    "choices": {"model": "digits_rnn", "cell": "lstm", "build": "current"},
    "overrides": {"model.units": 8},
    "config": {"device": {"threads": 1}, "dataset": {"path": None}, "build": {"name": "b"}},
    "implementations": [
        {"name": "cudnn", "rnn": {}, "skip": "cuDNN runs on NVIDIA GPUs only"},
        {"name": "keras", "rnn": {}, "skip": None},
    ],
}
FACTS = {"event": "facts", "t": 1.0, "certificate": TOLD}


def test_it_has_the_form_that_the_report_reads() -> None:
    one = room.assembled(PLANNED, Outcome(events=[FACTS]))
    assert (one["schema"], one["model"], one["cell"], one["build"]) == (
        1,
        "digits_rnn",
        "lstm",
        "current",
    )
    assert one["overrides"] == {"model.units": 8}
    assert one["tolerance"] == TOLD["tolerance"]
    assert list(one["implementations"]) == ["cudnn", "keras"]
    assert one["implementations"]["keras"] == FOUND
    cudnn = one["implementations"]["cudnn"]
    assert (cudnn["status"], cudnn["why"]) == ("not_run", "cuDNN runs on NVIDIA GPUs only")
    assert set(cudnn) == set(FOUND)
    json.dumps(one, allow_nan=False)


def test_a_worker_that_died_certified_nothing() -> None:
    one = room.assembled(PLANNED, Outcome(exit_code=-11, phase="certify_keras"))
    keras = one["implementations"]["keras"]
    assert keras["status"] == "failed"
    assert "SIGSEGV" in keras["why"]
    assert "certify_keras" in keras["why"]
    assert one["implementations"]["cudnn"]["status"] == "not_run"
    assert (one["pairs"], one["portability"]) == ([], [])


def test_one_that_never_ends_takes_no_other_with_it() -> None:
    entries = [{"name": name, "rnn": {}, "skip": None} for name in ("keras", "slow", "untried")]
    outcome = Outcome(
        events=[FACTS], exit_code=-15, phase="certify_slow", over_limit="certify_slow"
    )
    one = room.assembled({**PLANNED, "implementations": entries}, outcome)
    statuses = {name: found["status"] for name, found in one["implementations"].items()}
    assert statuses == {"keras": "certified", "slow": "failed", "untried": "not_run"}
    assert "over its limit" in one["implementations"]["slow"]["why"]


def test_what_a_person_reads() -> None:
    one = room.assembled(PLANNED, Outcome(exit_code=-11, phase="certify_keras"))
    first, second = summary(one)
    assert first == "certificate digits_rnn-lstm-current: 1 failed, 1 not run"
    assert second.startswith("  keras failed: died in native code")


WORKER = """
import json, os, sys
job = json.load(open(sys.argv[2]))
assert job["mode"] == "certify" and [e["name"] for e in job["implementations"]] == ["keras"]
print("on its standard output")
event = dict(json.loads({told!r}), t=1.0)
os.write(int(os.environ["RNNWORKER_EVENTS"]), (json.dumps(event) + "\\n").encode())
{end}
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch) -> Place:
    monkeypatch.setattr(worker, "launcher", lambda build, root: (sys.executable, "-c", _script("")))
    return Place(tmp_path, tmp_path / "results", "here", "mine", tmp_path / "timing.lock")


def _script(end: str) -> str:
    return WORKER.format(told=json.dumps(FACTS), end=end)


def test_it_is_written_where_snakemake_looks_for_it(place: Place) -> None:
    made = room.certify(PLANNED, place)
    file = place.folder / "certificates" / "digits_rnn-lstm-current.json"
    assert read_json(file) == made
    # The report reads every JSON file beside it.
    assert list(file.parent.glob("*.json")) == [file]
    assert made["implementations"]["keras"]["status"] == "certified"


def test_killed_from_outside_is_no_certificate(place: Place, monkeypatch) -> None:
    script = _script("os.kill(os.getpid(), 9)")
    monkeypatch.setattr(worker, "launcher", lambda build, root: (sys.executable, "-c", script))
    with pytest.raises(RunError, match="killed from outside"):
        room.certify(PLANNED, place)
    assert not (place.folder / "certificates" / "digits_rnn-lstm-current.json").exists()


EATER = """
import sys
sys.path.insert(0, {source!r})
from rnnworker import certify, run
def eat(job, events, phases):
    with phases.phase("certify_keras"):
        bytearray(2**31)
certify.certify = eat
sys.exit(run.main(sys.argv[2:]))
"""


def test_it_is_held_to_the_limit_of_memory(place: Place, monkeypatch) -> None:
    script = EATER.format(source=str(Path(rnnworker.__file__).parents[1]))
    monkeypatch.setattr(worker, "launcher", lambda build, root: (sys.executable, "-c", script))
    limited = {**PLANNED["config"], "limits": {"memory_bytes": 2**30}}
    keras = room.certify({**PLANNED, "config": limited}, place)["implementations"]["keras"]
    assert keras["status"] == "failed"
    assert "MemoryError" in keras["why"]
