"""A Keras model as an ONNX graph in which each recurrent layer is one LSTM, GRU or RNN node.

Keras's own export writes a ``Loop`` for a GRU, for masks and for most activations. This module
walks through the functional graph of the model and writes one node for each recurrent layer, from
its weights. It refuses every layer and option that it does not know, by the layer's name.

Masks may have any form. The valid steps of a sample are moved to the front, in their order, and the
node gets their number as ``sequence_lens``; its outputs are moved back, so that a masked step has
the output of the step before it, as in Keras.
"""

from dataclasses import dataclass

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

from rnnserve.refusals import Refused, of_layer
from rnnserve.walk import (
    MERGE_MODES,
    Value,
    Walk,
    activation_name,
    arrays_of,
    check_class,
    check_directions,
    concatenated,
    flat,
    is_last_axis,
)

OPSET = 17
IR_VERSION = 10
# Keras's name of an activation → ONNX's name, its attributes.
ACTIVATIONS = {
    "tanh": ("Tanh", {}),
    "sigmoid": ("Sigmoid", {}),
    "relu": ("Relu", {}),
    # Keras 3; ONNX's default is 0.2, as in Keras 2
    "hard_sigmoid": ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}),
    "softsign": ("Softsign", {}),
    "softplus": ("Softplus", {}),
    "elu": ("Elu", {"alpha": 1.0}),
}
INSIDE_NODES = dict(ACTIVATIONS, linear=("Affine", {"alpha": 1.0, "beta": 0.0}))
BEHIND_LAYERS = dict(ACTIVATIONS, softmax=("Softmax", {"axis": -1}), exponential=("Exp", {}))
# Keras's cell → the kind of the node, its gates as places among Keras's (LSTM: i, f, c, o).
NODES = {
    "LSTMCell": ("LSTM", (0, 3, 1, 2)),
    "GRUCell": ("GRU", (0, 1, 2)),
    "SimpleRNNCell": ("RNN", (0,)),
}
LAST = 2**31 - 1  # beyond the last step of any sequence
TYPES = {"float32": TensorProto.FLOAT, "int32": TensorProto.INT32, "int64": TensorProto.INT64}


def write(model, path, trusts_lengths=True):
    """Writes `model` to the file `path`. Raises `Refused` if it has a layer that the graph cannot
    carry.

    `trusts_lengths`: False for a runtime whose nodes ignore ``sequence_lens`` in their last output:
    with masks, it is then taken from the outputs of all steps.
    """
    graph = _Graph(trusts_lengths)
    inputs = []
    declared = []
    for number, tensor in enumerate(model.inputs):
        if tensor.dtype not in TYPES:
            raise Refused(f"input {tensor.name}: {tensor.dtype} is not float32, int32 or int64")
        name = f"input_{number}"
        inputs.append(Value(name, tuple(tensor.shape)))
        declared.append(_declared(name, TYPES[tensor.dtype], tensor.shape))
    outputs = flat(graph.model(model, inputs))
    results = []
    for number, (value, tensor) in enumerate(zip(outputs, model.outputs, strict=True)):
        name = f"output_{number}"
        graph.nodes.append(helper.make_node("Identity", [value.tensor], [name]))
        results.append(_declared(name, TensorProto.FLOAT, tensor.shape))
    made = helper.make_graph(graph.nodes, "model", declared, results, graph.constants)
    opset = helper.make_opsetid("", OPSET)
    proto = helper.make_model(made, opset_imports=[opset], ir_version=IR_VERSION)
    onnx.checker.check_model(proto)
    onnx.save(proto, str(path))


def _declared(name, kind, shape):
    """An input or output of the graph, with names for what is free in its shape."""
    sizes = [size or f"{name}_{axis}" for axis, size in enumerate(shape)]
    if not shape[0]:
        sizes[0] = "batch"
    return helper.make_tensor_value_info(name, kind, sizes)


