"""The facts about a run's start: the kernel, and the weights right before training."""

from __future__ import annotations

import json

import numpy
import pytest

from rnnbench.running import assemble, verdict
from rnnworker import frameworks, run
from rnnworker.events import Events
from rnnworker.frameworks.keras_session import KerasSession
from rnnworker.phases import Phases
from rnnworker.turns import Turns

KERNEL = {"found": ["while"], "expected": ["while"], "why_not_cudnn": ["the device is a CPU"]}


class Session:
    """A model of one weight matrix. With `warm` it is not reset after the warm-up."""

    warm = False
    validation_samples = 1

    def __init__(self, config, threads):
        self.order: list[str] = []

    def environment(self):
        return {}

    device_facts = model_facts = build = environment

    def load_data(self, *arguments):
        return {}

    def layers(self):
        return [{"name": "d", "kind": "other", "shapes": [("kernel", [2, 2])]}]

    def load_weights(self, weights):
        self.weights = [{"kernel": weights[0]["kernel"].copy()}]
        self.first = self.weights[0]["kernel"].copy()

    def dump_weights(self):
        return self.weights

    def train_steps(self, steps):
        self.weights[0]["kernel"] += numpy.float32(0.1)

    def attest(self):
        self.train_steps(1)
        return KERNEL

    def reset(self):
        if not self.warm:
            self.weights[0]["kernel"][:] = self.first

    def warm_up(self, steps, seconds):
        self.train_steps(steps)
        return steps

    def fit(self, on_epoch, on_start, turns):
        self.train_steps(1)
        self.reset()
        on_start()
        on_epoch({"epoch": 1, "start": 0.0, "seconds": 1.0, "samples": 1, "steps": 1, "loss": 1.0})
        return {}

    def evaluate(self):
        return {}

    predict = evaluate


class Warm(Session):
    warm = True


CONFIG = {"seed": 0, "measure": {"warmup_steps": 2, "evaluate_calls": 0, "predict_calls": 0}}


def measured(monkeypatch, tmp_path, session: type) -> tuple[list[dict], dict]:
    monkeypatch.setattr(frameworks, "open_session", session)
    with (tmp_path / "events").open("wb") as file:
        events = Events(file.fileno())
        turns = Turns(events)
        job = {"config": CONFIG, "threads": 1, "dataset": None}
        run._run(job, events, Phases(events, turns), turns)
    lines = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    return lines, assemble.facts_of(lines, "measured")


def test_the_kernel_is_attested_after_the_first_step_and_outside_the_timed_phases(
    monkeypatch, tmp_path
) -> None:
    events, facts = measured(monkeypatch, tmp_path, Session)
    assert facts["kernel"] == KERNEL
    phases = [(e["phase"], e["timed"]) for e in events if e["event"] == "phase_begin"]
    names = [name for name, _ in phases]
    assert names[3:6] == ["first_step", "attest", "warmup"]
    assert ("attest", False) in phases


@pytest.mark.parametrize(("session", "codes"), [(Session, []), (Warm, ["warm_start"])])
def test_a_warm_started_run_is_void(monkeypatch, tmp_path, session: type, codes: list) -> None:
    events, facts = measured(monkeypatch, tmp_path, session)
    judged = verdict.judge(assemble.phases_of(events), assemble.epochs_of(events), facts)
    warm_start = [reason.code for reason in judged.reasons if reason.code == "warm_start"]
    assert warm_start == codes
    assert (judged.status == "void") is bool(codes)


class Clocked(KerasSession):
    """A session whose calls advance a simulated clock by known times."""

    def __init__(self, step: float, resets_dropout: bool = True) -> None:
        super().__init__({"device": {}}, 1)
        self.step, self.resets_dropout, self.now = step, resets_dropout, 0.0
        self.called: list[str] = []

    def train_steps(self, steps):
        self.now += 0.05 + steps * self.step  # each fit has a constant overhead
        self.called.append("train")

    def evaluate(self, samples=None):
        self.now += 0.01
        self.called.append("evaluate")

    def predict(self):
        self.now += 0.01
        self.called.append("predict")


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
