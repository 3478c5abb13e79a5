"""Writes ``frameworks.npz``: files of real frameworks with made-up weights, and what the frameworks
compute from them.

    python tests/weights/record_frameworks.py flax haiku equinox onnx
    python tests/weights/record_frameworks.py mxnet chainer      # Python 3.7, numpy < 1.22
    python tests/weights/record_frameworks.py paddle
    python tests/weights/record_frameworks.py torch
    python tests/weights/record_frameworks.py mindspore          # numpy < 2

Recorded on a CPU with flax 0.12.8, dm-haiku 0.0.17, equinox 0.13.8, jax 0.10.2, onnx 1.23.2,
onnxruntime 1.32.0, mxnet 1.9.1, chainer 7.8.1, paddlepaddle 3.3.1, mindspore 2.10.0
and torch 2.13.0, which the environment of rnnbench does not have. ``x`` are the inputs (batch,
steps, inputs). Of each layer, ``LAYER|y`` are the outputs at all steps, and ``LAYER|SUFFIX`` the
bytes of its file.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

STREAM = np.random.default_rng(1)
BATCH, STEPS, INPUTS, UNITS = 3, 7, 5, 6
X = STREAM.normal(size=(BATCH, STEPS, INPUTS)).astype("float32")
RECORDED = {"x": X}


def draw(leaf: Any) -> Any:
    """An array of the shape of another one, with other values."""
    return (STREAM.normal(size=leaf.shape) * 0.5).astype("float32")


def drawn(tree: Any) -> Any:
    import jax

    return jax.tree.map(draw, tree)


def flat(tree: Any, above: str = "") -> dict[str, np.ndarray]:
    found = {}
    for key, value in tree.items():
        if hasattr(value, "items"):
            found.update(flat(value, f"{above}{key}/"))
        else:
            found[above + key] = np.asarray(value)
    return found


def record(layer: str, outputs: Any, **files: bytes) -> None:
    RECORDED[f"{layer}|y"] = np.asarray(outputs)
    for suffix, content in files.items():
        RECORDED[f"{layer}|{suffix}"] = np.frombuffer(content, "uint8")


def npz(arrays: dict[str, np.ndarray]) -> bytes:
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]
    return content.getvalue()


def record_flax() -> None:
    import flax.linen
    import flax.serialization
    import jax
    from flax import nnx

    for name in ("LSTMCell", "OptimizedLSTMCell", "GRUCell", "SimpleCell"):
        model = flax.linen.RNN(getattr(flax.linen, name)(UNITS))
        weights = drawn(model.init(jax.random.key(0), X))
        files = {"npz": npz(flat(weights)), "msgpack": flax.serialization.to_bytes(weights)}
        record(f"flax.linen.{name}", model.apply(weights, X), **files)
    for name in ("LSTMCell", "OptimizedLSTMCell", "GRUCell"):
        model = nnx.RNN(getattr(nnx, name)(INPUTS, UNITS, rngs=nnx.Rngs(0)))
        state = nnx.state(model, nnx.Param)
        weights = drawn(nnx.to_pure_dict(state))
        nnx.replace_by_pure_dict(state, weights)
        nnx.update(model, state)
        files = {"npz": npz(flat(weights)), "msgpack": flax.serialization.to_bytes(weights)}
        record(f"flax.nnx.{name}", model(X), **files)


def record_haiku() -> None:
    import haiku
    import jax

    for name in ("LSTM", "GRU"):

        def run(x: Any, name: str = name) -> Any:
            cell = getattr(haiku, name)(UNITS)
            start = cell.initial_state(BATCH)
            return haiku.dynamic_unroll(cell, x, start, time_major=False)[0]

        function = haiku.without_apply_rng(haiku.transform(run))
        weights = drawn(function.init(jax.random.key(0), X))
        record(f"haiku.{name}", function.apply(weights, X), npz=npz(flat(weights)))


def record_equinox() -> None:
    import equinox
    import jax

    for name in ("LSTMCell", "GRUCell"):
        cell = getattr(equinox.nn, name)(INPUTS, UNITS, key=jax.random.key(0))
        arrays, rest = equinox.partition(cell, equinox.is_array)
        cell = equinox.combine(jax.tree.map(jax.numpy.asarray, drawn(arrays)), rest)
        outputs = []
        for sample in X:
            state = jax.numpy.zeros(UNITS)
            if name == "LSTMCell":
                state = (state, state)
            for step in sample:
                state = cell(step, state)
                outputs.append(state[0] if name == "LSTMCell" else state)
        content = io.BytesIO()
        equinox.tree_serialise_leaves(content, cell)
        shape = (BATCH, STEPS, UNITS)
        record(f"equinox.{name}", np.reshape(outputs, shape), eqx=content.getvalue())


def record_mxnet() -> None:
    import mxnet
    from mxnet.gluon import rnn

    for name in ("LSTM", "GRU"):
        layer = getattr(rnn, name)(UNITS, layout="NTC")
        layer.initialize()
        layer(mxnet.nd.array(X))  # makes its arrays
        for parameter in layer.collect_params().values():
            parameter.set_data(mxnet.nd.array(draw(parameter)))
        with tempfile.NamedTemporaryFile() as file:
            layer.save_parameters(file.name)
            content = Path(file.name).read_bytes()
        record(f"mxnet.{name}", layer(mxnet.nd.array(X)).asnumpy(), params=content)


def record_chainer() -> None:
    import chainer
    from chainer import links, serializers

    chainer.config.train = False
    for name in ("NStepLSTM", "NStepGRU", "LSTM", "StatefulGRU", "StatelessGRU"):
        if name.startswith("NStep"):
            link = getattr(links, name)(1, INPUTS, UNITS, 0.0)
        else:
            link = getattr(links, name)(INPUTS, UNITS)
        for parameter in link.params():
            if parameter.data is not None:
                parameter.data[...] = draw(parameter)
        state = chainer.Variable(np.zeros((BATCH, UNITS), "float32"))
        if name == "StatefulGRU":
            link.set_state(state)
        outputs = []
        for step in range(STEPS):
            if name.startswith("NStep"):
                break
            x = chainer.Variable(X[:, step])
            state = link(state, x) if name == "StatelessGRU" else link(x)
            outputs.append(state.data)
        if name.startswith("NStep"):
            starts = [None] * (2 if name == "NStepLSTM" else 1)
            ends = link(*starts, [chainer.Variable(each) for each in X])[-1]
            outputs = np.stack([each.data for each in ends], axis=1)
        content = io.BytesIO()
        serializers.save_npz(content, link)
        record(f"chainer.{name}", np.stack(outputs, axis=1), npz=content.getvalue())


def record_paddle() -> None:
    import paddle

    for name in ("LSTM", "GRU", "SimpleRNN"):
        layer = getattr(paddle.nn, name)(INPUTS, UNITS)
        for parameter in layer.parameters():
            parameter.set_value(paddle.to_tensor(draw(parameter)))
        arrays = {key: value.numpy() for key, value in layer.state_dict().items()}
        record(f"paddle.{name}", layer(paddle.to_tensor(X))[0].numpy(), npz=npz(arrays))


def record_torch() -> None:
    import torch

    for name in ("LSTMCell", "GRUCell", "RNNCell"):
        cell = getattr(torch.nn, name)(INPUTS, UNITS)
        arrays = {key: draw(value) for key, value in cell.state_dict().items()}
        cell.load_state_dict({key: torch.from_numpy(each) for key, each in arrays.items()})
        state = None
        outputs = []
        for step in range(STEPS):
            state = cell(torch.from_numpy(X[:, step]), state)
            last = state[0] if name == "LSTMCell" else state
            outputs.append(last.detach().numpy())
        named = {f"net.{key}": each for key, each in arrays.items()}
        record(f"torch.{name}", np.stack(outputs, axis=1), npz=npz(named))


def record_mindspore() -> None:
    import mindspore

    for name in ("LSTM", "GRU", "RNN", "LSTMCell", "GRUCell"):
        is_cell = name.endswith("Cell")
        options = {} if is_cell else {"batch_first": True}
        layer = getattr(mindspore.nn, name)(INPUTS, UNITS, **options)
        for parameter in layer.get_parameters():
            parameter.set_data(mindspore.Tensor(draw(parameter)))
        state = mindspore.Tensor(np.zeros((BATCH, UNITS), "float32"))
        states = (state, state) if name == "LSTMCell" else state
        outputs = []
        for step in range(STEPS if is_cell else 0):
            states = layer(mindspore.Tensor(X[:, step]), states)
            last = states[0] if name == "LSTMCell" else states
            outputs.append(last.asnumpy())
        if not is_cell:
            outputs = layer(mindspore.Tensor(X))[0].asnumpy().swapaxes(0, 1)
        made = np.stack(outputs, axis=1)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "layer.ckpt")
            mindspore.save_checkpoint(layer, str(path))
            record(f"mindspore.{name}", made, ckpt=path.read_bytes())


def record_node(layer: str, operator: str, gates: int, directions: int, **attributes: Any) -> None:
    import onnx
    import onnxruntime
    from onnx import helper, numpy_helper

    shapes = {
        "W": (directions, gates * UNITS, INPUTS),
        "R": (directions, gates * UNITS, UNITS),
        "B": (directions, 2 * gates * UNITS),
    }
    arrays = []
    for name, shape in shapes.items():
        values = (STREAM.normal(size=shape) * 0.5).astype("float32")
        arrays.append(numpy_helper.from_array(values, name))
    direction = "bidirectional" if directions == 2 else "forward"
    node = helper.make_node(
        operator,
        ["X", *shapes],
        ["Y"],
        name="net/rnn",
        hidden_size=UNITS,
        direction=direction,
        **attributes,
    )
    kind = onnx.TensorProto.FLOAT
    given = helper.make_tensor_value_info("X", kind, ["steps", "batch", INPUTS])
    made = helper.make_tensor_value_info("Y", kind, ["steps", directions, "batch", UNITS])
    graph = helper.make_graph([node], "graph", [given], [made], arrays)
    opset = [helper.make_opsetid("", 14)]
    content = helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()
    session = onnxruntime.InferenceSession(content)
    (outputs,) = session.run(None, {"X": X.transpose(1, 0, 2)})
    by_batch = outputs.transpose(2, 0, 1, 3).reshape(BATCH, STEPS, -1)  # forward, backward
    record(layer, by_batch, onnx=content)


def record_onnx() -> None:
    record_node("onnx.LSTM", "LSTM", 4, 2)
    record_node("onnx.GRU", "GRU", 3, 1)
    record_node("onnx.GRU_after", "GRU", 3, 2, linear_before_reset=1)
    record_node("onnx.RNN", "RNN", 1, 1)
    record_node("onnx.RNN_relu", "RNN", 1, 2, activations=["Relu", "Relu"])
    hard = ["HardSigmoid", "Tanh", "Tanh"]
    record_node("onnx.LSTM_hard_2", "LSTM", 4, 1, activations=hard)
    values = {"activation_alpha": [1 / 6], "activation_beta": [0.5]}
    record_node("onnx.LSTM_hard_3", "LSTM", 4, 1, activations=hard, **values)


if __name__ == "__main__":
    target = Path(__file__).with_name("frameworks.npz")
    if target.exists():
        with np.load(target) as file:
            RECORDED.update({name: file[name] for name in file.files})
    for framework in sys.argv[1:]:
        globals()[f"record_{framework}"]()
    np.savez_compressed(target, **RECORDED)
