"""A ``torch.nn.Module`` from the weights. Its recurrent layers are torch's own.

The options: ``compiled``, whether ``torch.compile`` compiles it, anew for other shapes;
``precision``: ``int8`` (torch's dynamic quantization: weights, and inputs of products in each call)
or ``bfloat16`` (weights and computation).
"""

import importlib.util
import json
import shutil
from pathlib import Path

import numpy

from rnnserve.refusals import Refused, of_layer, of_precision
from rnnserve.walk import (
    Value,
    Walk,
    activation_name,
    arrays_of,
    check_directions,
    concatenated,
    flat,
)

FIXED_SHAPES = False
MODULE = Path(__file__).with_name("torch_module.py")
LINES = """\
# once: from rnnserve import torch_eager; torch_eager.export(model, arrays, folder)
import torch
from torch_module import Model  # which the folder has
torch.set_num_threads(HOW_MANY)
model = Model(".")MORE
with torch.inference_mode():
    outputs = model([torch.from_numpy(array) for array in arrays])  # in the model's order
"""
ACTIVATIONS = ("linear", "tanh", "sigmoid", "relu", "elu", "softplus", "softsign", "softmax")
PRECISIONS = ("float32", "bfloat16", "int8")
NO_MASKS = "torch.nn has no masks"
# Keras's cell → that of `torch_module.CELLS`, its gates as places among Keras's (GRU: z, r, h).
CELLS = {
    "LSTMCell": ("lstm", (0, 1, 2, 3)),
    "GRUCell": ("gru", (1, 0, 2)),
    "SimpleRNNCell": ("rnn", (0,)),
}


def CODE(compiled=False, precision="float32"):
    more = ""
    if precision != "float32":
        more += f".in_precision({precision!r})"
    lines = LINES.replace("MORE", more)
    if compiled:
        lines = lines.replace(f'Model("."){more}', f'torch.compile(Model("."){more})')
    return lines


def export(model, arrays, folder):
    if importlib.util.find_spec("torch") is None:
        raise ImportError("torch is not installed", name="torch")
    steps = _Steps()
    inputs = [Value(number, tuple(each.shape)) for number, each in enumerate(model.inputs)]
    steps.number = len(inputs)
    outputs = flat(steps.model(model, inputs))
    described = {"steps": steps.found, "outputs": [value.tensor for value in outputs]}
    (folder / "model.json").write_text(json.dumps(described))
    numpy.savez(folder / "model.npz", **steps.arrays)
    shutil.copy(MODULE, folder)


def load(folder, threads, compiled=False, precision="float32"):
    if precision not in PRECISIONS:
        raise of_precision("torch", precision, PRECISIONS)
    import torch

    from rnnserve.torch_module import Model

    torch.set_num_threads(threads)
    if torch.get_num_interop_threads() != 1:
        torch.set_num_interop_threads(1)  # once in a process
    used = torch.get_num_threads()
    if used != threads:
        raise Refused(f"torch has {used} threads, not {threads}")
    try:
        model = Model(folder).in_precision(precision)
    except ValueError as error:
        raise Refused(str(error)) from error
    if compiled:
        model = torch.compile(model)

    def answer(arrays):
        with torch.inference_mode():
            outputs = model([torch.from_numpy(array) for array in arrays])
        return [output.numpy() for output in outputs]

    return answer


