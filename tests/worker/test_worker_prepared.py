"""What is wrong with the arrays that a model prepares is said by name, without a framework."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy
import pytest

from rnnworker import data, user_functions
from rnnworker.arguments import Refusal

RIGHT = {"x_train": numpy.zeros((4, 2)), "y_train": numpy.zeros(4)}
RIGHT |= {"x_val": numpy.zeros((3, 2)), "y_val": numpy.zeros(3)}


def arrays(prepared: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, numpy.ndarray]:
    module = SimpleNamespace(prepare=lambda source, config: prepared)
    monkeypatch.setattr(user_functions, "from_file", lambda path: module)
    return data.arrays({"model": {"data": {"prepare": "mine.py:prepare"}}}, None)


@pytest.mark.parametrize(
    ("prepared", "said"),
    [
        (None, "returns a NoneType: it must return a dict of x_train, y_train, x_val, y_val"),
        (tuple(RIGHT.values()), "returns a tuple"),
        ({"x": RIGHT["x_val"]}, "did not return x_train, x_val, y_train, y_val, but x"),
        (RIGHT | {"x_test": RIGHT["x_val"]}, "returns x_test, which rnnbench does not read"),
        (RIGHT | {"x_val": [[0.0, 0.0]] * 3}, "returns x_val.0.0 as a float"),
        (RIGHT | {"y_val": None}, "returns y_val as a NoneType: it must be a NumPy array"),
        (RIGHT | {"y_train": numpy.array(["a"] * 4)}, "returns y_train of the type <U1"),
        (RIGHT | {"x_val": RIGHT["x_val"].astype(object)}, "returns x_val of the type object"),
        (RIGHT | {"x_val": RIGHT["x_val"] * 1j}, "numbers that are not complex"),
        (RIGHT | {"y_val": numpy.zeros(())}, "returns y_val without samples"),
        (RIGHT | {"x_train": numpy.zeros((0, 2))}, "returns x_train without samples"),
        (RIGHT | {"y_train": numpy.zeros(5)}, "returns 4 samples in x_train and 5 in y_train"),
        (RIGHT | {"x_val": numpy.zeros((2, 2))}, "returns 2 samples in x_val and 3 in y_val"),
    ],
)
def test_wrong_arrays_are_refused_by_name(prepared, said: str, monkeypatch) -> None:
    with pytest.raises(ValueError) as refused:
        arrays(prepared, monkeypatch)
    assert said in str(refused.value) and "mine.py:prepare" in str(refused.value)


def test_numbers_of_every_type_are_taken(monkeypatch) -> None:
    assert issubclass(Refusal, ValueError)
    for kind in ("float16", "float64", "uint8", "int64", "bool"):
        taken = arrays({name: array.astype(kind) for name, array in RIGHT.items()}, monkeypatch)
        assert {array.dtype.name for array in taken.values()} == {kind}
