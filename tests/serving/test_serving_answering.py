"""The process that forks those of runtimes, in the Python of the tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

from rnnbench.prediction.measure import START
from rnnworker.serving import prepare
from rnnworker.workers import WORKER

# Adds one to its input. What ``numbers`` is tells a process that has imported it from one that was
# forked after that.
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
Say = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def say(tmp_path: Path) -> Iterator[Say]:
    """Starts runtimes that do something, in turns of 10 ms, and returns the answers to lines."""

    def said(does: list[str], text: str) -> list[dict[str, Any]]:
        runtimes = {}
        chosen = []
        for number, each in enumerate(does):
            file = tmp_path / f"own{number}.py"
            file.write_text(RUNTIME.format(does=each))
            chosen.append({"name": file.stem, "implementation": str(file), "options": {}})
            (tmp_path / file.stem / "0").mkdir(parents=True)
            runtimes[file.stem] = {"folder": file.stem}
        case = {"name": "batch 1", "batch": 1, "shape": 0, "is_timed": True}
        prepared = {"cases": [case], "bounds": [1e-6], "runtimes": runtimes}
        (tmp_path / "prepared.json").write_text(json.dumps(prepared))
        prepare.write_cases(tmp_path / "cases.npz", [[CASE]], [[[CASE + 1], [CASE + 1]]])
        job = {"folder": str(tmp_path), "runtimes": chosen, "imports": ["numbers", "no_such"]}
        job |= {"threads": 1, "function": "-", "seconds": 2.0}
        (tmp_path / "job.json").write_text(json.dumps(job))
        command = [sys.executable, "-c", START.format(module="answering"), WORKER]
        command.append(str(tmp_path / "job.json"))
        done = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    yield said


def test_each_runtime_is_a_process_that_answers_as_long_as_the_others(say: Say) -> None:
    text = "start 0 all\nhear 0\nstart 1 all\nhear 1\n" + "turn 1 0 0.01 0.001\nhear 1\n" * 2
    first, second, *turns = say(["pass", "print(os.getpid())"], f"{text}turn 0 0 0.01 0\nhear 0\n")
    for said in (first, second):
        assert [fact["difference"] for fact in said["differences"]] == [0.0, 0.0]
        assert said["code"] == "serve(1)" and said["load_seconds"] > 0
    for turn in turns:
        assert 0.01e9 <= sum(turn["calls"]) < 1e9 and turn["peak"] > 1e7


def test_a_crash_and_a_silence_leave_the_others_alone(say: Say, tmp_path: Path) -> None:
    does = ["os._exit(3)", "raise KeyError('mine')", "time.sleep(60)", "pass"]
    text = "".join(f"start {number} all\n" for number in range(4))
    text += "".join(f"hear {number}\n" for number in range(4))
    crash, fault, silence, right = say(does, f"{text}turn 0 0 0.01 0\nhear 0\n")[:4]
    assert crash == fault == {"gone": True} and silence == {"silent": 2.0}
    assert len(right["differences"]) == 2
    assert "KeyError: 'mine'" in (tmp_path / "own1.log").read_text()


def test_a_turn_without_a_lead_has_timed_calls_only(say: Say, tmp_path: Path) -> None:
    """Two calls certify; the first turn leads with one, the second turn does not."""
    count = f"open({str(tmp_path / 'count')!r}, 'a').write('x'); time.sleep(0.02)"
    say([count], "start 0 all\nhear 0\n" + "turn 0 0 0.01 0.001\nhear 0\nturn 0 0 0.01 0\nhear 0\n")
    assert (tmp_path / "count").read_text() == "x" * 5


def test_the_runtimes_end_with_the_process_that_forked_them(say: Say, tmp_path: Path) -> None:
    does = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))"
    say([does], "start 0 all\nhear 0\n")
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_runtime_that_has_ended_starts_again_as_another_process(say: Say) -> None:
    does = "arrays = [arrays[0] + os.getpid()]"
    first, second = say([does], "start 0 all\nhear 0\nend 0\nstart 0 timed\nhear 0\n")
    assert [fact["call"] for fact in first["differences"]] == [0, 1]
    assert [fact["call"] for fact in second["differences"]] == [0]  # once is enough
    before, _, after = [
        fact["difference"] for said in (first, second) for fact in said["differences"]
    ]
    assert before != after
