"""Runs the cells of a framework: ``python in_framework.py FRAMEWORK FOLDER [LAYER=FILE …]``.

Without files, draws arrays for each layer and writes them as ``LAYER.npz`` or ``LAYER.onnx``; else
loads those in the files. Either way, writes what the layers compute as ``LAYER.y.npy``, or
``LAYER.again.npy``. Imports the framework and NumPy.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

STREAM = np.random.default_rng(1)
BATCH, STEPS, INPUTS, UNITS = 3, 7, 5, 6
X = STREAM.normal(size=(BATCH, STEPS, INPUTS)).astype("float32")
Arrays = dict[str, np.ndarray]


def values_for(name: str, shape: Any, given: Arrays | None) -> np.ndarray:
    """The array called `name`, drawn if none are given."""
    if given is None:
        return (STREAM.normal(size=tuple(shape)) * 0.5).astype("float32")
    return given[name].reshape(tuple(shape))


def filled(tree: Any, given: Arrays | None, used: Arrays, above: str = "") -> Any:
    """The tree of dictionaries with other arrays, which are added to `used`."""
    found = {}
    for key, value in tree.items():
        name = f"{above}{key}"
        if hasattr(value, "items"):
            found[key] = filled(value, given, used, f"{name}/")
        else:
            found[key] = used[name] = values_for(name, np.shape(value), given)
    return found


def linen(name: str, given: Arrays | None) -> tuple[Arrays, Any]:
    import flax.linen
    import jax

    model = flax.linen.RNN(getattr(flax.linen, name)(UNITS))
    used: Arrays = {}
    weights = filled(model.init(jax.random.key(0), X), given, used)
    return used, model.apply(weights, X)


def nnx(name: str, given: Arrays | None) -> tuple[Arrays, Any]:
    from flax import nnx as framework

    cell = getattr(framework, name)(INPUTS, UNITS, rngs=framework.Rngs(0))
    model = framework.RNN(cell)
    state = framework.state(model, framework.Param)
    used: Arrays = {}
    weights = filled(framework.to_pure_dict(state), given, used)
    framework.replace_by_pure_dict(state, weights)
    framework.update(model, state)
    return used, model(X)


def haiku(name: str, given: Arrays | None) -> tuple[Arrays, Any]:
    import haiku as framework
    import jax

    def run(x: Any) -> Any:
        cell = getattr(framework, name)(UNITS)
        return framework.dynamic_unroll(cell, x, cell.initial_state(BATCH), time_major=False)[0]

    function = framework.without_apply_rng(framework.transform(run))
    used: Arrays = {}
    weights = filled(function.init(jax.random.key(0), X), given, used)
    return used, function.apply(weights, X)


def equinox(name: str, given: Arrays | None) -> tuple[Arrays, Any]:
    import equinox as framework
    import jax

    cell = getattr(framework.nn, name)(INPUTS, UNITS, key=jax.random.key(0))
    names = ["weight_ih", "weight_hh", "bias"] + ["bias_n"] * (name == "GRUCell")
    used: Arrays = {}
    for each in names:
        used[f"cell/{each}"] = values_for(f"cell/{each}", getattr(cell, each).shape, given)
    new = [jax.numpy.asarray(values) for values in used.values()]
    cell = framework.tree_at(lambda tree: [getattr(tree, each) for each in names], cell, new)
    outputs = []
    for sample in X:
        state = jax.numpy.zeros(UNITS)
        if name == "LSTMCell":
            state = (state, state)
        for step in sample:
            state = cell(step, state)
            outputs.append(state[0] if name == "LSTMCell" else state)
    return used, np.reshape(outputs, (BATCH, STEPS, UNITS))


def torch(name: str, given: Arrays | None) -> tuple[Arrays, Any]:
    import torch as framework

    x = framework.from_numpy(X)
    settings = {} if name.endswith("Cell") else {"batch_first": True, "bidirectional": True}
    module = getattr(framework.nn, name)(INPUTS, UNITS, **settings)
    used: Arrays = {}
    for each, tensor in module.state_dict().items():
        used[f"net.{each}"] = values_for(f"net.{each}", tensor.shape, given)
    state_dict = {each[4:]: framework.from_numpy(values) for each, values in used.items()}
    module.load_state_dict(state_dict)
    if not name.endswith("Cell"):
        return used, module(x)[0].detach().numpy()
    state = None
    outputs = []
    for step in range(STEPS):
        state = module(x[:, step], state)
        last = state[0] if name == "LSTMCell" else state
        outputs.append(last.detach().numpy())
    return used, np.stack(outputs, axis=1)


def keras(name: str, given: Arrays | None) -> tuple[Arrays, Any]:
    import keras as framework

    layer = getattr(framework.layers, name)(UNITS, return_sequences=True)
    layer.build(X.shape)
    used: Arrays = {}
    for variable in layer.weights:
        array = f"rnn/{variable.name}"
        used[array] = values_for(array, variable.shape, given)
    layer.set_weights(list(used.values()))
    return used, framework.ops.convert_to_numpy(layer(X))


GATES = {"LSTM": 4, "GRU": 3, "GRU_after": 3, "RNN": 1}


def onnx_file(name: str) -> bytes:
    """A model of ONNX with one node in both directions."""
    from onnx import TensorProto, helper, numpy_helper

    gates = GATES[name]
    shapes = {
        "W": (2, gates * UNITS, INPUTS),
        "R": (2, gates * UNITS, UNITS),
        "B": (2, 2 * gates * UNITS),
    }
    arrays = []
    for part, shape in shapes.items():
        arrays.append(numpy_helper.from_array(values_for(part, shape, None), part))
    more = {"linear_before_reset": 1} if name == "GRU_after" else {}
    node = helper.make_node(
        name.partition("_")[0],
        ["net/X", *shapes],
        ["net/Y"],
        name="net",
        hidden_size=UNITS,
        direction="bidirectional",
        **more,
    )
    kind = TensorProto.FLOAT
    x = helper.make_tensor_value_info("net/X", kind, ["steps", "batch", INPUTS])
    y = helper.make_tensor_value_info("net/Y", kind, ["steps", 2, "batch", UNITS])
    graph = helper.make_graph([node], "graph", [x], [y], arrays)
    opset = [helper.make_opsetid("", 14)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


def run_onnx(content: bytes) -> Any:
    """What onnxruntime computes: (batch, steps, both directions)."""
    import onnxruntime

    session = onnxruntime.InferenceSession(content)
    outputs = session.run(["net/Y"], {"net/X": X.transpose(1, 0, 2)})[0]
    return outputs.transpose(2, 0, 1, 3).reshape(BATCH, STEPS, -1)


def main(framework: str, folder: Path, files: dict[str, str]) -> None:
    layers = LAYERS[framework]
    for layer in layers:
        module, _, name = layer.rpartition(".")
        given = None
        end = "again" if files else "y"
        if module == "onnx":
            content = Path(files[layer]).read_bytes() if files else onnx_file(name)
            if not files:
                (folder / f"{layer}.onnx").write_bytes(content)
            outputs = run_onnx(content)
        else:
            if files:
                with np.load(files[layer]) as file:
                    given = {each: file[each] for each in file.files}
            function = globals()[module.rpartition(".")[2]]
            used, outputs = function(name, given)
            if not files:
                np.savez(folder / f"{layer}.npz", **used)
        np.save(folder / f"{layer}.{end}.npy", np.asarray(outputs))


LAYERS = {
    "jax": [
        *(f"flax.linen.{name}" for name in ("LSTMCell", "OptimizedLSTMCell", "GRUCell")),
        "flax.linen.SimpleCell",
        *(f"flax.nnx.{name}" for name in ("LSTMCell", "OptimizedLSTMCell", "GRUCell")),
        *("haiku.LSTM", "haiku.GRU", "equinox.LSTMCell", "equinox.GRUCell"),
    ],
    "torch": [f"torch.{name}{cell}" for cell in ("", "Cell") for name in ("LSTM", "GRU", "RNN")],
    "onnx": ["onnx.LSTM", "onnx.GRU", "onnx.GRU_after", "onnx.RNN"],
    "keras": ["keras.LSTM", "keras.GRU", "keras.SimpleRNN"],
}

if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), dict(pair.split("=", 1) for pair in sys.argv[3:]))
