"""The steps of a run in the worker, with a session that notes what is asked of it."""

from __future__ import annotations

import os
import resource
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from rnnworker import canonical_weights, frameworks, run
from rnnworker.turns import WHOLE

MEASURE = {"warmup_steps": 1, "evaluate_calls": 3, "predict_calls": 2}


class Noting:
    """Session, turns, phases and events in one: `notes` are the calls in their order."""

    validation_samples = 8

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.facts: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **fields: Any) -> Any:
            self.notes.append(name)
            return {"fit": {}, "take": WHOLE}.get(name, {})

        return call

    def fit(self, on_epoch: Any, on_start: Any, turns: Any) -> dict[str, Any]:
        on_start()
        return {}

    def emit(self, event: str, **fields: Any) -> None:
        self.facts |= fields.get("measured") or {}

    @contextmanager
    def phase(self, name: str, timed: bool = False) -> Any:
        self.notes.append(f"{name}:")
        yield {}


@pytest.fixture
def noting(monkeypatch: pytest.MonkeyPatch) -> Noting:
    session = Noting()
    monkeypatch.setattr(frameworks, "open_session", lambda config, threads: session)
    monkeypatch.setattr(canonical_weights, "initial", lambda layers, seed: {})
    monkeypatch.setattr(canonical_weights, "digest", lambda weights: "d")
    return session


def job(**changes: Any) -> dict[str, Any]:
    config = {"measure": MEASURE, "seed": 0}
    return {"config": config, "threads": 1, "dataset": None, **changes}


def test_evaluate_and_predict_wait_for_one_turn_before_their_first_call(noting: Noting) -> None:
    run._run(job(), noting, noting, noting)
    notes = noting.notes
    assert notes[notes.index("evaluate:") : notes.index("predict:")] == [
        "evaluate:", "take", *["evaluate"] * 4,
    ]  # fmt: skip
    assert notes[notes.index("predict:") :][:5] == ["predict:", "take", *["predict"] * 3]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_the_run_trains_on_its_own_cores(noting: Noting) -> None:
    every = os.sched_getaffinity(0)
    first, second, *_ = sorted(every)
    seen = {}
    noting.fit = lambda *arguments: (  # type: ignore[method-assign]
        seen.update(cores=os.sched_getaffinity(0)) or Noting.fit(noting, *arguments)
    )
    try:
        os.sched_setaffinity(0, {first, second})
        run._run(job(cores=[second], start_cores=[first, second]), noting, noting, noting)
    finally:
        os.sched_setaffinity(0, every)
    assert seen == {"cores": {second}}


def test_peak_memory_is_in_bytes(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    noting = Noting()
    noting.handshake = lambda: None  # type: ignore[method-assign]
    monkeypatch.setattr(run.events_module, "from_environment", lambda: noting)
    monkeypatch.setattr(run, "_work", lambda *arguments: None)
    monkeypatch.setattr(run, "_pin", lambda job: None)
    file = tmp_path / "job.json"
    file.write_text('{"config": {"device": {"kind": "cpu"}}}')
    assert run.main([str(file)], imported=SimpleNamespace(seconds=0.0, bytes=0)) == 0
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert noting.facts["peak_memory_bytes"] == pytest.approx(1024 * kilobytes, rel=0.01)
