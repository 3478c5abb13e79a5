"""The ways through the code that ARCHITECTURE.md describes are those of a real run."""

from __future__ import annotations

import ast
import json
import math
import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import h5py
import numpy
import pytest

from rnnbench.planning.plan import write_plan
from rnnbench.planning.planner import make_plan
from rnnbench.records.store import Place
from rnnbench.report.speed import time_section
from rnnbench.running.round import measure
from rnnweights.command import main
from tests.conftest import ROOT
from tests.factory import in_round, make_record
from tests.report.made_up import measurements
from tests.worker.building import answer, certificate_job

PAGE = (ROOT / "ARCHITECTURE.md").read_text()
MOST_FILES = 35
FUNCTION = re.compile(r"`(rnnbench|rnnworker|rnnlayers|rnnweights)\.([\w.]+)`")
SOURCES = (ROOT / "src", ROOT / "packages/rnnweights/src")


def listed(begin: str, end: str) -> list[str]:
    """The functions, as ``package.module.name``, of the list between two texts of the page."""
    text = PAGE.partition(begin)[2].partition(end)[0]
    return [f"{package}.{name}" for package, name in FUNCTION.findall(text)]


FROM_A_GRID = listed("to a cell of the page:", "From the seconds of a turn")
FROM_A_TURN = listed("From the seconds of a turn", "From `layers.LSTM(32)`")
FROM_A_LAYER = listed("From `layers.LSTM(32)`", "From an old checkpoint")
FROM_A_CHECKPOINT = listed("From an old checkpoint", "## Where something is added")


def file_of(function: str) -> tuple[Path, str]:
    """The file of a function, and its qualified name there."""
    parts = function.split(".")
    for count in range(len(parts) - 1, 0, -1):
        for source in SOURCES:
            path = source.joinpath(*parts[:count])
            for file in (path.with_suffix(".py"), path / "__init__.py"):
                if file.is_file():
                    return file, ".".join(parts[count:])
    raise AssertionError(f"{function} is in no file")


def defined_in(file: Path) -> set[str]:
    names = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            own = [each.name for each in node.body if isinstance(each, ast.FunctionDef)]
            names |= {f"{node.name}.{name}" for name in own}
    return names


def not_called(functions: list[str], called: set[tuple[str, str]]) -> list[str]:
    missing = []
    for function in functions:
        file, name = file_of(function)
        if (str(file), name) not in called:
            missing.append(function)
    return missing


@pytest.fixture
def called():
    """The file and qualified name of every function that this process calls during the test."""
    seen: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            seen.add((frame.f_code.co_filename, frame.f_code.co_qualname))

    before = sys.getprofile()
    sys.setprofile(note)
    yield seen
    sys.setprofile(before)


@pytest.mark.parametrize(
    "function", [*FROM_A_GRID, *FROM_A_TURN, *FROM_A_LAYER, *FROM_A_CHECKPOINT]
)
def test_each_function_exists(function: str) -> None:
    file, name = file_of(function)
    assert name in defined_in(file)


def test_the_ways_are_short() -> None:
    assert len({file_of(function)[0] for function in FROM_A_GRID + FROM_A_TURN}) <= MOST_FILES
    assert 5 < len(FROM_A_TURN) <= 15
    assert len({file_of(function)[0] for function in FROM_A_TURN}) <= 7
    assert len({file_of(function)[0] for function in FROM_A_LAYER}) == len(FROM_A_LAYER) == 4
    files = {file_of(function)[0] for function in FROM_A_CHECKPOINT}
    assert 5 < len(files) <= 8 and len({file.parent for file in files}) == 1


