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
FOUND |= {"gradients": 1e-6, "loss_curve": [2.0] * 20, "round_trip": True, "function": None}
STEPS = {"threads": 1, "steps": 30, "off": 0, "worst": 2e-7, "why": None}
FOUND["applied"] = {"cpu_1": STEPS}
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
    "device": "cpu_1",
    "devices": [],
    "implementations": [
        {"name": "cudnn", "rnn": {}, "skip": "cuDNN runs on NVIDIA GPUs only"},
        {"name": "keras", "rnn": {}, "skip": None},
    ],
}
FACTS = {"event": "facts", "t": 1.0, "certificate": TOLD}


def test_it_has_the_form_that_the_report_reads() -> None:
    one = room.assembled(PLANNED, Outcome(events=[FACTS]))
    assert (one["schema"], one["model"], one["cell"], one["build"]) == (
        2,
        "digits_rnn",
        "lstm",
        "current",
    )
    assert one["overrides"] == {"model.units": 8}
    assert one["tolerance"] == TOLD["tolerance"]
    assert list(one["implementations"]) == ["cudnn", "keras"]
    assert one["implementations"]["keras"] == {**FOUND, "function_why": None}
    cudnn = one["implementations"]["cudnn"]
    assert (cudnn["status"], cudnn["why"]) == ("not_run", "cuDNN runs on NVIDIA GPUs only")
    assert set(cudnn) == {*FOUND, "function_why"}
    json.dumps(one, allow_nan=False)


ON_TWO = {
    **PLANNED,
    "implementations": [{"name": name, "rnn": {}, "skip": None} for name in ("block", "keras")],
    "devices": [{"name": "cpu_2", "device": {"threads": 2}, "implementations": ["keras"]}],
}


def both(applied: dict | None) -> dict:
    """A certificate of `block` and `keras`, whose steps on a second device are `applied`."""
    told = {**TOLD, "implementations": {"block": FOUND, "keras": FOUND}}
    there = {"implementations": {"keras": {"applied": {"cpu_2": applied}}}} if applied else {}
    others = {"cpu_2": Outcome(events=[{**FACTS, "certificate": there}])}
    return room.assembled(ON_TWO, Outcome(events=[{**FACTS, "certificate": told}]), "", others)


def test_steps_that_apply_something_else_are_a_failure_on_that_device() -> None:
    off = {"threads": 2, "steps": 30, "off": 13, "worst": 0.873, "why": None}
    found = both(off)["implementations"]
    assert found["keras"]["applied"] == {"cpu_1": STEPS, "cpu_2": off}
    assert found["keras"]["status"] == "failed"
    assert found["keras"]["why"] == (
        "on cpu_2 it does not learn what it computes: 13 of 30 training steps applied another "
        "gradient (worst 87 %)"
    )
    # The function itself is right.
    assert found["keras"]["function_why"] is None
    assert (found["block"]["status"], found["block"]["applied"]) == ("certified", {"cpu_1": STEPS})
    json.dumps(found, allow_nan=False)


def test_steps_that_nobody_could_look_at_are_said() -> None:
    keras = both(None)["implementations"]["keras"]
    assert keras["status"] == "certified"
    assert keras["applied"]["cpu_2"]["off"] is None
    assert "without a word" in keras["applied"]["cpu_2"]["why"]


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
    own = {"implementation": "/home/me/mine.py"}
    first, second = summary(one, {"keras": own, "block": {"implementation": "block"}})
    assert first == "certificate digits_rnn-lstm-current: 1 failed, 1 not run"
    assert second.startswith("  keras failed: died in native code")
    remedy = "Fix: correct /home/me/mine.py or its YAML, as docs/own_kernel.md describes."
    assert second.endswith(f"in phase certify_keras. {remedy}")
    _, second = summary(one, {"keras": {"implementation": "keras"}})
    assert "Fix" not in second


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


PER_DEVICE = """
import json, os, sys
job = json.load(open(sys.argv[2]))
names = [one["name"] for one in job["implementations"]]
applied = {{job["device"]: dict({steps!r}, threads=job["threads"])}}
found = {{name: dict({found!r}, applied=applied) for name in names}}
if job.get("applied_only"):
    found = {{name: {{"applied": applied}} for name in names}}
event = {{"event": "facts", "t": 1.0, "certificate": {{"implementations": found}}}}
os.write(int(os.environ["RNNWORKER_EVENTS"]), (json.dumps(event) + "\\n").encode())
"""


def test_the_worker_is_asked_once_for_each_device(place: Place, monkeypatch) -> None:
    script = PER_DEVICE.format(steps=STEPS, found=FOUND)
    monkeypatch.setattr(worker, "launcher", lambda build, root: (sys.executable, "-c", script))
    found = room.certify(ON_TWO, place)["implementations"]
    assert list(found["block"]["applied"]) == ["cpu_1"]
    assert list(found["keras"]["applied"]) == ["cpu_1", "cpu_2"]
    assert found["keras"]["applied"]["cpu_1"]["threads"] == 1
    assert found["keras"]["outputs"] == FOUND["outputs"]


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
