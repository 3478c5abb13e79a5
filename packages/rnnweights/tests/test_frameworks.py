"""Questions to the Python of a framework, answered by a stand-in for the script."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rnnweights import frameworks
from rnnweights.checkpoint import Refusal

STAND_IN = """
import json, os, sys
folder = sys.argv[1]
with open(folder + "/job.json") as file:
    job = json.load(file)
if job["action"] == "refuse":
    answer = {"error": "has no such layer", "remedy": "name another one."}
elif job["action"] == "lack":
    answer = {"error": "has no torch.", "remedy": None}
elif job["action"] == "stop":
    sys.exit("first line\\nlast words" if job["question"]["loudly"] else 3)
else:
    names = ("HERE", "CUDA_VISIBLE_DEVICES")
    answer = {"job": job, "folder": os.getcwd(), "path": sys.path[:1]}
    answer["variables"] = {name: os.environ[name] for name in names}
if os.path.exists("question.npz"):
    os.rename("question.npz", "answer.npz")
with open("answer.json", "w") as file:
    json.dump(answer, file)
"""


PYTHON = frameworks.Python([sys.executable], dict(os.environ, HERE="1"), "the old Python", "--old")


@pytest.fixture(autouse=True)
def _script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "in_framework.py"
    script.write_text(STAND_IN)
    monkeypatch.setattr(frameworks, "SCRIPT", script)


def ask(action: str, **question: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    return frameworks.ask(PYTHON, action, **question)


def test_the_question_and_the_environment_arrive() -> None:
    answer, arrays = ask("look", file="a.h5", layer=None)
    assert answer["job"] == {"action": "look", "question": {"file": "a.h5", "layer": None}}
    assert answer["variables"] == {"HERE": "1", "CUDA_VISIBLE_DEVICES": "-1"}
    assert arrays == {} and not Path(answer["folder"]).exists()
    assert answer["path"] == [""]  # not the folder of the script


def test_arrays_are_given_and_returned() -> None:
    given = {"a/kernel": np.arange(6.0).reshape(2, 3), "b": np.array(7)}
    _, arrays = ask("look", arrays=given)
    assert set(arrays) == set(given)
    for name, array in given.items():
        np.testing.assert_array_equal(arrays[name], array)
    assert ask("look", arrays={})[1] == {}


def test_an_error_has_the_words_of_the_script() -> None:
    with pytest.raises(Refusal) as caught:
        ask("refuse")
    assert caught.value.what == "the old Python has no such layer"
    assert caught.value.remedy == "name another one."
    with pytest.raises(Refusal) as caught:
        ask("lack")
    assert caught.value.remedy == "name one that has it with --old."


@pytest.mark.parametrize(
    ("loudly", "told"), [(True, "ended with 1: last words."), (False, "ended with 3: no message.")]
)
def test_a_python_that_ends_without_an_answer_is_named(loudly: bool, told: str) -> None:
    with pytest.raises(Refusal) as caught:
        ask("stop", loudly=loudly)
    assert caught.value.what.endswith(told) and "python" in caught.value.what
    assert "runpy" not in caught.value.what and "--old" in caught.value.remedy


def test_a_python_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frameworks, "SECONDS", 0.01)
    with pytest.raises(Refusal, match=r"python.* has not answered within 0.01 s"):
        ask("look")
