"""Answers questions about checkpoints with the framework of this build: `main` calls the function
``action`` of ``job.json`` with the keywords of ``question``, and writes ``answer.json`` and, if
there are arrays, ``answer.npz``. Runs as a file alone, see `rnnbench.running.in_build`.

The arrays of a checkpoint are named by their numbers in the answer's ``names``. ``order`` is
``arrays`` if the names are in the order of the model's layers and their weights, else ``none``.
``optimizer`` is the number of arrays that belong to no layer.
"""

import glob
import json
import os
import re

import numpy

ATTRIBUTE = "/.ATTRIBUTES/VARIABLE_VALUE"
# A layer may be in a scope called training or optimizer: the names of Keras's classes decide, and
# the keys of objects.
OPTIMIZER = re.compile(
    r"(training(_\d+)?/)?(Adam|Adadelta|Adagrad|Adamax|Ftrl|Nadam|RMSprop|SGD)/"
    r"|(optimizer|keras_api)/.*\.ATTRIBUTES/"
    r"|.*(beta[12]_power|global_step|save_counter)(/\.ATTRIBUTES.*)?$|.*/\.OPTIMIZER_SLOT/"
)
SAMPLES, STEPS = 3, 7


class Refusal(Exception):
    """What cannot be done, and its remedy."""


def main(folder):
    with open(os.path.join(folder, "job.json")) as file:
        job = json.load(file)
    question = job["question"]
    given = os.path.join(folder, "question.npz")
    if os.path.exists(given):
        with numpy.load(given, allow_pickle=False) as file:
            question["arrays"] = {name: file[name] for name in file.files}
    action = {
        "tensorflow": tensorflow,
        "torch": torch,
        "resave": resave,
        "check": check,
    }
    try:
        answer = action[job["action"]](**question)
        arrays = answer.pop("arrays", None)
        if arrays is not None:
            numpy.savez(os.path.join(folder, "answer.npz"), **arrays)
    except Refusal as error:
        answer = {"error": error.args[0], "remedy": error.args[1]}
    with open(os.path.join(folder, "answer.new"), "w") as file:
        json.dump(answer, file)
    os.replace(os.path.join(folder, "answer.new"), os.path.join(folder, "answer.json"))


