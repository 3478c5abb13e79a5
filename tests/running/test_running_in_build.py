"""Questions about checkpoints to the Python of a build, answered by a stand-in for the worker."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rnnlayers
import rnnworker
from rnnbench.errors import BuildError
from rnnbench.running import in_build
from tests.conftest import ROOT

STAND_IN = """
import json, os, sys
def main(folder):
    with open(folder + "/job.json") as file:
        job = json.load(file)
    if job["action"] == "refuse":
        answer = {"error": "no such layer", "remedy": "name another one."}
    elif job["action"] == "stop":
        sys.exit("first line\\nlast words" if job["question"]["loudly"] else 3)
    else:
        names = ("KERAS_BACKEND", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS")
        answer = {"job": job, "folder": os.getcwd(), "path": sys.path[:1]}
        answer["variables"] = {name: os.environ[name] for name in names}
    if os.path.exists("question.npz"):
        os.rename("question.npz", "answer.npz")
    with open("answer.json", "w") as file:
        json.dump(answer, file)
"""


@pytest.fixture(autouse=True)
def _worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = tmp_path / "rnnworker"
    worker.mkdir()
    for name in ("__init__.py", "__main__.py"):
        shutil.copy(Path(rnnworker.__file__).with_name(name), worker)
    shutil.copytree(Path(rnnlayers.__file__).parent, tmp_path / "rnnlayers")
    (worker / "checkpoints.py").write_text(STAND_IN)
    monkeypatch.setattr(in_build, "WORKER", str(worker))


def ask(action: str, **question: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    return in_build.ask(action, root=ROOT, **question)


@pytest.mark.parametrize(
    ("framework", "backend"),
    [("keras3_tensorflow", "tensorflow"), ("keras3_torch", "torch"), ("keras3_jax", "jax")],
)
def test_the_backend_is_that_of_the_build(framework: str, backend: str) -> None:
    build = {"name": "mine", "framework": framework}
    answer, arrays = ask("look", build=build, file="a.h5", layer=None)
    assert answer["job"] == {"action": "look", "question": {"file": "a.h5", "layer": None}}
    assert answer["variables"] == {
        "KERAS_BACKEND": backend, "CUDA_VISIBLE_DEVICES": "-1", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    assert arrays == {} and not Path(answer["folder"]).exists()


def test_arrays_are_given_and_returned() -> None:
    given = {"a/kernel": np.arange(6.0).reshape(2, 3), "b": np.array(7)}
    answer, arrays = ask("look", arrays=given)
    assert set(arrays) == set(given) and answer["variables"]["KERAS_BACKEND"] == "tensorflow"
    for name, array in given.items():
        np.testing.assert_array_equal(arrays[name], array)
    assert ask("look", arrays={})[1] == {}


def test_an_error_has_the_words_of_the_worker() -> None:
    with pytest.raises(BuildError) as caught:
        ask("refuse")
    error = caught.value
    assert (error.what, error.where) == ("no such layer", "build current")
    assert error.remedy == "name another one."


@pytest.mark.parametrize(
    ("loudly", "told"), [(True, "ended with 1: last words."), (False, "ended with 3: no message.")]
)
def test_a_python_that_ends_without_an_answer_is_named(loudly: bool, told: str) -> None:
    with pytest.raises(BuildError) as caught:
        ask("stop", loudly=loudly)
    assert caught.value.what.endswith(told) and "python" in caught.value.what
    assert STAND_IN.strip()[:20] not in caught.value.what and "runpy" not in caught.value.what
    assert caught.value.where == "--build"
