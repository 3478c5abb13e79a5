"""Several inputs and outputs, and the cells of Keras's layers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy
import pytest

from rnnworker import data, trees
from rnnworker.arguments import Refusal
from rnnworker.array_names import ARRAYS
from rnnworker.recurrent import in_place

A, B = numpy.arange(6).reshape(3, 2), numpy.arange(3)


def test_a_file_s_dotted_names_are_the_parts_of_a_tree() -> None:
    arrays = {"x_train.b": B, "x_train.a": A, "y_train.1": B, "y_train.0": A, "other.x": B}
    found = trees.nested(arrays, ARRAYS)
    assert sorted(found) == ["other.x", "x_train", "y_train"]
    assert {name: array is {"a": A, "b": B}[name] for name, array in found["x_train"].items()}
    assert found["y_train"][0] is A and found["y_train"][1] is B


def test_putting_trees_together_undoes_taking_them_apart() -> None:
    tree = {"cases": ({"inputs": (A,), "calls": ((A, B), (B,))}, {"inputs": (B,)}), "labels": B}
    found = trees.nested(dict(trees.named(tree)))
    again, before = dict(trees.named(found)), dict(trees.named(tree))
    assert again.keys() == before.keys()
    assert all(again[name] is before[name] for name in before)
    assert isinstance(found["cases"], tuple) and isinstance(found["cases"][1]["inputs"], tuple)


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


class Layer:
    def __init__(self, activation="tanh", recurrent_activation="sigmoid", **settings):
        self.activation = getattr(ACTIVATIONS, str(activation), activation)
        self.recurrent_activation = getattr(ACTIVATIONS, recurrent_activation)
        self.use_bias, self.go_backwards = True, False
        self.__dict__.update(settings)


class LSTM(Layer): ...


class GRU(Layer): ...


class SimpleRNN(Layer):
    def __init__(self, activation="tanh"):
        super().__init__(activation)
        del self.recurrent_activation


def tanh(x): ...
def relu(x): ...
def sigmoid(x): ...
def own(x): ...


ACTIVATIONS = SimpleNamespace(tanh=tanh, relu=relu, sigmoid=sigmoid)
# Keras 2.0.6: a layer is its own cell.
KERAS = SimpleNamespace(
    activations=ACTIVATIONS, layers=SimpleNamespace(LSTM=LSTM, GRU=GRU, SimpleRNN=SimpleRNN)
)


@pytest.mark.parametrize(
    ("layer", "cell", "stated"),
    [
        (LSTM(), "lstm", {"activation": "tanh", "recurrent_activation": "sigmoid"}),
        (LSTM("relu", "tanh"), "lstm", {"activation": "relu", "recurrent_activation": "tanh"}),
        (LSTM(go_backwards=True), "lstm", {"go_backwards": True}),
        (GRU(), "gru_reset_before", {}),
        (GRU(reset_after=False, use_bias=False), "gru_reset_before", {"use_bias": False}),
        (GRU(reset_after=True), "gru", {"use_bias": True}),
        (SimpleRNN(), "rnn_tanh", {"activation": "tanh"}),
        (SimpleRNN("relu"), "rnn_relu", {"activation": "relu"}),
        (SimpleRNN(own), "rnn_tanh", {"activation": own}),
    ],
)
def test_the_cell_of_a_layer_of_keras_and_its_options(layer, cell: str, stated: dict) -> None:
    assert in_place.kind_of(KERAS, layer)
    options = in_place.options_of(KERAS, layer)
    assert in_place.cell_name(KERAS, layer, options) == cell
    assert stated.items() <= options.items()
    assert ("recurrent_activation" in options) is not isinstance(layer, SimpleRNN)