def tensorflow(path):
    """Reads a checkpoint of ``tf.train.Saver``, of Keras or a SavedModel."""
    try:
        import tensorflow as tf
    except ImportError:
        raise Refusal("has no TensorFlow to read this checkpoint.", "--build tf_2_21.") from None
    prefix = re.sub(r"\.(index|meta|data-\d+-of-\d+)$", "", path)
    if os.path.isdir(path):
        prefix = os.path.join(path, "variables", "variables")
        if not os.path.exists(os.path.join(path, "saved_model.pb")):
            prefix = tf.train.latest_checkpoint(path) or path
    try:
        reader = tf.train.load_checkpoint(prefix)
    except Exception as error:
        raise Refusal(_words(error), "name a complete checkpoint of TensorFlow.") from error
    shapes, types = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    size = sum(map(os.path.getsize, glob.glob(glob.escape(prefix) + ".data-*")))
    keys = [key for key in shapes if types[key].is_floating or types[key].is_integer]
    claimed = sum(int(numpy.prod(shapes[key])) * types[key].size for key in keys)
    if claimed > size:
        what = "its arrays should have {:,} bytes, but its files have only {:,}."
        raise Refusal(what.format(claimed, size), "use the complete checkpoint.")
    if "_CHECKPOINTABLE_OBJECT_GRAPH" in shapes:
        named, order = _of_objects(reader.get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH"))
    else:
        named, order = _of_graph(prefix + ".meta", keys)
    keys = set(keys)
    left_out = {key for key in keys if OPTIMIZER.match(key) or OPTIMIZER.match(named.get(key, key))}
    # The slots of an optimizer of TensorFlow 1 are named after their variable, and have its shape.
    parents = {key: key.rpartition("/")[0] for key in keys}
    left_out |= {key for key in keys if shapes[key] == shapes.get(parents[key])}
    ordered = [key for key in named if key in keys - left_out]
    if set(ordered) != keys - left_out:
        ordered, order = sorted(keys - left_out), "none"
    names = [named.get(key, key).replace(ATTRIBUTE, "") for key in ordered]
    if len(set(names)) < len(names):
        names = [key.replace(ATTRIBUTE, "") for key in ordered]
    try:
        arrays = {str(number): reader.get_tensor(key) for number, key in enumerate(ordered)}
    except Exception as error:
        raise Refusal(_words(error), "use a checkpoint that is not damaged.") from error
    return {
        "names": names,
        "order": order,
        "optimizer": len(left_out),
        "arrays": arrays,
    }


def _of_graph(meta, keys):
    """Names by key, in the order of creation, if there is the file with the graph."""
    if not os.path.exists(meta):
        return {key: key for key in sorted(keys)}, "none"
    from tensorflow.core.framework import variable_pb2
    from tensorflow.core.protobuf import meta_graph_pb2

    graph = meta_graph_pb2.MetaGraphDef()
    with open(meta, "rb") as file:
        graph.ParseFromString(file.read())
    names = []
    for text in graph.collection_def["variables"].bytes_list.value:
        variable = variable_pb2.VariableDef()
        variable.ParseFromString(text)
        names.append(variable.variable_name.partition(":")[0])
    return {name: name for name in names}, "arrays"


def _of_objects(text):
    """Names by key, in the order of the model's layers, if each has one set of arrays."""
    from tensorflow.core.protobuf import trackable_object_graph_pb2

    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    graph.ParseFromString(text)
    named, seen, order = {}, set(), "arrays"

    def visit(number):
        if number in seen:
            return
        seen.add(number)
        for attribute in graph.nodes[number].attributes:
            named[attribute.checkpoint_key] = attribute.full_name or attribute.checkpoint_key
        for child in graph.nodes[number].children:
            visit(child.node_id)

    layers = {}
    for child in graph.nodes[0].children:
        match = re.match(r"layer_with_weights-(\d+)$", child.local_name)
        if match:
            layers[int(match.group(1))] = child.node_id
    for number in sorted(layers):
        before = set(named)
        visit(layers[number])
        scopes = {named[key].rpartition("/")[0] for key in set(named) - before}
        directions = {re.sub(r"/(forward|backward)_[^/]*", "", scope) for scope in scopes}
        if len({re.sub(r"/[^/]*_cell(_\d+)?$", "", scope) for scope in directions}) > 1:
            order = "none"
    if not layers:
        order = "none"
    visit(0)
    return named, order


def torch(path):
    """Reads a ``state_dict`` of torch with its restricted unpickler, which runs no code."""
    try:
        import torch as framework
    except ImportError:
        raise Refusal("has no torch to read this file.", "--build keras3_torch.") from None
    try:
        loaded = framework.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        what = _words(error)
        if "weights_only" in what:  # torch advises to run the code in the file
            what = (
                "does not open it: it has more than arrays, such as a whole module, or is damaged."
            )
        raise Refusal(what, "torch.save(model.state_dict(), FILE).") from error
    if not isinstance(loaded, dict):
        what = "finds a {} in it, not a state_dict.".format(type(loaded).__name__)
        raise Refusal(what, "torch.save(model.state_dict(), FILE).")
    found = {}
    _flatten(loaded, "", found, framework.Tensor)
    state = [key for key, value in loaded.items() if _is_of_optimizer(value)]
    names = [name for name in found if name.partition(".")[0] not in state]
    prefixes = {name.partition(".")[0] for name in names}
    inside = [key for key in ("state_dict", "model_state_dict", "model") if prefixes == {key}]
    if inside and isinstance(loaded.get(inside[0]), dict):
        short = [name.partition(".")[2] for name in names]
    else:
        short = names
    try:
        arrays = {str(n): found[name].numpy() for n, name in enumerate(names)}
    except (TypeError, RuntimeError) as error:
        raise Refusal(_words(error), "convert it to float32 before saving it.") from error
    others = len(found) - len(names)
    return {
        "names": short,
        "order": "none",
        "optimizer": others,
        "arrays": arrays,
    }


def _is_of_optimizer(value):
    return isinstance(value, dict) and "param_groups" in value


def _flatten(value, name, found, kind):
    if isinstance(value, kind):
        found[name] = value
    elif isinstance(value, dict):
        for key, item in value.items():
            _flatten(item, "{}.{}".format(name, key) if name else str(key), found, kind)
    elif isinstance(value, (list, tuple)):
        _flatten(dict(enumerate(value)), name, found, kind)


def resave(source, target):
    """Loads a model with Keras 3 and saves it in the format that the name of `target` says."""
    keras = _keras()
    try:
        model = keras.models.load_model(source, compile=False)
        if target.endswith(".weights.h5"):
            model.save_weights(target)
        else:
            model.save(target)
    except Exception as error:
        what = "Keras {} cannot load and save this model: {}".format(
            keras.__version__, _words(error)
        )
        raise Refusal(what, "write the format of the source, or .npz.") from error
    return {}


def check(source, target, cells, arrays, activation):
    """Runs both networks on random inputs: the whole models if Keras 3 can load them, else each
    recurrent cell on its own. Returns ``largest``, the largest difference (None: nothing was run),
    and what was run."""
    keras = _keras()
    if source and target:
        try:
            return {"largest": _models_differ(keras, source, target), "ran": "models"}
        except Exception as error:
            why = _words(error)
    else:
        why = None
    differences = [_cells_differ(keras, cell, arrays, activation) for cell in cells]
    return {
        "largest": max(differences, default=None),
        "ran": "cells",
        "why": why,
    }


def _keras():
    try:
        import keras
    except ImportError:
        raise Refusal("has no Keras 3.", "--build tf_2_21.") from None
    if not keras.__version__.startswith("3."):
        raise Refusal("has Keras {}, not 3.".format(keras.__version__), "--build tf_2_21.")
    return keras


def _words(error):
    return " ".join(str(error).split())[:500]


def _models_differ(keras, source, target):
    models = [_load(keras, path) for path in (source, target)]
    stream, inputs = numpy.random.RandomState(0), []
    for tensor in models[0].inputs:
        shape = [STEPS if size is None else size for size in tensor.shape[1:]]
        shape.insert(0, tensor.shape[0] or SAMPLES)
        is_index = "int" in str(tensor.dtype) or _feeds_embedding(keras, models[0])
        drawn = stream.randint(0, 2, shape) if is_index else stream.normal(size=shape)
        inputs.append(drawn.astype(str(tensor.dtype)))
    outputs = [_listed(model(inputs if len(inputs) > 1 else inputs[0])) for model in models]
    pairs = zip(*([keras.ops.convert_to_numpy(each) for each in listed] for listed in outputs))
    return max(float(numpy.abs(first - second).max()) for first, second in pairs)


def _feeds_embedding(keras, model):
    return any(isinstance(layer, keras.layers.Embedding) for layer in model.layers)


def _listed(outputs):
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def _load(keras, path):
    """A model with CuDNN's layers computed by their equations."""
    with keras.saving.custom_object_scope(_classes(keras)):  # Bidirectional makes copies
        return keras.models.load_model(path, compile=False)


def _classes(keras):
    """CuDNN's layers of Keras 2 by name."""

    class Cell(keras.layers.Layer):
        def __init__(self, units, gates, **settings):
            super().__init__(**settings)
            self.units, self.gates = units, gates
            self.state_size = [units, units] if gates == 4 else [units]
            self.output_size = units

        def build(self, shape):
            columns = self.gates * self.units
            for name, size in (("kernel", (shape[-1], columns)), ("state", (self.units, columns)),
                               ("bias", (2 * columns,))):  # fmt: skip
                setattr(self, "own_" + name, self.add_weight(shape=size, name=name))

        def load_own_variables(self, store):
            pass  # they are the layer's

        def call(self, inputs, states, training=None):
            ops, units, gates = keras.ops, self.units, self.gates
            given, of_state = ops.split(ops.reshape(self.own_bias, (2, gates, units)), 2)
            a, q = [], []
            for gate in range(gates):
                columns = slice(gate * units, (gate + 1) * units)
                matrix = ops.reshape(self.own_kernel[:, columns], (units, inputs.shape[-1]))
                a.append(ops.matmul(inputs, ops.transpose(matrix)) + given[0, gate])
                matrix = ops.transpose(self.own_state[:, columns])
                q.append(ops.matmul(states[0], matrix) + of_state[0, gate])
            return step(ops, a, q, states)

    def layer(name, gates):
        def __init__(self, units, **settings):
            kept = ("return_sequences", "return_state", "go_backwards", "stateful", "name")
            settings = {key: value for key, value in settings.items() if key in kept}
            keras.layers.RNN.__init__(self, Cell(units, gates), **settings)
            self.units = units

        def get_config(self):
            config = keras.layers.RNN.get_config(self)
            config.pop("cell")
            return dict(config, units=self.units)

        def load_own_variables(self, store):
            for number, variable in enumerate(self.cell.weights):
                variable.assign(store[str(number)])

        methods = {"__init__": __init__, "get_config": get_config,
                   "load_own_variables": load_own_variables,
                   "from_config": classmethod(lambda cls, config: cls(**config))}  # fmt: skip
        return type(name, (keras.layers.RNN,), methods)

    return {"CuDNNLSTM": layer("CuDNNLSTM", 4), "CuDNNGRU": layer("CuDNNGRU", 3)}


def step(ops, a, q, states):
    """NVIDIA's equations: `a` and `q` are input and state times their matrices plus their biases,
    for the gates i, f, c, o or z, r, h. Source: cuDNN's documentation, cudnnRNNMode_t."""
    if len(a) == 4:
        i, f, c, o = (first + second for first, second in zip(a, q))
        memory = ops.sigmoid(f) * states[1] + ops.sigmoid(i) * ops.tanh(c)
        hidden = ops.sigmoid(o) * ops.tanh(memory)
        return hidden, [hidden, memory]
    z, r = ops.sigmoid(a[0] + q[0]), ops.sigmoid(a[1] + q[1])
    new = ops.tanh(a[2] + r * q[2])
    hidden = (1 - z) * new + z * states[0]
    return hidden, [hidden]


class _Numpy:
    tanh = staticmethod(numpy.tanh)

    @staticmethod
    def sigmoid(value):
        return 1 / (1 + numpy.exp(-value))


def _cells_differ(keras, cell, arrays, activation):
    """The largest difference between the outputs of a cell in both files."""
    stream = numpy.random.RandomState(0)
    x = stream.normal(size=(SAMPLES, STEPS, cell["inputs"])).astype("float32")
    outputs = []
    for side in ("source", "target"):
        own = [
            arrays["{}/{}/{}".format(cell["number"], side, part)] for part in cell[side]["parts"]
        ]
        layout = cell[side]["layout"]
        if layout == "keras":
            outputs.append(_by_keras(keras, cell, own, x, activation))
        else:
            outputs.append(by_equations(matrices(cell, layout, own), x))
    return float(numpy.abs(outputs[0] - outputs[1]).max())


def _by_keras(keras, cell, own, x, activation):
    settings = dict(cell["settings"] or {}, units=cell["units"], use_bias=len(own) == 3)
    if cell["kind"] != "SimpleRNN":
        settings.setdefault("recurrent_activation", activation)
    if cell["kind"] == "GRU":
        settings["reset_after"] = (len(own) == 3 and own[2].ndim == 2) or cell["reset_after"]
    layer = getattr(keras.layers, cell["kind"])(return_sequences=True, **settings)
    layer.build(x.shape)
    layer.set_weights(own)
    return keras.ops.convert_to_numpy(layer(x))


def matrices(cell, layout, own):
    """[W], [R], [b_W], [b_R] of the gates i, f, c, o or z, r, h, from a file's own arrays."""
    gates, units = {"LSTM": 4, "GRU": 3, "SimpleRNN": 1}[cell["kind"]], cell["units"]
    if layout == "cudnn":
        blocks = [numpy.split(each, gates, axis=1) for each in own[:2]]
        W = [block.reshape(units, -1) for block in blocks[0]]
        return (W, blocks[1], *own[2].reshape(2, gates, units))
    if layout == "torch":
        biases = own[2:] or [numpy.zeros(gates * units)] * 2
        parts = [numpy.split(each, gates) for each in (*own[:2], *biases)]
    else:
        parts = _of_buffer(own[0].ravel(), cell, gates)
    order = (1, 0, 2) if gates == 3 else range(gates)
    return tuple([part[gate] for gate in order] for part in parts)


def _of_buffer(buffer, cell, gates):
    """The matrices and biases of pseudo-layer ``cell["place"]`` in a buffer of cuDNN."""
    units, directions, sizes = cell["units"], cell["directions"], []
    count = cell["layers"] * directions
    first = buffer.size - 2 * gates * units * count
    for number in range(count):
        inputs = directions * units if number >= directions else None
        sizes.append(inputs)
    rest = sum(gates * units * (units + (inputs or 0)) for inputs in sizes)
    features = (first - rest) // (gates * units * directions)
    start = 0
    for number, inputs in enumerate(sizes):
        width = gates * units * (inputs or features)
        if number == cell["place"]:
            W = buffer[start : start + width].reshape(gates, units, -1)
            R = buffer[start + width :][: gates * units * units].reshape(gates, units, units)
        start += width + gates * units * units
    biases = buffer[first:].reshape(count, 2, gates, units)[cell["place"]]
    return W, R, biases[0], biases[1]


def by_equations(parts, x):
    W, R, given, of_state = parts
    hidden = numpy.zeros((len(x), len(W[0])))
    states, outputs = [hidden, hidden], []
    for at_once in numpy.swapaxes(x.astype("float64"), 0, 1):
        a = [at_once @ matrix.T + bias for matrix, bias in zip(W, given)]
        q = [states[0] @ matrix.T + bias for matrix, bias in zip(R, of_state)]
        if len(W) == 1:
            hidden = numpy.tanh(a[0] + q[0])
            states = [hidden]
        else:
            hidden, states = step(_Numpy, a, q, states)
        outputs.append(hidden)
    return numpy.stack(outputs, axis=1)
