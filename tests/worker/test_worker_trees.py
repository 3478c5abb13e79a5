"""Several inputs and outputs, and the cells of Keras's layers."""

from __future__ import annotations

import numpy
import pytest

from rnnworker import data, trees
from rnnworker.arguments import Refusal
from rnnworker.array_names import ARRAYS
from rnnworker.recurrent import stand_ins

A, B = numpy.arange(6).reshape(3, 2), numpy.arange(3)


def test_a_file_s_dotted_names_are_the_parts_of_a_tree() -> None:
    arrays = {"x_train.b": B, "x_train.a": A, "y_train.1": B, "y_train.0": A, "other.x": B}
    found = trees.nested(arrays, ARRAYS)
    assert sorted(found) == ["other.x", "x_train", "y_train"]
    assert {name: array is {"a": A, "b": B}[name] for name, array in found["x_train"].items()}
    assert found["y_train"][0] is A and found["y_train"][1] is B


def test_a_tree_is_no_array_and_made_of_arrays() -> None:
    with pytest.raises(ValueError, match=r"there is x_train, and x_train\.a"):
        trees.nested({"x_train": A, "x_train.a": A}, ARRAYS)


@pytest.mark.parametrize("tree", [A, [A, B], (A, {"b": B}), {"a": A, "b": B}])
def test_a_tree_is_taken_apart_and_keeps_its_form(tree: object) -> None:
    taken = trees.taken(tree, slice(1, 3))
    assert trees.rows(tree) == 3 and trees.rows(taken) == 2
    assert [name for name, _ in trees.named(taken)] == [name for name, _ in trees.named(tree)]
    assert all((one == other[1:3]).all() for one, other in zip(
        trees.leaves(taken), trees.leaves(tree), strict=True
    ))  # fmt: skip
    assert isinstance(taken, tuple) is isinstance(tree, list | tuple)


def test_shapes_of_samples() -> None:
    assert trees.shapes(A) == [2]
    assert trees.shapes({"a": A, "b": (B, A)}) == {"a": [2], "b.0": [], "b.1": [2]}


@pytest.mark.parametrize(
    ("x", "y", "fault"),
    [
        ([A, B[:2]], B, "returns 3 samples in x_train.0 and 2 in x_train.1"),
        ({"a": A}, B[:2], "returns 3 samples in x_train.a and 2 in y_train"),
        ([A, 5], B, "returns x_train.1 as a int"),
        ([], B, "returns no arrays in x_train"),
        (A, {}, "returns no arrays in y_train"),
        ([A], B, r"other arrays in x_train than in x_val: 0 and one array"),
    ],
)
def test_arrays_that_do_not_fit_each_other_are_refused(x: object, y: object, fault: str) -> None:
    prepared = {"x_train": x, "y_train": y, "x_val": A, "y_val": B}
    with pytest.raises(Refusal, match=fault):
        data._check(prepared, "mine.py:prepare")


class LSTM:
    def __init__(self, units, activation="tanh", recurrent_activation="sigmoid", **kwargs): ...


class GRU:
    def __init__(self, units, recurrent_activation="hard_sigmoid", reset_after=False, **kw): ...


class SimpleRNN:
    def __init__(self, units, activation="tanh", **kwargs): ...


@pytest.mark.parametrize(
    ("layer", "stated", "cell", "left"),
    [
        (LSTM, {}, "lstm", {}),
        (LSTM, {"recurrent_activation": "relu"}, "lstm", {"recurrent_activation": "relu"}),
        (GRU, {}, "gru_reset_before", {"recurrent_activation": "hard_sigmoid"}),
        (GRU, {"reset_after": True, "recurrent_activation": "sigmoid"}, "gru",
         {"recurrent_activation": "sigmoid"}),
        (SimpleRNN, {}, "rnn_tanh", {}),
        (SimpleRNN, {"activation": "relu"}, "rnn_relu", {}),
        (SimpleRNN, {"activation": "elu"}, "rnn_tanh", {"activation": "elu"}),
    ],
)  # fmt: skip
def test_the_cell_of_a_layer_of_keras(layer: type, stated: dict, cell: str, left: dict) -> None:
    stated = dict(stated)
    assert stand_ins.cell_of(layer, stated) == cell
    assert stated == left
