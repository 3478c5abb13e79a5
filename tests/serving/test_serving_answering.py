"""The processes of runtimes, forked from an importer, in the Python of the tests."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy
import pytest

from rnnbench.errors import RunError
from rnnbench.prediction import measure
from rnnbench.prediction.measure import Job, Outcome, Process
from rnnbench.prediction.messages import Said
from rnnbench.records.predictions import ChosenRuntime
from rnnworker.serving import prepare
from rnnworker.workers import WORKER

# Adds one to its input.
RUNTIME = """
import os, time

FIXED_SHAPES, CODE, IMPORTS = False, "serve(HOW_MANY)", ("numbers",)


def export():
    pass


def load(folder, threads):
    def answer(arrays):
        {does}
        return [arrays[0] + 1]
    return answer
"""
CASE = numpy.zeros((1, 3), "float32")
Start = Callable[..., list[Process]]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """The processes of runtimes that do something, forked from one importer, with turns of 10 ms
    and answers within 2 s."""

    def command(job: Job, facts: Mapping[str, object], name: str) -> list[str]:
        (tmp_path / name).write_text(json.dumps(facts))
        return [sys.executable, WORKER, "--serving", str(tmp_path / name)]

    monkeypatch.setattr(measure, "_command", command)
    monkeypatch.setattr(measure, "TURN", 0.01)
    monkeypatch.setattr(measure, "LEAD", 0.001)
    monkeypatch.setattr(measure, "ANSWER_SECONDS", 2.0)
    groups = []

    def started(*does: str) -> list[Process]:
        runtimes = {}
        outcomes = []
        for number, each in enumerate(does):
            file = tmp_path / f"own{number}.py"
            file.write_text(RUNTIME.format(does=each))
            (tmp_path / file.stem / "0").mkdir(parents=True)
            runtimes[file.stem] = {"folder": file.stem}
            chosen = ChosenRuntime(name=file.stem, implementation=str(file), options={})
            outcomes.append(Outcome(chosen, imports=["numbers", "no_such"]))
        case = {"name": "batch 1", "batch": 1, "shape": 0, "is_timed": True}
        prepared = {"cases": [case], "bounds": [1e-6], "runtimes": runtimes}
        (tmp_path / "prepared.json").write_text(json.dumps(prepared))
        prepare.write_cases(tmp_path / "cases.npz", [[CASE]], [[[CASE + 1], [CASE + 1]]])
        config = {"model": {"function": "-"}, "device": {"kind": "cpu", "threads": 1}}
        job = Job(config | {"build": {"name": "x"}}, [], [1], tmp_path, tmp_path)
        groups.append(measure.Group(job, outcomes))
        for process in groups[-1].processes:
            process.start(only_timed=False)
        return groups[-1].processes

    yield started
    for group in groups:
        for process in group.processes:
            process.end()
        group.end()


def turn(process: Process) -> None:
    """A turn of the first case, which its outcome has then."""
    process.turn(number=0, cycle=0, case=0, batch=1)


def test_each_runtime_is_a_process_that_answers_as_long_as_the_others(start: Start) -> None:
    processes = start("pass", "print(os.getpid())")
    for process in processes:
        said = process.read(Said)
        assert [fact.difference for fact in said.differences] == [0.0, 0.0]
        assert said.code == "serve(1)" and (said.load_seconds or 0) > 0
    for process in (processes[1], processes[1], processes[0]):
        turn(process)
    for process, count in zip(processes, (1, 2), strict=True):
        assert [1] * count == [each.batch for each in process.outcome.turns]
        assert all(0.01 <= sum(each.calls) < 1 for each in process.outcome.turns)
        assert process.outcome.peak_bytes > 1e7


def test_a_crash_and_a_silence_leave_the_others_alone(start: Start, tmp_path: Path) -> None:
    *failing, right = start("os._exit(3)", "raise KeyError('mine')", "time.sleep(60)", "pass")
    said = []
    for process in failing:
        with pytest.raises(RunError) as error:
            process.read(Said)
        said.append(error.value.what)
    assert said == [
        "the process of own0 ended: no message",
        "the process of own1 ended: KeyError: 'mine'",
        "the process of own2 has not answered for 2.0 s",
    ]
    assert len(right.read(Said).differences) == 2
    turn(right)
    assert right.outcome.turns[0].calls


def test_a_turn_without_a_lead_has_timed_calls_only(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two calls certify; the first turn leads with one, the second turn does not."""
    count = f"open({str(tmp_path / 'count')!r}, 'a').write('x'); time.sleep(0.02)"
    (process,) = start(count)
    process.read(Said)
    turn(process)
    monkeypatch.setattr(measure, "LEAD", 0.0)
    turn(process)
    assert (tmp_path / "count").read_text() == "x" * 5


def test_a_runtime_ends_with_the_process_that_forked_it(start: Start) -> None:
    (process,) = start("pass")
    process.read(Said)
    process.group.end()
    assert process.forked is not None and process.forked.wait(10) is not None
    with pytest.raises(RunError, match="ended"):
        turn(process)


def test_a_runtime_that_has_ended_starts_again_as_another_process(start: Start) -> None:
    (process,) = start("arrays = [arrays[0] + os.getpid()]")
    first = process.read(Said)
    pid = process.forked.pid
    process.end()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    process.start(only_timed=True)
    second = process.read(Said)
    assert [fact.call for fact in first.differences] == [0, 1]
    assert [fact.call for fact in second.differences] == [0]  # once is enough
    before, _, after = [fact.difference for said in (first, second) for fact in said.differences]
    assert before != after
