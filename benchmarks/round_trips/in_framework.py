"""Runs the cells of a framework: ``python in_framework.py FRAMEWORK FOLDER [LAYER=FILE …]``.

Without files, draws arrays for each layer and has the framework save them as ``LAYER.SUFFIX``, or
writes them as ``LAYER.npz`` if it has no format of its own that rnnweights reads; else loads those
in the files. Either way, writes what the layers compute as ``LAYER.y.npy``, or ``LAYER.again.npy``.
Imports the framework and NumPy, from Python 3.7 on.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

STREAM = np.random.default_rng(1)
BATCH, STEPS, INPUTS, UNITS = 3, 7, 5, 6
X = STREAM.normal(size=(BATCH, STEPS, INPUTS)).astype("float32")
if TYPE_CHECKING:
    Arrays = dict[str, np.ndarray]


def values_for(name: str, shape: Any, given: Arrays | None) -> np.ndarray:
    """The array called `name`, drawn if none are given."""
    if given is None:
        return (STREAM.normal(size=tuple(shape)) * 0.5).astype("float32")
    return given[name].reshape(tuple(shape))


def ending(name: str, shape: Any, given: Arrays | None) -> np.ndarray:
    """As `values_for`, of a file whose names have another scope before them."""
    if given is not None:
        (found,) = [each for each in given if f"/{each.replace('.', '/')}".endswith(f"/{name}")]
        given = {name: given[found]}
    return values_for(name, shape, given)


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


def linen(name: str, given: Arrays | None, file: Path) -> tuple[Arrays, Any]:
    import flax.linen
    import jax

    model = flax.linen.RNN(getattr(flax.linen, name)(UNITS))
    used: Arrays = {}
    weights = filled(model.init(jax.random.key(0), X), given, used)
    if given is None:
        save_by_orbax(weights, file)
    return {}, model.apply(weights, X)


def nnx(name: str, given: Arrays | None, file: Path) -> tuple[Arrays, Any]:
    from flax import nnx as framework

    cell = getattr(framework, name)(INPUTS, UNITS, rngs=framework.Rngs(0))
    model = framework.RNN(cell)
    state = framework.state(model, framework.Param)
    used: Arrays = {}
    weights = filled(framework.to_pure_dict(state), given, used)
    framework.replace_by_pure_dict(state, weights)
    framework.update(model, state)
    if given is None:
        save_by_orbax(state, file)
    return {}, model(X)


def save_by_orbax(tree: Any, file: Path) -> None:
    """In a folder, which is called as the file but for its end."""
    import orbax.checkpoint

    saver = orbax.checkpoint.StandardCheckpointer()
    saver.save(file.with_suffix(".orbax"), tree)
    saver.wait_until_finished()


def haiku(name: str, given: Arrays | None, file: Path) -> tuple[Arrays, Any]:
    import haiku as framework
    import jax

    def run(x: Any) -> Any:
        cell = getattr(framework, name)(UNITS)
        return framework.dynamic_unroll(cell, x, cell.initial_state(BATCH), time_major=False)[0]

    function = framework.without_apply_rng(framework.transform(run))
    used: Arrays = {}
    weights = filled(function.init(jax.random.key(0), X), given, used)
    return used, function.apply(weights, X)


def equinox(name: str, given: Arrays | None, file: Path) -> tuple[Arrays, Any]:
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


def torch(name: str, given: Arrays | None, file: Path) -> tuple[Arrays, Any]:
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


def keras(name: str, given: Arrays | None, file: Path) -> tuple[Arrays, Any]:
    import keras as framework

    layer = getattr(framework.layers, name)(UNITS, return_sequences=True)
    layer.build(X.shape)
    used: Arrays = {}
    for variable in layer.weights:
        array = f"rnn/{variable.name}"
        used[array] = values_for(array, variable.shape, given)
    layer.set_weights(list(used.values()))
    return used, framework.ops.convert_to_numpy(layer(X))


def paddle(name: str, given: Arrays | None, file: Path) -> tuple[Arrays, Any]:
    import paddle as framework

    layer = getattr(framework.nn, name)(INPUTS, UNITS, direction="bidirect")
    for key, parameter in layer.state_dict().items():
        if "cell" not in key:  # else a second name of another one
            values = values_for(f"net.{key}", parameter.shape, given)
            parameter.set_value(framework.to_tensor(values))
    used = {f"net.{key}": value.numpy() for key, value in layer.state_dict().items()}
    return used, layer(framework.to_tensor(X))[0].numpy()


def mxnet(name: str, given: Arrays | None, file: Path) -> tuple[Arrays, Any]:
    import mxnet as framework

    x = framework.nd.array(X)
    if name.endswith("Cell"):
        layer = getattr(framework.gluon.rnn, name)(UNITS, input_size=INPUTS)
    else:
        layer = getattr(framework.gluon.rnn, name)(UNITS, layout="NTC", input_size=INPUTS)
    layer.initialize()
    for key, parameter in layer.collect_params().items():
        part = "_".join(key.split("_")[-2:])
        parameter.set_data(framework.nd.array(ending(part, parameter.shape, given)))
    if given is None:
        layer.save_parameters(str(file))
    if name.endswith("Cell"):
        return {}, layer.unroll(STEPS, x, layout="NTC", merge_outputs=True)[0].asnumpy()
    return {}, layer(x).asnumpy()


def mindspore(name: str, given: Arrays | None, file: Path) -> tuple[Arrays, Any]:
    import mindspore as framework

    is_cell = name.endswith("Cell")
    settings = {} if is_cell else {"batch_first": True, "bidirectional": True}
    layer = getattr(framework.nn, name)(INPUTS, UNITS, **settings)
    for parameter in layer.get_parameters():
        values = ending(parameter.name.split(".")[-1], parameter.shape, given)
        parameter.set_data(framework.Tensor(values))
    if given is None:
        framework.save_checkpoint(layer, str(file))
    if not is_cell:
        return {}, layer(framework.Tensor(X))[0].asnumpy()
    start = framework.Tensor(np.zeros((BATCH, UNITS), "float32"))
    state = (start, start) if name == "LSTMCell" else start
    outputs = []
    for step in range(STEPS):
        state = layer(framework.Tensor(X[:, step]), state)
        outputs.append((state[0] if name == "LSTMCell" else state).asnumpy())
    return {}, np.stack(outputs, axis=1)


def chainer(name: str, given: Arrays | None, file: Path) -> tuple[Arrays, Any]:
    import chainer as framework

    link_of = getattr(framework.links, name)
    is_stack = name.startswith("NStep")
    link = link_of(1, INPUTS, UNITS, 0.0) if is_stack else link_of(INPUTS, UNITS)
    for key, parameter in link.namedparams():
        part = key.strip("/").replace("0/", "")
        parameter.data[...] = ending(part, parameter.shape, given)
    if given is None:
        framework.serializers.save_npz(str(file), link)
    if is_stack:
        starts = [None] * (2 if name == "NStepLSTM" else 1)
        ends = link(*starts, [framework.Variable(each) for each in X])[-1]
        return {}, np.stack([each.data for each in ends])
    state = framework.Variable(np.zeros((BATCH, UNITS), "float32"))
    if name == "StatefulGRU":
        link.set_state(state)
    outputs = []
    for step in range(STEPS):
        x = framework.Variable(X[:, step])
        state = link(state, x) if name == "StatelessGRU" else link(x)
        outputs.append(state.data)
    return {}, np.stack(outputs, axis=1)


def functions(name: str, given: Arrays | None, file: Path) -> tuple[Arrays, Any]:
    """Of nnabla."""
    return _nnabla(name, given, file)


def parametric_functions(name: str, given: Arrays | None, file: Path) -> tuple[Arrays, Any]:
    """Of nnabla."""
    return _nnabla(name, given, file)


def _nnabla(name: str, given: Arrays | None, file: Path) -> tuple[Arrays, Any]:
    import nnabla as framework
    from nnabla import parametric_functions as made

    framework.clear_parameters()

    def outputs() -> Any:
        states = [framework.Variable.from_numpy_array(np.zeros((1, 1, BATCH, UNITS)))]
        if name.startswith("lstm"):
            states *= 2
        if not name.endswith("_cell"):
            x = framework.Variable.from_numpy_array(X.swapaxes(0, 1))
            return getattr(made, name)(x, *states, num_layers=1, training=False)[0]
        states = [framework.Variable.from_numpy_array(np.zeros((BATCH, UNITS)))] * 2
        steps = []
        for step in range(STEPS):
            x = framework.Variable.from_numpy_array(X[:, step])
            states = made.lstm_cell(x, *states, UNITS)
            steps.append(states[0])
        return framework.functions.stack(*steps)

    outputs()  # makes the parameters
    for key, parameter in framework.get_parameters().items():
        part = "/".join(key.split("/")[1:])
        parameter.d = ending(part, parameter.shape, given)
    if given is None:
        framework.save_parameters(str(file))
    y = outputs()
    y.forward()
    return {}, y.d.swapaxes(0, 1)


def dynet(name: str, given: Arrays | None, file: Path) -> tuple[Arrays, Any]:
    import dynet as framework

    collection = framework.ParameterCollection()
    builder = getattr(framework, name)(1, INPUTS, UNITS, collection)
    used: Arrays = {}
    for number, parameter in enumerate(builder.param_collection().parameters_list()):
        values = ending(f"_{number}", parameter.shape(), given)
        parameter.set_value(values)
        used[parameter.name().lstrip("/")] = values
    outputs = []
    for sample in X:
        framework.renew_cg()
        steps = builder.initial_state().transduce([framework.inputVector(step) for step in sample])
        outputs.append([step.npvalue() for step in steps])
    return used, np.array(outputs, "float32")


def lasagne(name: str, given: Arrays | None, file: Path) -> tuple[Arrays, Any]:
    import theano.tensor.signal.pool

    # What Theano 1.0 calls the module that Lasagne 0.1 imports.
    theano.tensor.signal.downsample = theano.tensor.signal.pool
    sys.modules["theano.tensor.signal.downsample"] = theano.tensor.signal.pool
    from lasagne import layers

    settings = {"peepholes": False} if name == "LSTMLayer" else {}
    source = layers.InputLayer((BATCH, STEPS, INPUTS))
    layer = getattr(layers, name)(source, UNITS, name="net", **settings)
    used: Arrays = {}
    for parameter in layers.get_all_params(layer):
        values = parameter.get_value()
        if not parameter.name.endswith("_init"):  # the states at the start
            part = parameter.name.split(".")[-1]
            values = ending(part, values.shape, given)
            parameter.set_value(values)
        used[parameter.name] = values
    return used, layers.get_output(layer, theano.shared(X)).eval()


def tinygrad(name: str, given: Arrays | None, file: Path) -> tuple[Arrays, Any]:
    from tinygrad import Tensor, nn

    cell = getattr(nn, name)(INPUTS, UNITS)
    for key, tensor in nn.state.get_state_dict(cell).items():
        tensor.assign(Tensor(ending(key, tensor.shape, given))).realize()
    if given is None:
        nn.state.safe_save(nn.state.get_state_dict(cell), str(file))
    state = None
    outputs = []
    for step in range(STEPS):
        state = cell(Tensor(X[:, step]), state)
        outputs.append(state[0].numpy())
    return {}, np.stack(outputs, axis=1)


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
    np.save(folder / "x.npy", X)
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
            file = folder / f"{layer}{SUFFIXES.get(framework, '.npz')}"
            used, outputs = function(name, given, file)
            if used and not files:
                np.savez(file, **used)
        np.save(folder / f"{layer}.{end}.npy", np.asarray(outputs))


# Of files that the frameworks themselves write, where rnnweights reads them; .npz of others.
SUFFIXES = {
    "onnx": ".onnx",
    "mxnet": ".params",
    "mindspore": ".ckpt",
    "nnabla": ".h5",
    "tinygrad": ".safetensors",
}
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
    "paddle": ["paddle.LSTM", "paddle.GRU", "paddle.SimpleRNN"],
    "mxnet": ["mxnet.LSTM", "mxnet.GRU", "mxnet.LSTMCell", "mxnet.GRUCell"],
    "mindspore": [f"mindspore.{name}" for name in ("LSTM", "GRU", "RNN", "LSTMCell", "GRUCell")],
    "chainer": [
        *("chainer.NStepLSTM", "chainer.NStepGRU", "chainer.LSTM"),
        *("chainer.StatefulGRU", "chainer.StatelessGRU"),
    ],
    "nnabla": [
        *(f"nnabla.functions.{name}" for name in ("lstm", "gru", "rnn")),
        "nnabla.parametric_functions.lstm_cell",
    ],
    "dynet": [
        *("dynet.LSTMBuilder", "dynet.CompactVanillaLSTMBuilder"),
        *("dynet.GRUBuilder", "dynet.SimpleRNNBuilder"),
    ],
    "lasagne": ["lasagne.LSTMLayer", "lasagne.GRULayer"],
    "tinygrad": ["tinygrad.LSTMCell"],
}

if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), dict(pair.split("=", 1) for pair in sys.argv[3:]))