def test_from_a_grid_to_a_cell_of_the_page(tmp_path: Path, called) -> None:
    """What runs in the worker is not called in this process."""
    (tmp_path / "experiment").mkdir()
    grid = "rnn=fake_fast,fake_slow build=fake device=cpu_1 model=fake model.epochs=1"
    (tmp_path / "experiment/mine.yaml").write_text(f"title: Mine\ngrids: ['{grid}']\n")
    plan = make_plan("mine", [ROOT / "conf", ROOT / "tests/conf", tmp_path], ROOT)
    results = tmp_path / "results"
    write_plan(plan, results)
    place = Place(ROOT, results, "here", "mine", tmp_path / "timing.lock")
    records = list(measure(list(plan.runs.values()), place, label="[1/1]").values())
    time_section(measurements(records))
    in_worker = [name for name in FROM_A_GRID if name.startswith("rnnworker.")]
    in_worker.remove("rnnworker.workers.job_of")
    in_worker.remove("rnnworker.measuring.Measuring.complete")
    in_worker.remove("rnnworker.rounds.supervise")
    assert not_called(FROM_A_GRID, called) == in_worker


def test_from_the_seconds_of_a_turn_to_a_ratio(called) -> None:
    records = []
    for repeat in range(3):
        pair = [make_record(rnn=rnn, repeat=repeat) for rnn in ("keras", "block")]
        records += in_round(pair, [math.log(1.48), 0.0], number=repeat)
    row = time_section(measurements(records)).views[0].rows[0]
    assert (row.head, row.cells[0]) == ("block", "1.48×")
    assert not_called(FROM_A_TURN, called) == []


# Builds the model of a job with `block` and calls it; prints what was called.
MODEL = """
from keras import Sequential, layers


def build():
    return Sequential([layers.Input((3, 2)), layers.LSTM(32), layers.Dense(1)])
"""
BUILT = """
import json, sys
from rnnworker import frameworks

session = frameworks.open_session(json.loads(sys.argv[1]), 1)
called = set()
sys.setprofile(lambda frame, event, _: called.add(
    (frame.f_code.co_filename, frame.f_code.co_qualname)
))
session.build()
import numpy
session.model(numpy.zeros((2, 3, 2), "float32"))
sys.setprofile(None)
print(json.dumps([each for each in called if "/rnn" in each[0]]))
"""


def test_from_a_layer_to_its_kernel(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MODEL)
    rnn = {"block": {"implementation": "block", "name": "block"}}
    config = certificate_job("keras3_tensorflow", "of_model", rnn)["config"]
    model = {"function": f"{tmp_path}/mine.py:build", "loss": "mse", "optimizer": {"name": "sgd"}}
    config |= {"model": {**model, "batch": 2, "data": {}}, "rnn": rnn["block"]}
    found = answer(sys.executable, BUILT, json.dumps(config))
    assert not_called(FROM_A_LAYER, {(file, name) for file, name in found}) == []


def test_from_an_old_checkpoint_to_a_new_one(tmp_path: Path, called) -> None:
    """A whole model of Keras 2 with a CuDNN layer. Beside the files of the walk, it calls functions
    of two more: the checks of arrays, and the tree of the configuration."""
    layer = {"class_name": "CuDNNLSTM", "config": {"name": "lstm", "units": 2}}
    model = {"class_name": "Sequential", "config": {"name": "m", "layers": [layer]}}
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.attrs["model_config"] = json.dumps(model)
        weights = file.create_group("model_weights")
        weights.attrs["layer_names"] = [b"lstm"]
        shapes = {"kernel": (3, 8), "recurrent_kernel": (2, 8), "bias": (16,)}
        names = [f"lstm/{part}:0" for part in shapes]
        weights.create_group("lstm").attrs["weight_names"] = [name.encode() for name in names]
        for name, shape in zip(names, shapes.values(), strict=True):
            weights["lstm"][name] = numpy.ones(shape, "f4")
    assert main([str(tmp_path / "x.h5"), "--to", "keras", "-o", str(tmp_path / "y.h5")]) == 0
    assert not_called(FROM_A_CHECKPOINT, called) == []
    package = ROOT / "packages/rnnweights"
    files = set()
    for name, function in list(called):
        file = Path(name)
        # Not what an import executes.
        if file.is_relative_to(package) and function in defined_in(file):
            files.add(file)
    walked = {file_of(function)[0] for function in FROM_A_CHECKPOINT}
    assert {file.stem for file in files - walked} == {"checkpoint", "layer_tree"}