class _Graph(Walk):
    """The nodes and constants so far. A method for each kind of layer adds to them."""

    def __init__(self, trusts_lengths):
        self.trusts_lengths = trusts_lengths
        self.nodes = []
        self.constants = []
        self.number = 0

    # What the graph is made of.

    def name(self, hint):
        self.number += 1
        return f"{hint}_{self.number}"

    def constant(self, array, dtype="float32"):
        name = self.name("constant")
        array = numpy.ascontiguousarray(array, dtype)
        if numpy.ndim(array) and not array.shape:
            array = array.reshape(())
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def scalar(self, value, dtype):
        name = self.name("constant")
        self.constants.append(numpy_helper.from_array(numpy.array(value, dtype), name))
        return name

    def node(self, op, inputs, **attributes):
        """Adds a node with one output and returns the output's name."""
        output = self.name(op)
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def axes(self, *numbers):
        return self.constant(numpy.array(numbers), "int64")

    # The walk.

    def mask_operation(self, operation, kind, arguments):
        """The operations of which Keras makes the masks of Embedding and Masking."""
        value = arguments[0]
        if kind == "NotEqual" and len(arguments) == 2 and not isinstance(arguments[1], Value):
            name = self.node("Cast", [value.tensor], to=TensorProto.FLOAT)
            name = self.node("Equal", [name, self.scalar(arguments[1], "float32")])
            return Value(self.node("Not", [name]), value.shape)
        if kind == "Any" and is_last_axis(operation.axis, value.shape) and not operation.keepdims:
            name = self.node("Cast", [value.tensor], to=TensorProto.FLOAT)
            name = self.node("ReduceMax", [name], axes=[-1], keepdims=0)
            return Value(self.node("Cast", [name], to=TensorProto.BOOL), value.shape[:-1])
        raise of_layer(operation, f"the operation {kind} has no translation")

    # Layers that are not recurrent.

    def activated(self, layer, value, activation):
        name = activation_name(layer, activation)
        if name == "linear":
            return value
        if name not in BEHIND_LAYERS:
            raise of_layer(layer, f"the activation {name} has no translation")
        op, attributes = BEHIND_LAYERS[name]
        return Value(self.node(op, [value.tensor], **attributes), value.shape, value.mask)

    def of_Activation(self, layer, value):
        return self.activated(layer, value, layer.activation)

    def of_Dense(self, layer, value):
        if getattr(layer, "quantization_mode", None):
            raise of_layer(layer, "is quantized")
        name = self.node("MatMul", [value.tensor, self.constant(layer.kernel)])
        if layer.use_bias:
            name = self.node("Add", [name, self.constant(layer.bias)])
        product = Value(name, (*value.shape[:-1], layer.units), value.mask)
        return self.activated(layer, product, layer.activation)

    def of_TimeDistributed(self, layer, value):
        import keras

        if not isinstance(layer.layer, keras.layers.Dense):
            raise of_layer(layer, "only a Dense layer inside TimeDistributed has a translation")
        return self.of_Dense(layer.layer, value)

    def of_Embedding(self, layer, value):
        indices = self.node("Cast", [value.tensor], to=TensorProto.INT64)
        mask = None
        if layer.mask_zero:
            is_zero = self.node("Equal", [indices, self.scalar(0, "int64")])
            mask = self.node("Not", [is_zero])
        name = self.node("Gather", [self.constant(layer.embeddings), indices])
        return Value(name, (*value.shape, layer.output_dim), mask)

    def of_Masking(self, layer, value):
        masked = self.node("Equal", [value.tensor, self.scalar(layer.mask_value, "float32")])
        differs = self.node("Cast", [self.node("Not", [masked])], to=TensorProto.FLOAT)
        kept = self.node("ReduceMax", [differs], axes=[-1], keepdims=1)
        name = self.node("Mul", [value.tensor, kept])
        last = self.node("Squeeze", [kept, self.axes(-1)])
        return Value(name, value.shape, self.node("Cast", [last], to=TensorProto.BOOL))

    def of_LayerNormalization(self, layer, value):
        if not is_last_axis(layer.axis, value.shape):
            raise of_layer(layer, "normalizes another axis than the last one")
        if getattr(layer, "rms_scaling", False):
            raise of_layer(layer, "has rms_scaling")
        size = value.shape[-1]
        gamma = layer.gamma if layer.scale else numpy.ones(size)
        beta = layer.beta if layer.center else numpy.zeros(size)
        inputs = [value.tensor, self.constant(gamma), self.constant(beta)]
        name = self.node("LayerNormalization", inputs, axis=-1, epsilon=layer.epsilon)
        return Value(name, value.shape, value.mask)

    def of_Flatten(self, layer, value):
        if None in value.shape[1:]:
            raise of_layer(layer, "flattens a free length")
        size = int(numpy.prod(value.shape[1:]))
        return Value(self.node("Flatten", [value.tensor], axis=1), (value.shape[0], size))

    def of_RepeatVector(self, layer, value):
        name = self.node("Unsqueeze", [value.tensor, self.axes(1)])
        name = self.node("Tile", [name, self.axes(1, layer.n, 1)])
        return Value(name, (value.shape[0], layer.n, value.shape[-1]))

    def of_GlobalMaxPooling1D(self, layer, value):
        return self.pooled(layer, value, "ReduceMax")

    def of_GlobalAveragePooling1D(self, layer, value):
        if value.mask:
            raise of_layer(layer, "averages a masked sequence")
        return self.pooled(layer, value, "ReduceMean")

    def pooled(self, layer, value, op):
        if layer.data_format != "channels_last":
            raise of_layer(layer, "has data_format=channels_first")
        name = self.node(op, [value.tensor], axes=[1], keepdims=int(layer.keepdims))
        shape = (value.shape[0], value.shape[2])
        if layer.keepdims:
            shape = (value.shape[0], 1, value.shape[2])
        return Value(name, shape)

    def merged(self, layer, kind, values):
        if any(value.mask for value in values):
            raise of_layer(layer, f"{kind} of masked sequences has no translation")
        shape = values[0].shape
        axis = None
        if kind == "Concatenate":
            axis = layer.axis % len(shape)
            shape = concatenated(values, axis)
        elif any(value.shape != shape for value in values):
            raise of_layer(layer, f"{kind} of different shapes has no translation")
        return Value(self.joined(kind, [value.tensor for value in values], axis), shape)

    def joined(self, kind, names, axis):
        if kind == "Concatenate":
            return self.node("Concat", names, axis=axis)
        op = "Mul" if kind == "Multiply" else "Add"
        name = names[0]
        for other in names[1:]:
            name = self.node(op, [name, other])
        if kind == "Average":
            name = self.node("Div", [name, self.scalar(len(names), "float32")])
        return name

    # Recurrent layers.

    def recurrent(self, layer, value, states):
        if layer.go_backwards and layer.return_sequences and value.mask:
            raise of_layer(layer, "go_backwards with a mask and return_sequences")
        return self.directions(layer, [layer], value, states)

    def bidirectional(self, layer, value, states):
        check_directions(layer)
        parts = [layer.forward_layer, layer.backward_layer]
        settings = [(*_attributes(each, each.cell), each.cell.use_bias) for each in parts]
        if settings[0] != settings[1]:
            raise of_layer(layer, "its two layers have different settings")
        if states is not None:
            raise of_layer(layer, "Bidirectional with initial states has no translation")
        return self.directions(layer, parts, value, None)

    def reversed(self, name):
        """A sequence (batch, time, units) from its last to its first step."""
        start, end = self.axes(-1), self.axes(-LAST)
        return self.node("Slice", [name, start, end, self.axes(1), self.axes(-1)])

    def directions(self, layer, parts, value, states):
        """The outputs of a `layer` that computes `parts`, its one direction or both."""
        for each in parts:
            if each.stateful:
                raise of_layer(each, "stateful=True: an ONNX graph keeps no states between calls")
            check_class(each, each.cell)
        sequences, last = _Node(self, parts, value).run(states)
        batch, time, _ = value.shape
        units = parts[0].cell.units
        names = last[0]
        shape = (batch, units)
        mask = None
        if layer.return_sequences:
            names = sequences
            if len(parts) == 1 and layer.go_backwards:
                names = [self.reversed(sequences[0])]
            shape = (batch, time, units)
            mask = value.mask
        mode = getattr(layer, "merge_mode", None)
        if mode is not None:
            names = [self.joined(MERGE_MODES[mode], names, -1)]
            if mode == "concat":
                shape = (*shape[:-1], 2 * units)
        outputs = [Value(name, shape, mask) for name in names]
        if layer.return_state:
            for direction in range(len(parts)):
                outputs += [Value(state[direction], (batch, units)) for state in last]
        return outputs if len(outputs) > 1 else outputs[0]


