"""Answers questions about checkpoints with the framework of this interpreter, which may be a Python
3.6: ``python in_framework.py FOLDER`` calls the function ``action`` of ``job.json`` with the
keywords of ``question``, and writes ``answer.json`` and, if there are arrays, ``answer.npz``.
`frameworks.ask` starts it by its path; it imports the framework and NumPy, and nothing of this
package.

It reads those checkpoints of TensorFlow that `tensorflow_files` does not, and those of orbax, with
tensorstore. It also loads converted checkpoints with Keras 3: saves them in another format, and
computes what source and target do. CuDNN's layout is described again here, so that the check does
not share the converter's mistakes.
"""

import glob
import json
import os
import re
import sys

import numpy

SAMPLES, STEPS = 3, 7
OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
GATES = {"LSTM": 4, "GRU": 3, "SimpleRNN": 1}


class Refusal(Exception):
    """What cannot be done, and its remedy, None if a Python with another framework could."""


def words(error):
    """The message of an error of a framework, on one line, without the configuration that Keras
    adds and its advice about decorators, and without the settings that tensorstore adds."""
    text = " ".join(str(error).split())
    return re.split(" Make sure custom classes| Full object config| \\[tensor", text)[0][:500]


def tensorflow(prefix):
    """Reads a checkpoint of TensorFlow. Returns its ``keys`` and, by their numbers, its arrays; as
    the array ``graph``, the bytes of the object graph, if there is one."""
    try:
        import tensorflow as tf
    except ImportError:
        raise Refusal("has no TensorFlow to read this checkpoint.", None) from None
    try:
        reader = tf.train.load_checkpoint(prefix)
    except Exception as error:
        raise Refusal(
            "says: " + words(error), "name a complete checkpoint of TensorFlow."
        ) from error
    shapes = reader.get_variable_to_shape_map()
    types = reader.get_variable_to_dtype_map()
    keys = [key for key in shapes if types[key].is_numpy_compatible and types[key] != tf.string]
    claimed = 0
    for key in keys:
        count = int(numpy.prod(shapes[key]))
        claimed += count * types[key].size
    size = 0
    files = glob.glob(glob.escape(prefix) + ".data-*")
    for file in files or [prefix]:  # one file, of Saver's first version
        size += os.path.getsize(file)
    if claimed > size:
        what = "its arrays should have {:,} bytes, but its files have only {:,}."
        raise Refusal(what.format(claimed, size), "use the complete checkpoint.")

    arrays = {}
    try:
        if OBJECT_GRAPH in shapes:
            arrays["graph"] = numpy.frombuffer(reader.get_tensor(OBJECT_GRAPH), "uint8")
        for number, key in enumerate(keys):
            arrays[str(number)] = reader.get_tensor(key)
    except Exception as error:
        raise Refusal("says: " + words(error), "use a checkpoint that is not damaged.") from error
    return {"keys": keys, "arrays": arrays}


def orbax(folder):
    """Reads a checkpoint of orbax with tensorstore: its ``keys``, the ``types`` of its arrays and,
    by their numbers, the arrays that NumPy has types for. Source: orbax/checkpoint/_src/metadata
    (tree.py) and serialization (tensorstore_utils.py), 0.12.8."""
    try:
        import tensorstore
    except ImportError:
        raise Refusal(
            "has no tensorstore, which reads orbax.", "pip install tensorstore."
        ) from None
    stores = []
    keys = []
    try:
        with open(os.path.join(folder, "_METADATA")) as file:
            about = json.load(file)
        for each in about["tree_metadata"].values():
            if each["value_metadata"]["value_type"] not in ("jax.Array", "np.ndarray"):
                continue  # a number, a text or an empty part of the tree
            keys.append([str(part["key"]) for part in each["key_metadata"]])
            stores.append(_opened(tensorstore, folder, ".".join(keys[-1]), about).result())
        claimed = sum(store.size * store.dtype.numpy_dtype.itemsize for store in stores)
        size = 0
        for place, _, names in os.walk(folder):
            size += sum(os.path.getsize(os.path.join(place, name)) for name in names)
        if claimed > 100 * size:
            what = "says: its arrays should have {:,} bytes, but its files have only {:,}."
            raise Refusal(what.format(claimed, size), "use the complete checkpoint.")
        arrays = {}
        for number, store in enumerate(stores):
            if store.dtype.numpy_dtype.kind in "biufc":
                arrays[str(number)] = store.read().result()
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Refusal("says: " + words(error), "use the complete checkpoint.") from error
    types = [store.dtype.name for store in stores]
    return {"keys": keys, "types": types, "arrays": arrays}


