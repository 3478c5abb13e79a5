"""The order of the samples, and reading and preparing datasets."""

from __future__ import annotations

import hashlib
import sys
import types
from pathlib import Path

import numpy
import pytest

from rnnworker import data, user_functions
from rnnworker.models import digits_rnn

CONFIG = {"model": {"data": {"prepare": "rnnworker.models.digits_rnn:prepare"}, "units": 4}}


def test_the_order_never_changes_and_leaves_the_global_stream_alone() -> None:
    """Old and new runs see the same samples in the same order."""
    numpy.random.seed(99)
    expected = numpy.random.RandomState(99).rand()
    order = data.epoch_order(0, 1, 8)
    assert (order.tolist(), order.dtype) == ([7, 2, 1, 6, 0, 4, 3, 5], numpy.int64)
    assert numpy.random.rand() == expected


def test_every_epoch_and_seed_has_every_sample_once_in_a_different_order() -> None:
    orders = [data.epoch_order(seed, epoch, 100) for seed in (0, 1, 2**31) for epoch in (1, 500)]
    assert len({order.tobytes() for order in orders}) == 6
    assert all(sorted(order) == list(range(100)) for order in orders)


def test_missing_arrays_are_named(tmp_path: Path) -> None:
    path = tmp_path / "digits.npz"
    numpy.savez(path, x_train=numpy.zeros(3), y_train=numpy.zeros(3))
    with pytest.raises(ValueError, match="digits_rnn:prepare did not return x_val, y_val"):
        data.arrays(CONFIG, str(path))


def test_the_source_of_other_files_is_their_path(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "text.txt").write_text("naïve", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    path = data.source("text.txt")
    assert path == str(tmp_path / "text.txt")
    assert data.text(path) == "naïve"
    assert data.source(None) is None


def test_functions_are_found_in_modules_and_files(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("def build():\n    return 'mine'\n")
    assert user_functions.function(f"{mine}:build")() == "mine"
    assert user_functions.function("rnnworker.models.digits_rnn:build") is digits_rnn.build


LOOKS_ITSELF_UP = """
from __future__ import annotations
import dataclasses
import pickle
import sys

@dataclasses.dataclass
class Settings:
    kind: dataclasses.InitVar[str] = "NAME"
    name: str = "NAME"

def build():
    here = sys.modules[__name__]
    return here.Settings.name, pickle.loads(pickle.dumps(Settings())).name
"""


def test_a_file_may_look_its_module_up_whatever_others_are_called(tmp_path: Path) -> None:
    files = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        files.append(tmp_path / name / "mine.py")
        files[-1].write_text(LOOKS_ITSELF_UP.replace("NAME", name))
    functions = [user_functions.function(f"{file}:build") for file in files]
    assert [function() for function in functions] == [("a", "a"), ("b", "b")]


def test_a_file_that_fails_leaves_no_module_behind(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("raise OSError('no such device')")
    before = set(sys.modules)
    with pytest.raises(OSError, match="no such device"):
        user_functions.function(f"{mine}:build")
    assert set(sys.modules) == before


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("build", "is not module:function"),
        ("/no/such/mine.py:build", "/no/such/mine.py does not exist"),
        ("rnnworker.models.digits_rnn:bild", "has no function 'bild'"),
    ],
)
def test_missing_functions_are_an_error(reference: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        user_functions.function(reference)


def test_the_error_for_pinned_pickles_that_cannot_be_read_names_the_fix(tmp_path: Path) -> None:
    """Such as pickles of another NumPy version, whose modules have other names."""
    path = tmp_path / "far.npz"
    module = sys.modules["made_up_for_pickles"] = types.ModuleType("made_up_for_pickles")
    module.Thing = type("Thing", (), {"__module__": "made_up_for_pickles"})
    numpy.savez(path, x_train=numpy.array([module.Thing()], dtype=object))
    del sys.modules["made_up_for_pickles"]
    pinned = hashlib.md5(path.read_bytes()).hexdigest()
    with pytest.raises(ValueError, match=r"NumPy 2.* cannot read .*: .*docs/data.md"):
        data.source(str(path), pinned)