class _Node:
    """One recurrent node: of the one direction of a layer, or of both, the `parts`."""

    def __init__(self, graph, parts, value):
        self.graph = graph
        self.layer = parts[0]
        self.cells = [each.cell for each in parts]
        self.backwards = [each.go_backwards for each in parts]
        self.value = value

    def run(self, states):
        """(sequences, last): for each direction the name of all outputs (batch, time, units); for
        each state the names of the last one, by direction, (batch, units)."""
        graph = self.graph
        kind, attributes = _attributes(self.layer, self.cells[0])
        direction = "reverse" if self.backwards[0] else "forward"
        if len(self.cells) == 2:
            direction = "bidirectional"
            for name in ("activations", "activation_alpha", "activation_beta"):
                if name in attributes:
                    attributes[name] = attributes[name] * 2
        inputs = [self.value.tensor]
        places = None
        lengths = ""
        if self.value.mask:
            places, lengths = self.places()
            rows = graph.node("Unsqueeze", [places.order, graph.axes(-1)])
            inputs = [graph.node("GatherND", [self.value.tensor, rows], batch_dims=1)]
        time_major = graph.node("Transpose", inputs, perm=[1, 0, 2])
        inputs = [time_major, *self.arrays(), lengths]
        for state in flat(states or ()):
            inputs.append(graph.node("Unsqueeze", [state.tensor, graph.axes(0)]))
        if not inputs[-1]:
            inputs.pop()
        count = 2 if kind == "LSTM" else 1
        outputs = [graph.name(f"{kind}_{name}") for name in ("all", "h", "c")[: count + 1]]
        made = helper.make_node(kind, inputs, outputs, direction=direction, **attributes)
        graph.nodes.append(made)
        numbers = range(len(self.cells))
        sequences = []
        if self.layer.return_sequences:
            sequences = [self.sequence(outputs[0], number, places) for number in numbers]
        if places is not None and not graph.trusts_lengths:
            return sequences, self.last_of_all(outputs[0], lengths)
        last = []
        for output in outputs[1:]:
            last.append([self.part(output, number, 0) for number in numbers])
        return sequences, last

    def arrays(self):
        """The constants W, R and B of all directions."""
        _, order = NODES[type(self.cells[0]).__name__]
        of_cells = []
        for cell in self.cells:
            kernel, recurrent, bias = arrays_of(cell, order)
            of_cells.append((kernel.T, recurrent.T, bias.reshape(-1)))
        return [self.graph.constant(numpy.stack(each)) for each in zip(*of_cells, strict=True)]

    def last_of_all(self, name, lengths):
        """The last outputs by direction, (batch, units), from those of all steps: backwards, the
        last one is that of the first step."""
        graph = self.graph
        if self.layer.return_state and type(self.cells[0]).__name__ == "LSTMCell":
            raise of_layer(
                self.layer, "returns its state, which this runtime has wrong with a mask"
            )
        zero = graph.scalar(0, "int64")
        wide = graph.node("Cast", [lengths], to=TensorProto.INT64)
        newest = graph.node("Max", [graph.node("Sub", [wide, graph.scalar(1, "int64")]), zero])
        row = graph.node("Unsqueeze", [newest, graph.axes(-1)])
        is_there = graph.node("Unsqueeze", [graph.node("Greater", [wide, zero]), graph.axes(-1)])
        found = []
        for number, is_backwards in enumerate(self.backwards):
            outputs = self.of_direction(name, number)
            if is_backwards:
                chosen = graph.node("Gather", [outputs, zero], axis=1)
            else:
                chosen = graph.node("GatherND", [outputs, row], batch_dims=1)
            inputs = [is_there, chosen, graph.scalar(0, "float32")]
            found.append(graph.node("Where", inputs))
        return [found]

    def part(self, name, number, axis):
        index = self.graph.scalar(number, "int64")
        return self.graph.node("Gather", [name, index], axis=axis)

    def of_direction(self, name, number):
        """The outputs of a direction, (batch, time, units), as the node has them."""
        return self.graph.node("Transpose", [self.part(name, number, 1)], perm=[1, 0, 2])

    def sequence(self, name, number, places):
        """The outputs of a direction in the order of time, (batch, time, units)."""
        graph = self.graph
        outputs = self.of_direction(name, number)
        if places is None:
            return outputs
        # Forwards, a masked step repeats the one before it; backwards, the one after it.
        is_backwards = self.backwards[number]
        index = places.valid_before if is_backwards else places.newest
        rows = graph.node("Unsqueeze", [index, graph.axes(-1)])
        gathered = graph.node("GatherND", [outputs, rows], batch_dims=1)
        if self.layer.zero_output_for_mask:
            shown = self.value.mask
        elif is_backwards:
            return gathered  # behind its last valid step, the node's outputs are zero
        else:
            shown = places.has_begun
        shown = graph.node("Unsqueeze", [shown, graph.axes(-1)])
        return graph.node("Where", [shown, gathered, graph.scalar(0, "float32")])

    def places(self):
        """(where steps go and come from, their numbers) of the masked sequences."""
        graph = self.graph
        valid = graph.node("Cast", [self.value.mask], to=TensorProto.INT64)
        counted = graph.node("CumSum", [valid, graph.scalar(1, "int64")])
        one = graph.scalar(1, "int64")
        zero = graph.scalar(0, "int64")
        valid_before = graph.node("Sub", [counted, valid])
        newest = graph.node("Max", [graph.node("Sub", [counted, one]), zero])
        has_begun = graph.node("Greater", [counted, zero])
        shape = graph.node("Shape", [self.value.mask])
        steps = graph.node("Gather", [shape, one])
        numbers = graph.node("Range", [zero, steps, one])
        missing = graph.node("Sub", [one, valid])
        key = graph.node("Add", [graph.node("Mul", [missing, steps]), numbers])
        values, order = graph.name("keys"), graph.name("order")
        every = graph.node("Unsqueeze", [steps, graph.axes(0)])
        graph.nodes.append(
            helper.make_node("TopK", [key, every], [values, order], axis=1, largest=0, sorted=1)
        )
        total = graph.node("ReduceSum", [valid, graph.axes(1)], keepdims=0)
        lengths = graph.node("Cast", [total], to=TensorProto.INT32)
        return _Places(order, valid_before, newest, has_begun), lengths


@dataclass
class _Places:
    """Tensors (batch, time). `order`: the valid steps first; `valid_before`, `newest`: of each
    step, how many valid ones come before it and the number of the newest valid one, 0 if there is
    none; `has_begun`: whether there is one."""

    order: str
    valid_before: str
    newest: str
    has_begun: str


def _attributes(layer, cell):
    """(the kind of the node, its attributes)."""
    name = type(cell).__name__
    if name not in NODES:
        raise of_layer(layer, f"the cell {name} has no node in ONNX")
    kind, _ = NODES[name]
    functions = [cell.activation]
    if kind != "RNN":
        functions.insert(0, cell.recurrent_activation)
    if kind == "LSTM":
        functions.append(cell.activation)
    attributes = {"hidden_size": cell.units, "activations": []}
    for function in functions:
        name = activation_name(layer, function)
        if name not in INSIDE_NODES:
            raise of_layer(layer, f"ONNX's {kind} node has no activation {name}")
        operator, settings = INSIDE_NODES[name]
        attributes["activations"].append(operator)
        for setting in settings:
            attributes.setdefault(f"activation_{setting}", []).append(settings[setting])
    if kind == "GRU":
        attributes["linear_before_reset"] = int(cell.reset_after)
    return kind, attributes
