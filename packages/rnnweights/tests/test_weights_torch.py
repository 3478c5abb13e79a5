"""Stacks of torch's layers agree among themselves; what torch finds in a file is arrays alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from asking import converted

from rnnweights import in_framework
from rnnweights.checkpoint import Refusal
from rnnweights.conversion import Stated


def stack(
    gates: int = 4, units: int = 5, inputs: int = 3, layers: int = 2, bias: bool = True
) -> dict[str, np.ndarray]:
    """The arrays of one direction of torch's LSTM or GRU."""
    stream = np.random.default_rng(0)
    arrays = {}
    for number in range(layers):
        features = units if number else inputs
        arrays[f"rnn.weight_ih_l{number}"] = stream.normal(size=(gates * units, features))
        arrays[f"rnn.weight_hh_l{number}"] = stream.normal(size=(gates * units, units))
        if bias:
            arrays[f"rnn.bias_ih_l{number}"] = stream.normal(size=gates * units)
            arrays[f"rnn.bias_hh_l{number}"] = stream.normal(size=gates * units)
    return arrays


def without(arrays: Mapping[str, np.ndarray], part: str) -> dict[str, np.ndarray]:
    return {name: values for name, values in arrays.items() if part not in name}


def second(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name.replace("_l0", "_l1"): values for name, values in arrays.items()}


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        (without(stack(layers=3), "_l1"), "module rnn of torch has layer 2, but not layer 1"),
        (without(stack(), "_l0"), "module rnn of torch has layer 1, but not layer 0"),
        (stack(layers=1) | second(stack(layers=1, inputs=7)), "rnn_l1 of torch has 7 inputs; "),
        (stack(layers=1) | second(stack(gates=3, inputs=5, layers=1)), "1 × GRU of 5 units"),
        (stack(layers=1) | second(stack(inputs=5, layers=1, bias=False)), "bias=False"),
    ],
)
def test_the_layers_of_a_module_of_torch_must_agree(
    arrays: dict[str, np.ndarray], reason: str, tmp_path: Path
) -> None:
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(Refusal, match=reason):
        converted(tmp_path / "x.npz", "keras", ".npz", Stated())


def test_a_gru_of_torch_without_bias_is_one_of_cudnn(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", **stack(gates=3, bias=False))
    done = converted(tmp_path / "x.npz", "cudnn", ".h5", Stated())
    assert "rnn_l0: GRU of 5 units, reset_after, no bias, torch → cudnn" in done.lines()


class Tensor(np.ndarray):
    """As a parameter of torch, which is not an array while it is trained."""

    is_trained = True

    def detach(self) -> Tensor:
        detached = self.view(Tensor)
        detached.is_trained = False
        return detached

    def numpy(self) -> np.ndarray:
        if self.is_trained:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        return np.asarray(self)


def tensors(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    return {name: values.view(Tensor) for name, values in arrays.items()}


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], dict[str, Any]]:
    """What is read of a file, of which torch makes this object. The real one is in a build."""

    def load(found: Any) -> dict[str, Any]:
        def framework_load(path: str, map_location: str, weights_only: bool) -> Any:
            assert weights_only
            if isinstance(found, Exception):
                raise found
            return found

        module = SimpleNamespace(load=framework_load, Tensor=Tensor)
        monkeypatch.setitem(sys.modules, "torch", module)  # type: ignore[arg-type]
        return in_framework.torch("x.pt")

    return load


OPTIMIZER = {"state": {0: tensors({"exp_avg": np.ones(3)})}, "param_groups": [{"lr": 0.1}]}


@pytest.mark.parametrize(
    ("others", "names", "left_out"),
    [
        ({}, list(stack()), 0),
        ({"epoch": 3, "optimizer_state_dict": OPTIMIZER}, list(stack()), 1),
        ({"ema": tensors({"w": np.ones(3)})}, [*(f"model.{name}" for name in stack()), "ema.w"], 0),
    ],
)
def test_the_arrays_beside_a_state_dict_are_kept_unless_they_are_the_optimizers(
    others: dict[str, Any], names: list[str], left_out: int, load: Callable[[Any], dict[str, Any]]
) -> None:
    answer = load({"model": tensors(stack()), **others})
    assert (answer["names"], answer["optimizer"]) == (names, left_out)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        ([np.ones(3)], "finds a list in it, not a state_dict"),
        (np.ones(3).view(Tensor), "finds a Tensor in it, not a state_dict"),
        (RuntimeError("run it with weights_only=False"), "it has more than arrays"),
    ],
)
def test_what_is_no_state_dict_is_refused_without_advice_to_run_it(
    found: Any, reason: str, load: Callable[[Any], dict[str, Any]]
) -> None:
    with pytest.raises(in_framework.Refusal, match=reason) as error:
        load(found)
    assert "weights_only" not in str(error.value.args)