class _Steps(Walk):
    """What `torch_module.Model` does one after the other, and its weights by name."""

    def __init__(self):
        self.found = []
        self.arrays = {}
        self.number = 0

    def mask_operation(self, operation, kind, arguments):
        raise of_layer(operation, NO_MASKS)

    def masked(self, layer, value, mask):
        raise of_layer(layer, NO_MASKS)

    def of_Masking(self, layer, value):
        raise of_layer(layer, NO_MASKS)

    def merged(self, layer, kind, values):
        if kind != "Concatenate":
            raise of_layer(layer, "has several inputs")
        axis = layer.axis % len(values[0].shape)
        return self.step(kind, values, {"axis": axis}, {}, concatenated(values, axis))

    def bidirectional(self, layer, value, states):
        if layer.merge_mode != "concat":
            raise of_layer(layer, f"torch.nn has no merge_mode={layer.merge_mode}")
        check_directions(layer)
        return self.directions(layer, [layer.forward_layer, layer.backward_layer], value, states)

    def recurrent(self, layer, value, states):
        return self.directions(layer, [layer], value, states)

    def step(self, kind, values, settings, arrays, shape):
        """Adds a step and returns its output. `arrays`: name → array of its part."""
        for name, array in arrays.items():
            array = numpy.ascontiguousarray(array, "float32")
            self.arrays[f"parts.{len(self.found)}.{name}"] = array
        numbers = [value.tensor for value in values]
        self.found.append({"kind": kind, "inputs": numbers, "settings": settings})
        self.number += 1
        return Value(self.number - 1, shape)

    def of_Activation(self, layer, value):
        name = _activation(layer, layer.activation, ACTIVATIONS)
        if name == "linear":
            return value
        return self.step("Activation", [value], {"activation": name}, {}, value.shape)

    def of_Dense(self, layer, value):
        settings = {"in_features": value.shape[-1], "out_features": layer.units}
        arrays = {"weight": numpy.asarray(layer.kernel).T, "bias": numpy.zeros(layer.units)}
        if layer.use_bias:
            arrays["bias"] = numpy.asarray(layer.bias)
        shape = (*value.shape[:-1], layer.units)
        return self.of_Activation(layer, self.step("Linear", [value], settings, arrays, shape))

    def of_Embedding(self, layer, value):
        if layer.mask_zero:
            raise of_layer(layer, NO_MASKS)
        settings = {"num_embeddings": layer.input_dim, "embedding_dim": layer.output_dim}
        arrays = {"weight": numpy.asarray(layer.embeddings)}
        return self.step("Embedding", [value], settings, arrays, (*value.shape, layer.output_dim))

    def directions(self, layer, directions, value, states):
        """The step of a `layer` that computes its one direction or both."""
        if states is not None:
            raise of_layer(layer, "has further arguments: initial_state")
        first = directions[0]
        kind, options = _kind(first)
        _, order = CELLS[type(first.cell).__name__]
        arrays = {}
        for each, suffix in zip(directions, ("", "_reverse"), strict=False):
            if _kind(each) != (kind, options):
                raise of_layer(layer, "its two layers have different settings")
            kernel, recurrent, (bias, second_bias) = arrays_of(each.cell, order)
            arrays[f"layer.weight_ih_l0{suffix}"] = kernel.T
            arrays[f"layer.weight_hh_l0{suffix}"] = recurrent.T
            arrays[f"layer.bias_ih_l0{suffix}"] = bias
            arrays[f"layer.bias_hh_l0{suffix}"] = second_bias
        if first.return_state or first.stateful:
            raise of_layer(layer, "return_state and stateful have no translation")
        units = first.cell.units
        settings = {
            "features": value.shape[-1],
            "cell": kind,
            "units": units,
            "both": len(directions) == 2,
            "backwards": first.go_backwards,
            "sequences": first.return_sequences,
            "options": options,
        }
        shape = (value.shape[0], len(directions) * units)
        if first.return_sequences:
            shape = (value.shape[0], value.shape[1], shape[1])
        return self.step("Recurrent", [value], settings, arrays, shape)


def _activation(layer, activation, known):
    name = activation_name(layer, activation)
    if name not in known:
        raise of_layer(layer, f"torch.nn has no {name} there")
    return name


def _kind(layer):
    """(the cell of `torch_module.CELLS`, further arguments of its class)."""
    cell = layer.cell
    name = type(cell).__name__
    if name not in CELLS or type(cell).__module__.partition(".")[0] != "keras":
        raise of_layer(layer, f"the cell {name} is not in torch.nn")
    kind, _ = CELLS[name]
    if kind == "rnn":
        return kind, {"nonlinearity": _activation(layer, cell.activation, ("tanh", "relu"))}
    _activation(layer, cell.activation, ("tanh",))
    _activation(layer, cell.recurrent_activation, ("sigmoid",))
    if kind == "gru" and not cell.reset_after:
        raise of_layer(layer, "torch's GRU resets after the product, this one before it")
    return kind, {}
