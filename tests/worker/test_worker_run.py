"""The steps of a run in the worker, with a session that notes what is asked of it: its order, its
cores, its turns, the kernel, and the weights right before training."""

from __future__ import annotations

import json
import os
import resource
from types import SimpleNamespace
from typing import Any

import numpy
import pytest

from rnnbench.running import assemble, verdict
from rnnworker import frameworks, run
from rnnworker.events import Events
from rnnworker.frameworks import fake
from rnnworker.frameworks.keras_session import KerasSession
from rnnworker.turns import Phases, Turns
from tests.factory import measured_of

KERNEL = {"found": ["while"], "expected": ["while"], "why_not_cudnn": ["the device is a CPU"]}
CONFIG = {
    "measure": {"warmup_steps": 2, "evaluate_calls": 3, "predict_calls": 2},
    "model": {"epochs": 1, "batch": 10},
    "rnn": {"fake": {"epoch_seconds": 0.0}},
    "seed": 0,
    "repeat": 0,
}


class Session(fake.Session):
    """A model of one weight matrix. With `warm` it is not reset after the warm-up."""

    def __init__(self, warm: bool) -> None:
        super().__init__(CONFIG, 1)
        self.warm = warm
        self.notes: list[str] = []
        self.weights = [{"kernel": numpy.ones((2, 2), numpy.float32)}]

    def layers(self) -> list[dict]:
        initializers = {"kernel": ("GlorotUniform", {})}
        shapes = [("kernel", [2, 2])]
        return [{"name": "d", "kind": "other", "shapes": shapes, "initializers": initializers}]

    def load_weights(self, weights: list) -> None:
        self.weights = [{"kernel": weights[0]["kernel"].copy()}]
        self.first = self.weights[0]["kernel"].copy()

    def dump_weights(self) -> list:
        return self.weights

    def train_steps(self, steps: int) -> None:
        self.weights[0]["kernel"] += numpy.float32(0.1)

    def attest(self) -> dict:
        self.train_steps(1)
        return KERNEL

    def fit(self, *arguments: Any) -> dict:
        self.cores = os.sched_getaffinity(0)
        if not self.warm:
            self.weights[0]["kernel"][:] = self.first
        return super().fit(*arguments)

    def evaluate(self) -> dict:
        self.notes.append("evaluate")
        return super().evaluate()

    def predict(self) -> dict:
        self.notes.append("predict")
        return super().predict()


@pytest.fixture
def execute(monkeypatch: pytest.MonkeyPatch, tmp_path):
    """Executes a job; returns its session and its events."""

    def executed(warm: bool = False, **job: Any) -> tuple[Session, list[dict]]:
        session = Session(warm)
        monkeypatch.setattr(frameworks, "open_session", lambda config, threads: session)
        with (tmp_path / "events").open("wb") as file:
            events = Events(file.fileno())
            turns = Turns(events)
            take = turns.take
            turns.take = lambda **fields: (session.notes.append("take"), take(**fields))[1]
            job = {"config": CONFIG, "threads": 1, "dataset": None, **job}
            run._run(job, events, Phases(events, turns), turns)
        lines = (tmp_path / "events").read_text().splitlines()
        return session, [json.loads(line) for line in lines]

    return executed


def test_the_order_of_a_run(execute) -> None:
    """The kernel is attested after the first step and outside the timed phases. Evaluation and
    prediction wait for one turn before their first call."""
    session, events = execute()
    assert assemble.facts_of(events, "measured")["kernel"] == KERNEL
    phases = [(e["phase"], e["timed"]) for e in events if e["event"] == "phase_begin"]
    assert [name for name, _ in phases][3:6] == ["first_step", "attest", "warmup"]
    assert ("attest", False) in phases
    training, *later = session.notes
    assert training == "take"
    assert later == ["take", *["evaluate"] * 4, "take", *["predict"] * 3]


@pytest.mark.parametrize(("warm", "codes"), [(False, []), (True, ["warm_start"])])
def test_a_warm_started_run_is_void(execute, warm: bool, codes: list) -> None:
    _, events = execute(warm)
    facts = assemble.facts_of(events, "measured")
    judged = verdict.judge(
        assemble.phases_of(events), assemble.epochs_of(events), measured_of(facts)
    )
    assert [r.code for r in judged.reasons if r.code == "warm_start"] == codes
    assert (judged.status == "void") is bool(codes)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_the_run_trains_on_its_own_cores(execute) -> None:
    every = os.sched_getaffinity(0)
    first, second, *_ = sorted(every)
    try:
        os.sched_setaffinity(0, {first, second})
        session, _ = execute(cores=[second], start_cores=[first, second])
    finally:
        os.sched_setaffinity(0, every)
    assert session.cores == {second}


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_peak_memory_is_in_bytes_and_random_reads_are_timed_on_a_cpu_only(
    tmp_path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    facts: dict[str, Any] = {}
    events = SimpleNamespace(
        emit=lambda event, **fields: facts.update(fields.get("measured") or {}),
        handshake=lambda: None,
    )
    timed: list[str] = []
    monkeypatch.setattr(run.events_module, "from_environment", lambda: events)
    monkeypatch.setattr(run, "Turns", lambda events, card, **reads: timed.extend(reads))
    monkeypatch.setattr(run, "_run", lambda *arguments: None)
    file = tmp_path / "job.json"
    file.write_text(json.dumps({"config": {"device": {"kind": kind}}}))
    assert run.main([str(file)], imported=SimpleNamespace(seconds=0.0, bytes=0)) == 0
    assert timed == (["reads"] if kind == "cpu" else [])
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert facts["peak_memory_bytes"] == pytest.approx(1024 * kilobytes, rel=0.01)


class Clocked(KerasSession):
    """A session whose calls advance a simulated clock by known times."""

    def __init__(self, step: float, resets_dropout: bool = True) -> None:
        super().__init__({"device": {}}, 1)
        self.step, self.resets_dropout, self.now = step, resets_dropout, 0.0
        self.called: list[str] = []

    def train_steps(self, steps):
        self.advance("train", 0.05 + steps * self.step)  # each fit has a constant overhead

    def evaluate(self):
        self.advance("evaluate", 0.01)

    def predict(self):
        self.advance("predict", 0.01)

    def advance(self, called: str, seconds: float) -> None:
        self.called.append(called)
        self.now += seconds


@pytest.mark.parametrize(
    ("step", "resets_dropout", "steps", "least", "most"),
    [
        (0.002, True, 20, 60, 250),  # 20 steps take 0.04 s
        (0.002, False, 20, 20, 20),  # more training would draw masks: only validation continues
        (1.0, True, 20, 20, 20),  # 20 s exceed the minimum
        (0.002, True, 0, 0, 0),
    ],
)
def test_warm_up_has_a_minimum_duration_too(
    monkeypatch, step: float, resets_dropout: bool, steps: int, least: int, most: int
) -> None:
    session = Clocked(step, resets_dropout)
    monkeypatch.setattr("rnnworker.frameworks.keras_training.time.monotonic", lambda: session.now)
    assert least <= session.warm_up(steps, 0.5) <= most
    assert 0.5 <= session.now < max(1.0, 0.2 + steps * step)
    assert session.called[: 3 if steps else 2] == [*["train"] * bool(steps), "evaluate", "predict"]