def _opened(tensorstore, folder, name, about):
    """The future of an array of orbax. Missing bytes are errors, where orbax has stored zeros, too;
    tensorstore would fill them with zeros."""
    store = {"driver": "file", "path": os.path.join(folder, name) + "/"}
    if about.get("use_ocdbt", True):
        base = "file://" + folder + "/"
        store = {"driver": "ocdbt", "base": base, "path": name + "/"}
    elif not os.path.realpath(store["path"]).startswith(os.path.realpath(folder) + os.sep):
        raise ValueError(name + " is outside of the checkpoint")
    driver = "zarr3" if about.get("use_zarr3") else "zarr"
    spec = {"driver": driver, "kvstore": store}
    if about.get("store_array_data_equal_to_fill_value"):
        spec["fill_missing_data_reads"] = False
    return tensorstore.open(spec, read=True, open=True)


def resave(source, target):
    """Loads a model with Keras 3 and saves it in the format that the name of `target` says.

    `source`, `target`: paths. Raises `Refusal` if Keras cannot do it.
    """
    keras = _keras()
    try:
        model = keras.models.load_model(source, compile=False)
        if target.endswith(".weights.h5"):
            model.save_weights(target)
        else:
            model.save(target)
    except Exception as error:
        what = "has Keras {}, which cannot load and save this model: {}"
        what = what.format(keras.__version__, words(error))
        raise Refusal(what, "write the format of the source, or .npz.") from error
    return {}


def check(source, target):
    """Runs two models on random inputs, if Keras 3 can load both.

    `source`, `target`: their paths. Returns ``largest``, the largest difference of their outputs
    (None: they were not run), and ``why`` they could not be run, or None.
    """
    keras = _keras()
    try:
        largest = _models_differ(keras, source, target)
    except Exception as error:
        return {"largest": None, "why": words(error)}
    return {"largest": largest, "why": None}


def outputs(cells, arrays):
    """Runs the layers of Keras 3 on their own.

    - `cells`: of each its ``number``, ``kind``, ``units``, its ``settings`` in Keras and the
      ``parts`` of its arrays in the order of Keras's weights.
    - `arrays`: those of all cells, as ``NUMBER/PART``, and ``NUMBER/inputs`` (batch, steps,
      features).

    Returns the ``version`` of Keras and the outputs of each cell by its number, at all time steps.
    """
    keras = _keras()
    answers = {}
    for cell in cells:
        number = str(cell["number"])
        own = [arrays[number + "/" + part] for part in cell["parts"]]
        settings = dict(cell["settings"], use_bias=len(own) == 3, return_sequences=True)
        layer = getattr(keras.layers, cell["kind"])(cell["units"], **settings)
        x = arrays[number + "/inputs"]
        layer.build(x.shape)
        layer.set_weights(own)
        answers[number] = keras.ops.convert_to_numpy(layer(x))
    return {"version": keras.__version__, "arrays": answers}


def _keras():
    try:
        import keras
    except ImportError:
        raise Refusal("has no Keras 3.", None) from None
    if not keras.__version__.startswith("3."):
        raise Refusal("has Keras {}, not 3.".format(keras.__version__), None)
    return keras


def _models_differ(keras, source, target):
    with keras.saving.custom_object_scope(_cudnn_classes(keras)):  # Bidirectional makes copies
        before = keras.models.load_model(source, compile=False)
        after = keras.models.load_model(target, compile=False)
    inputs = _random_inputs(keras, before)
    if len(inputs) == 1:
        inputs = inputs[0]

    outputs = _leaves(before(inputs))
    others = _leaves(after(inputs))
    differences = [_difference(keras, *pair) for pair in zip(outputs, others)]
    return float(numpy.max(differences))


def _difference(keras, first, second):
    """The largest difference between two outputs."""
    difference = keras.ops.convert_to_numpy(first) - keras.ops.convert_to_numpy(second)
    return float(numpy.abs(difference).max())


def _random_inputs(keras, model):
    """An array for each input of a model: zeros and ones if it may hold indices, else from a normal
    distribution. Dimensions whose size is open get `SAMPLES` and `STEPS`."""
    stream = numpy.random.RandomState(0)
    embedding = keras.layers.Embedding
    has_embedding = any(isinstance(layer, embedding) for layer in model.layers)
    inputs = []
    for tensor in model.inputs:
        shape = [size or STEPS for size in tensor.shape]
        shape[0] = tensor.shape[0] or SAMPLES
        kind = str(tensor.dtype)
        if has_embedding or "int" in kind:
            drawn = stream.randint(0, 2, shape)
        else:
            drawn = stream.normal(size=shape)
        inputs.append(drawn.astype(kind))
    return inputs


