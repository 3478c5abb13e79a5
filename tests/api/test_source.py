"""A function becomes a file, or what it needs and cannot be found is named."""

from __future__ import annotations

import importlib.util
import linecache
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy
import pytest

import rnnbench
from rnnbench.api import calls
from rnnbench.api.arrays import file_of_data
from rnnbench.api.source import file_of_function
from rnnbench.errors import ConfigError

Cell = Callable[[str], dict[str, Any]]


@pytest.fixture
def run_cell() -> Cell:
    """Runs a text as a cell of a notebook, whose source `inspect` finds, and returns its names."""

    def run(text: str, number: int = 0) -> dict[str, Any]:
        name = f"<cell {number} {hash(text)}>"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        names: dict[str, Any] = {"__name__": "notebook_of_a_test"}
        exec(compile(text, name, "exec"), names)
        return names

    return run


CELL = """
import math as m
from collections import OrderedDict
import os.path
UNITS = 32
SIZES = {"in": (3, 4)}

class Part:
    size = UNITS

    def method(self):
        return self.size

def helper(x):
    return m.sqrt(x) + Part.size

def build(keras=None, *, n=SIZES["in"][0]):
    inner = [helper(each) for each in range(n)]
    return OrderedDict(inner=inner, folder=os.path.sep)
"""


