"""The supervisor of runtimes, with processes that are scripts of this test."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rnnbench.errors import RunError
from rnnbench.prediction import measure, results
from rnnbench.prediction.measure import Job, Outcome
from rnnbench.prediction.messages import Case
from tests.serving.test_serving_results import runtime_named as named

FACT = {"case": "batch 1", "call": 0, "difference": 1e-7, "bound": 1e-5}
RIGHT = {"differences": [FACT], "load_seconds": 0.5}
WRONG = {"differences": [FACT | {"difference": 1.0}], "load_seconds": 0.5}
HANGS = object()
# A process that says its argument first, and then answers each turn with calls of 1 and 3 ms.
SCRIPT = """
import json, os, sys
lines = os.fdopen(int(sys.argv[2]), "w")
lines.write(sys.argv[1])
lines.flush()
cpu = 0.0
for line in sys.stdin:
    with open("asked", "a") as file:
        file.write(line)
    slept = cpu + 0.25
    cpu += 0.5
    facts = {"calls": [1000000, 3000000], "cpu": 0.004, "threads": 1, "slept": slept}
    lines.write(json.dumps(facts | {"peak": 7, "ended": cpu}) + "\\n")
    lines.flush()
"""
GONE, SILENT = object(), object()
CASES = [
    Case("batch 1", 1, is_timed=True),
    Case("longer", 2, is_timed=False),
]


class Said(dict):
    """Runtime → what its processes say first, one after the other; None: the process that forks it
    crashes; HANGS: that one does not end its imports."""


@pytest.fixture
def said() -> Said:
    return Said()


@pytest.fixture
def job(said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:

    def fork(group: measure.Group, outcome: Outcome, only_timed: bool, events: int) -> Any:
        first = said[outcome.runtime].pop(0)
        if first in (None, HANGS):
            does = "raise SystemExit('out of luck')" if first is None else "time.sleep(60)"
            command = [sys.executable, "-c", f"import time; {does}", "-"]
            monkeypatch.setattr(measure, "_command", lambda *_: command)
            return real_fork(group, outcome, only_timed, events)
        script, text = SCRIPT, ""
        if first is GONE:
            script = "pass"
        elif first is not SILENT:
            text = json.dumps(first) + "\n"
        process = subprocess.Popen(
            [sys.executable, "-c", script, text, str(events)],
            stdin=subprocess.PIPE,
            pass_fds=(events,),
            start_new_session=True,
            cwd=group.job.folder,
        )
        return SimpleNamespace(
            stdin=process.stdin,
            pid=process.pid,
            wait=process.wait,
            ended=os.open(os.devnull, os.O_RDONLY),
        )

    real_fork = measure.Group.fork
    monkeypatch.setattr(measure.Group, "fork", fork)
    config = {
        "model": {"function": "m.py:f"},
        "device": {"kind": "cpu", "threads": 1},
        "build": {"name": "x"},
    }
    return Job(config, [named("a"), named("b")], [1], tmp_path, tmp_path, 1, 3)


def timed(job: Job, number: int, outcomes: list[Outcome]) -> list[str]:
    """The names of the runtimes that have turns in a round."""
    groups = [measure.Group(job, together) for together in measure._by_imports(outcomes)]
    processes = [process for group in groups for process in group.processes]
    order = random.Random(0)
    try:
        found = measure._round(job, number, processes, CASES, order, lambda text: None)
    finally:
        for group in groups:
            group.end()
    return [process.outcome.runtime for process in found]


def test_a_crash_and_a_wrong_answer_are_not_timed(job: Job, said: Said) -> None:
    said.update(a=[None], b=[WRONG], c=[{"refused": "layer x"}], d=[RIGHT], e=[GONE], f=[RIGHT])
    (job.folder / "e.log").write_text("Segmentation fault\n")
    outcomes = [Outcome(named("a"), imports=["tensorflow"])]
    outcomes += [Outcome(named(name)) for name in "bcd"]
    outcomes += [Outcome(named(name), imports=["torch"]) for name in "ef"]
    assert timed(job, 0, outcomes) == ["d", "f"]
    assert [outcome.refused for outcome in outcomes] == [
        "the process of a ended: out of luck",
        None,
        "layer x",
        None,
        "the process of e ended: Segmentation fault",
        None,
    ]
    assert [each.difference for each in outcomes[1].unequal] == [1.0]
    assert [len(outcome.turns) for outcome in outcomes] == [0, 0, 0, 3, 0, 3]


def test_a_number_that_json_does_not_have_refuses_one_runtime(job: Job, said: Said) -> None:
    said.update(a=[RIGHT | {"validation": math.nan}], b=[RIGHT])
    outcomes = [Outcome(named("a")), Outcome(named("b"))]
    assert timed(job, 0, outcomes) == ["b"]
    assert str(outcomes[0].refused).startswith("its process wrote what cannot be read: JSON is")


def test_everyone_has_a_turn_in_each_cycle(job: Job, said: Said) -> None:
    said.update(a=[RIGHT], b=[RIGHT], c=[RIGHT])
    shared = [Outcome(named("b"), imports=["torch"]), Outcome(named("c"), imports=["torch"])]
    outcomes = [Outcome(named("a")), *shared]
    assert timed(job, 4, outcomes) == ["a", "b", "c"]
    for outcome in outcomes:
        assert [(turn.round, turn.cycle, turn.batch) for turn in outcome.turns] == [
            (4, 0, 1),
            (4, 1, 1),
            (4, 2, 1),
        ]
        assert outcome.turns[0].calls == [0.001, 0.003]
        # What a process used between two turns; nothing is known before the first one.
        assert [turn.slept for turn in outcome.turns] == [0.0, 0.25, 0.25]
        assert outcome.peak_bytes == 7


def test_another_process_with_other_answers_stops_the_measurement(job: Job, said: Said) -> None:
    said.update(a=[RIGHT], b=[WRONG])
    with pytest.raises(RunError, match="another process gave other answers"):
        timed(job, 1, [Outcome(named("a")), Outcome(named("b"))])


def test_a_runtime_that_hangs_is_refused_by_name(
    job: Job, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    said.update(a=[HANGS], b=[SILENT])
    outcomes = [Outcome(named("b")), Outcome(named("a"), imports=["torch"])]
    monkeypatch.setattr(measure, "ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(measure, "IMPORT_SECONDS", 0.2)
    assert timed(job, 0, outcomes) == []
    assert [outcome.refused for outcome in outcomes] == [
        "the process of b has not answered for 0.2 s",
        "the process of a has not answered for 0.2 s",
    ]


def test_a_preparation_that_hangs_says_for_which_runtime(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "import time; print('exports for openvino', flush=True); time.sleep(60)"
    monkeypatch.setattr(measure, "_command", lambda *_: [sys.executable, "-c", script])
    monkeypatch.setattr(measure, "PREPARE_SECONDS", 1)
    with pytest.raises(RunError, match="in 1 s: exports for openvino"):
        measure._prepared(job, lambda text: None)


def test_long_calls_have_no_lead_once_that_is_known(
    job: Job, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    said.update(a=[RIGHT])
    monkeypatch.setattr(measure, "NO_LEAD", 0.0005)  # its calls take 1 ms at least
    assert timed(job, 0, [Outcome(named("a"))]) == ["a"]
    asked = (job.folder / "asked").read_text().splitlines()
    leads = [float(line.split()[-1]) for line in asked]
    assert leads == [measure.LEAD, 0.0, 0.0]


def test_long_calls_have_one_turn_in_a_round_but_not_the_reference_s(
    job: Job, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    said.update(a=[RIGHT], b=[RIGHT], c=[RIGHT])
    monkeypatch.setattr(measure, "LONG", 0.0005)  # all calls take 1 ms at least
    outcomes = [Outcome(named(name)) for name in "abc"]
    assert timed(job, 1, outcomes) == ["a", "b", "c"]
    assert [len(outcome.turns) for outcome in outcomes] == [3, 1, 1]
    for one, other in ((1, 0), (0, 1)):
        by_round = results.ratios(outcomes[one].turns, outcomes[other].turns, 1)
        assert by_round == [pytest.approx(1.0)]