def _cudnn_classes(keras):
    """CuDNN's layers of Keras 2 by name."""
    cell_class = _cell_class(keras)
    kept = ("return_sequences", "return_state", "go_backwards", "stateful", "name")

    class CuDNN(keras.layers.RNN):
        gates = None  # of the subclass

        def __init__(self, units, **settings):
            settings = {name: settings[name] for name in kept if name in settings}
            super().__init__(cell_class(units, self.gates), **settings)
            self.units = units

        def get_config(self):
            config = super().get_config()
            config.pop("cell")
            return dict(config, units=self.units)

        @classmethod
        def from_config(cls, config):
            return cls(**config)

        def load_own_variables(self, store):
            for number, variable in enumerate(self.cell.weights):
                variable.assign(store[str(number)])

    return {
        "CuDNNLSTM": type("CuDNNLSTM", (CuDNN,), {"gates": GATES["LSTM"]}),
        "CuDNNGRU": type("CuDNNGRU", (CuDNN,), {"gates": GATES["GRU"]}),
    }


def _cell_class(keras):
    ops = keras.ops

    class Cell(keras.layers.Layer):
        """NVIDIA's equations, with the weights of a CuDNN layer of Keras 2: of each gate, i, f, c,
        o or z, r, h, the rows of its part of `kernel`, read in order, are cuDNN's, and its part of
        `state` is. Source: cuDNN's documentation, cudnnRNNMode_t; Keras 2.2.4."""

        def __init__(self, units, gates, **settings):
            super().__init__(**settings)
            self.units = self.output_size = units
            self.gates = gates
            self.state_size = [units]
            if gates == GATES["LSTM"]:
                self.state_size = [units, units]

        def build(self, shape):
            columns = self.gates * self.units
            self.kernel = self.add_weight((shape[-1], columns), name="kernel")
            self.state = self.add_weight((self.units, columns), name="state")
            self.bias = self.add_weight((2 * columns,), name="bias")

        def load_own_variables(self, store):
            pass  # they are the layer's

        def call(self, inputs, states, training=None):
            biases = ops.reshape(self.bias, (2, self.gates, self.units))
            of_inputs = ops.split(self.kernel, self.gates, axis=1)
            of_state = ops.split(self.state, self.gates, axis=1)
            a = []  # inputs times their matrix plus their bias
            q = []  # the same of the state
            for gate in range(self.gates):
                rows = ops.reshape(of_inputs[gate], (self.units, -1))
                product = ops.matmul(inputs, ops.transpose(rows))
                a.append(product + biases[0, gate])
                product = ops.matmul(states[0], ops.transpose(of_state[gate]))
                q.append(product + biases[1, gate])
            new = step(ops, a, q, states)
            return new[0], new

    return Cell


def step(ops, a, q, states):
    """The next states of a cell, the output first.

    `a`, `q`: for each gate, the inputs times their matrix plus their bias, and the same of the
    state, (batch, units) each; `states`: those before. Source: cuDNN's documentation,
    cudnnRNNMode_t.
    """
    if len(a) == GATES["SimpleRNN"]:
        return [ops.tanh(a[0] + q[0])]
    if len(a) == GATES["GRU"]:
        z = ops.sigmoid(a[0] + q[0])
        r = ops.sigmoid(a[1] + q[1])
        new = ops.tanh(a[2] + r * q[2])
        return [(1 - z) * new + z * states[0]]

    i = ops.sigmoid(a[0] + q[0])
    f = ops.sigmoid(a[1] + q[1])
    c = ops.tanh(a[2] + q[2])
    o = ops.sigmoid(a[3] + q[3])
    memory = f * states[1] + i * c
    return [o * ops.tanh(memory), memory]


def _leaves(tree):
    """The arrays in a tree of dicts, lists and tuples."""
    if isinstance(tree, dict):
        tree = [tree[key] for key in tree]
    if not isinstance(tree, (list, tuple)):
        return [tree]
    found = []
    for each in tree:
        found += _leaves(each)
    return found


ACTIONS = {
    "tensorflow": tensorflow,
    "orbax": orbax,
    "resave": resave,
    "check": check,
    "outputs": outputs,
}


def main(folder):
    with open(os.path.join(folder, "job.json")) as file:
        job = json.load(file)
    question = job["question"]
    given = os.path.join(folder, "question.npz")
    if os.path.exists(given):
        with numpy.load(given, allow_pickle=False) as file:
            question["arrays"] = {name: file[name] for name in file.files}
    action = ACTIONS[job["action"]]
    try:
        answer = action(**question)
        arrays = answer.pop("arrays", None)
        if arrays is not None:
            numpy.savez(os.path.join(folder, "answer.npz"), **arrays)
    except Refusal as error:
        what, remedy = error.args
        answer = {"error": what, "remedy": remedy}
    written = os.path.join(folder, "answer.new")
    with open(written, "w") as file:
        json.dump(answer, file)
    os.replace(written, os.path.join(folder, "answer.json"))


if __name__ == "__main__":
    main(sys.argv[1])