def test_the_source_is_taken_with_what_it_needs(run_cell: Cell, tmp_path: Path) -> None:
    build = run_cell(CELL)["build"]
    written = file_of_function(build, tmp_path)
    path, name = written.rsplit(":", 1)
    alone: dict[str, Any] = {}
    exec(Path(path).read_text(), alone)
    assert alone[name]() == build()
    assert file_of_function(build, tmp_path) == written, "equal sources are one file"
    other = run_cell(CELL.replace("32", "33"))["build"]
    assert file_of_function(other, tmp_path) != written


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("def build():\n    return np.ones(3)", "build uses np, which is not defined. Fix: define"),
        ("def build():\n    return f()\ndef f():\n    return g", "f uses g, which is not defined"),
        ("build = lambda: 1", "is not a function that `def` made"),
        ("class build:\n    pass", "is not a function that `def` made"),
        (
            "import io\nstream = io.StringIO()\ndef build():\n    return stream.read()",
            "uses stream, which is StringIO .* Fix: make stream inside build, or write it to",
        ),
        (
            "def f(n):\n    def build():\n        return n\n    return build\nbuild = f(1)",
            "build uses n, which is a variable of the function around it",
        ),
    ],
)
def test_what_cannot_be_taken_is_named(
    run_cell: Cell, tmp_path: Path, text: str, fault: str
) -> None:
    with pytest.raises(ConfigError, match=fault):
        file_of_function(run_cell(text)["build"], tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_function_without_a_source_is_refused(tmp_path: Path) -> None:
    names: dict[str, Any] = {"__name__": "typed"}
    exec("def build():\n    return 1", names)
    with pytest.raises(ConfigError, match=r'source of build cannot be found.*"mine.py:build"'):
        file_of_function(names["build"], tmp_path)


def test_a_function_of_a_file_is_named_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def build():\n    return 1\ndef other():\n    return build\n")
    spec = importlib.util.spec_from_file_location("mine_of_a_test", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "mine_of_a_test", module)
    spec.loader.exec_module(module)
    assert file_of_function(module.build, tmp_path) == f"{file}:build"
    monkeypatch.chdir(tmp_path)
    assert file_of_function("mine.py:build", tmp_path) == f"{file}:build"
    assert file_of_function(Path("mine.keras"), tmp_path) == f"{tmp_path}/mine.keras"


def test_arrays_are_written_once(tmp_path: Path) -> None:
    x = numpy.arange(40, dtype="float32").reshape(10, 2, 2)
    y = list(range(10))
    path = file_of_data((x, y), tmp_path)
    assert path
    with numpy.load(path) as arrays:
        assert {name: len(arrays[name]) for name in arrays.files} == {
            "x_train": 8, "y_train": 8, "x_val": 2, "y_val": 2
        }  # fmt: skip
        assert arrays["y_val"].tolist() == [8, 9] and arrays["x_train"].dtype == "float32"
    split = ((x[:8], y[:8]), (x[8:], y[8:]))
    named = {"x_train": x[:8], "y_train": y[:8], "x_val": x[8:], "y_val": y[8:]}
    assert file_of_data(split, tmp_path) == file_of_data(named, tmp_path) == path
    assert file_of_data((x + 1, y), tmp_path) != path
    assert file_of_data("/a/b.npz", tmp_path) == "/a/b.npz"


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (3, "int is no data. Fix: give the path of an .npz file"),
        (([1] * 9, [1] * 8), "x has 9 samples, but y has 8"),
        (([1], [1]), "too few to keep some for validation"),
        (((1, 2, 3), (1, 2)), "have not two arrays each"),
        ({"x_train": numpy.array([[1], [1, 2]], object)}, "x_train is not an array of numbers"),
        (([[1], [1, 2]], [1, 2]), "x is not an array of numbers. Fix: pad sequences"),
        ((3, 4), "x is not an array of numbers"),
        ({"x_train": {"a": numpy.ones((5, 2))}}, "Several inputs are x_train.NAME in the dict"),
        (None, "NoneType is no data"),
    ],
)
def test_other_data_are_refused(tmp_path: Path, data: Any, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        file_of_data(data, tmp_path)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"budget": "60"}, "budget is '60'; it must be a number"),
        ({"budget": float("inf")}, "budget is inf; it must be a number"),
        ({"budget": 0}, "budget is 0; it must be a number > 0"),
        ({"loss": max}, "loss is .*; it must be a string or null"),
        ({"overrides": [3]}, "it must be a string"),
        (
            {"overrides": "rnn=unrolled", "data": (numpy.ones((9, 3, 2)), numpy.ones(9))},
            "rnn=unrolled and the arguments, which say rnn=keras",
        ),
        ({}, "mine.py:build needs data"),
        ({"overrides": "dataset=no.yaml"}, "dataset=/.*/kept/no.yaml: no such file"),
        (
            {"overrides": "dataset={a: [x.py:f,no.yaml]}"},
            r"\['x.py:f', 'no.yaml'\]\} is not a choice",
        ),
        (
            {
                "implementations": ("keras", "~/no.yaml"),
                "data": (numpy.ones((9, 3)), numpy.ones(9)),
            },
            f"rnn={Path.home()}/no.yaml: no such file",
        ),
        (
            {"loss": "~/no.py:loss", "data": (numpy.ones((9, 3)), numpy.ones(9))},
            f"command line: {Path.home()}/no.py: {Path.home()}/no.py does not exist",
        ),
        ({"implementations": "keras"}, "it must be a list of length ≥ 2.* Fix: .*two or more"),
        ({"implementations": None}, "rnnbench.compare: implementations is None; it must be a list"),
        ({"implementations": {"keras", "block"}}, "implementations is .{.*}.; it must be a list"),
        ({"implementations": ("keras", 3)}, "implementations has the value 3; it must be a string"),
        ({"overrides": None}, "overrides is None; it must be a list"),
        ({"overrides": {"units": 3}}, "overrides is {.*}; it must be a list"),
        ({"implementations": ("keras", "keras")}, "keras cannot be compared with keras"),
        ({"project": ""}, "'': cannot be written"),
        ({"project": 3}, "3: cannot be written: expected str"),
        ({"budget": numpy.float64(60), "implementations": numpy.array(["keras", "block"])}, "data"),
        ({"optimizer": ""}, "optimizer is ''; it must be a string. Fix: .*not an empty one"),
        ({"project": "/proc/x"}, "/proc/x: cannot be written: No such file"),
        ({"project": __file__}, "py: cannot be written: Not a directory"),
    ],
)
def test_what_compare_cannot_take_is_named(tmp_path: Path, given: Any, fault: str) -> None:
    """Not a traceback, and no override in place of what the other arguments say."""
    (tmp_path / "mine.py").write_text("def build():\n    pass\n")
    with pytest.raises(ConfigError, match=fault):
        rnnbench.compare(f"{tmp_path}/mine.py:build", **{"project": tmp_path / "kept", **given})


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"batches": 8}, "batches is 8; it must be a list"),
        ({"batches": ()}, "batches is .*; it must be a list of length ≥ 1"),
        ({"batches": (1.5,)}, "batches has the value 1.5; it must be an integer"),
        ({"rounds": 0}, "rounds is 0; it must be an integer ≥ 1"),
        ({"threads": "1"}, "threads is '1'; it must be an integer"),
        ({"runtimes": "litert"}, "one runtime is no comparison"),
        ({"runtimes": None}, "runtimes is None; it must be a list"),
        ({"batches": numpy.array([1, 0]), "rounds": numpy.int64(3)}, "batches has the value 0"),
        ({"batches": {1, 8}}, "batches is .{.*}.; it must be a list"),
    ],
)
def test_what_predict_cannot_take_is_named(tmp_path: Path, given: Any, fault: str) -> None:
    """No rounds gave the sentence that no runtime answered rightly."""
    (tmp_path / "mine.py").write_text("def build():\n    pass\n")
    data = {"x": numpy.ones((4, 3, 2))}
    with pytest.raises(ConfigError, match=fault):
        rnnbench.predict(f"{tmp_path}/mine.py:build", data, project=tmp_path / "kept", **given)


def test_calls_of_threads_wait_for_each_other(tmp_path: Path, monkeypatch: Any) -> None:
    """They left the current folder, which all threads share, where the last one had been."""
    monkeypatch.chdir(tmp_path)
    entered = threading.Barrier(2)
    folders: list[Path] = []

    def measured(question: object, root: Path) -> None:
        with suppress(threading.BrokenBarrierError):
            entered.wait(0.5)
        folders.append(Path.cwd())
        raise ConfigError("is enough.")

    def ask(name: str) -> None:
        with suppress(ConfigError):
            rnnbench.compare("mine.py:build", "mine.npz", project=name)

    monkeypatch.setattr(calls, "measured", measured)
    (tmp_path / "mine.py").write_text("def build():\n    pass\n")
    (tmp_path / "mine.npz").touch()
    threads = [threading.Thread(target=ask, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(folders) == [tmp_path / "a", tmp_path / "b"] and Path.cwd() == tmp_path
