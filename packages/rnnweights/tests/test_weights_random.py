"""Random stacks of layers, directions, units and nesting, in every format of Keras: each array that
goes in comes out, round trips are bit by bit, and both networks compute the same."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from asking import ask
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rnnweights.command import main
from rnnweights.reading import read

pytestmark = pytest.mark.usefixtures("in_this_process")
SLOW = settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
SIGMOID = ("--recurrent-activation", "sigmoid")
UNITS = st.integers(1, 5)
RECURRENT = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["LSTM", "GRU"]),
        "units": UNITS,
        "both": st.booleans(),
        "use_bias": st.booleans(),
    }
)
OTHER = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(
            ["Dense", "TimeDistributed", "BatchNormalization", "LayerNormalization"]
        ),
        "units": UNITS,
    }
)
LEAF = RECURRENT | OTHER
ATTENTION = st.fixed_dictionaries({"kind": st.just("Attention"), "units": UNITS})
STACKS = st.lists(LEAF | ATTENTION | st.lists(LEAF, min_size=1, max_size=2), min_size=1, max_size=3)


def build(stack: list[Any], functional: bool) -> Any:
    import keras

    # TensorFlow 2 sets it, and a TensorFlow 1.15 that is started later would inherit it.
    os.environ.pop("TF2_BEHAVIOR", None)
    x = keras.Input((6, 3))
    layers = [layer_of(part, keras) for part in stack] + [keras.layers.Dense(2)]
    if not functional:
        model = keras.Sequential([x, *(layer for layer in layers if not isinstance(layer, tuple))])
    else:
        y = x
        for layer in layers:
            y = layer[0](y, y) if isinstance(layer, tuple) else layer(y)
        model = keras.Model(x, y)
    stream = np.random.default_rng(0)
    values = []
    for weight in model.weights:
        drawn = stream.normal(size=weight.shape, scale=0.5).astype("float32")
        values.append(np.abs(drawn) + 0.1 if "variance" in weight.path else drawn)
    model.set_weights(values)
    return model


def layer_of(part: Any, keras: Any) -> Any:
    layers = keras.layers
    if isinstance(part, list):
        return keras.Sequential([layer_of(each, keras) for each in part])
    kind, units = part["kind"], part["units"]
    if kind == "Attention":
        return (layers.MultiHeadAttention(2, units),)
    if kind == "TimeDistributed":
        return layers.TimeDistributed(layers.Dense(units))
    if kind == "Dense":
        return layers.Dense(units)
    if "use_bias" not in part:
        return getattr(layers, kind)()
    layer = getattr(layers, kind)(units, use_bias=part["use_bias"], return_sequences=True)
    return layers.Bidirectional(layer) if part["both"] else layer


def convert(source: Path, layout: str, target: Path, *options: str) -> str:
    """What the command prints."""
    arguments = [str(source), "--to", layout, "-o", str(target), "--force", *options]
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        code = main(arguments)
    assert code == 0, error.getvalue()
    return out.getvalue()


def arrays(path: Path) -> list[np.ndarray]:
    found = read(path, lambda action, **question: ask(action, build=None, root=None, **question))
    assert len({array.name for array in found.arrays}) == len(found.arrays)
    return [array.values for array in found.arrays]


def as_bytes(values: Iterable[np.ndarray]) -> Counter[bytes]:
    return Counter(np.ascontiguousarray(value).tobytes() for value in values)


@SLOW
@given(stack=STACKS, functional=st.booleans())
def test_each_array_that_goes_in_comes_out(stack: list[Any], functional: bool) -> None:
    model = build(stack, functional)
    expected = as_bytes(model.get_weights())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for suffix in (".h5", ".keras", ".weights.h5"):
            source = folder / f"source{suffix}"
            save = model.save_weights if suffix == ".weights.h5" else model.save
            save(source)
            for target in (".npz", ".safetensors", ".h5", ".keras", ".weights.h5"):
                if suffix == ".weights.h5" and target in (".h5", ".keras"):
                    continue  # it has no configuration
                out = convert(source, "keras", folder / f"target{target}")
                assert as_bytes(arrays(folder / f"target{target}")) == expected
                count = expected.total()
                cells = len(re.findall("already keras", out))
                assert out.startswith(f"{count} arrays: 0 converted, {count} copied")
                assert cells == sum(map(cells_in, stack)), out


def cells_in(part: Any) -> int:
    if isinstance(part, list):
        return sum(map(cells_in, part))
    return (2 if part["both"] else 1) if "use_bias" in part else 0


def as_keras_2(source: Path) -> None:
    """Changes the version in a file of Keras 3, so that it may have CuDNN layers."""
    with h5py.File(source, "r+") as file:
        file.attrs["keras_version"] = file["model_weights"].attrs["keras_version"] = "2.15.0"


@SLOW
@given(stack=STACKS, functional=st.booleans())
def test_cudnn_layers_compute_the_same_and_come_back(stack: list[Any], functional: bool) -> None:
    model = build(stack, functional)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, fast, again = folder / "source.h5", folder / "fast.h5", folder / "again.h5"
        model.save(source)
        as_keras_2(source)
        cells = sum(map(cells_in, stack))
        for before, layout, after in (
            (source, "cudnn", fast),
            (fast, "keras", again),
            (fast, "keras", folder / "again.keras"),
        ):
            out = convert(before, layout, after, *["--check"][: bool(cells)])
            if cells:
                assert "check: both models" in out, out
                assert float(out.partition("difference ")[2]) <= 1e-5, (out, stack)
        with h5py.File(fast) as file:
            config = file.attrs["model_config"]
        assert ("CuDNN" in str(config)) == (cells > 0)
        without_bias = [array for array in arrays(again) if np.any(array)]
        assert as_bytes(without_bias) == as_bytes(filter(np.any, model.get_weights()))
        # cudnn → keras → canonical → cudnn: the biases are halves of one already.
        for named in (".npz", ".safetensors"):
            if cells:
                convert(again, "canonical", folder / f"named{named}")
                convert(folder / f"named{named}", "cudnn", folder / "back.h5", *SIGMOID)
                same = zip(arrays(fast), arrays(folder / "back.h5"), strict=True)
                assert all(one.tobytes() == other.tobytes() for one, other in same)


@settings(max_examples=40, deadline=None)
@given(
    cells=st.lists(
        st.tuples(st.sampled_from(["lstm", "gru"]), UNITS, UNITS, st.booleans()), min_size=1,
        max_size=4,
    ),
    change=st.sampled_from(["units", "rows", "bias", "missing", "nan"]),
    data=st.data(),
)  # fmt: skip
def test_one_wrong_array_is_refused(cells: list[Any], change: str, data: st.DataObject) -> None:
    named = {}
    for number, (kind, units, inputs, both) in enumerate(cells):
        gates = {"lstm": 4, "gru": 3}[kind]
        for direction in ("/forward", "/backward") if both else ("",):
            scope = f"layer{number}{direction}"
            named[f"{scope}/kernel"] = np.ones((inputs, gates * units))
            named[f"{scope}/recurrent_kernel"] = np.ones((units, gates * units))
            named[f"{scope}/bias"] = np.ones(2 * gates * units)
    wrong = data.draw(st.sampled_from(sorted(named)))
    array = named.pop(wrong)
    if change == "units":
        named[wrong] = np.ones((*array.shape[:-1], array.shape[-1] + 1))
    elif change == "rows" and wrong.endswith("recurrent_kernel"):
        named[wrong] = np.ones((array.shape[0] + 1, array.shape[1]))
    elif change in ("bias", "rows"):
        scope = wrong.rpartition("/")[0]
        named[wrong] = array
        bias = named[f"{scope}/bias"]
        named[f"{scope}/bias"] = np.ones((2, bias.size // 2 + 1))
    elif change == "nan":
        named[wrong] = np.where(np.arange(array.size).reshape(array.shape) == 0, np.nan, array)
    elif wrong.endswith("bias"):
        named[wrong.replace("bias", "offset")] = array
    with tempfile.TemporaryDirectory() as name:
        source, target = Path(name, "source.npz"), Path(name, "target.npz")
        np.savez(source, **named)
        error = io.StringIO()
        with contextlib.redirect_stderr(error):
            code = main([str(source), "--to", "keras", "-o", str(target)])
        assert code == 1 and not target.exists(), (json.dumps(sorted(named)), wrong, change)
        assert wrong.partition("/")[0] in error.getvalue()
