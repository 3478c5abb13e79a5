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
from rnnserve.walk import WITHOUT_EFFECT, Value, Walk, activation_name, flat

OPSET = 17
IR_VERSION = 10
# Keras's name of an activation → ONNX's name, its alpha, its beta.
ACTIVATIONS = {
    "tanh": ("Tanh", None, None),
    "sigmoid": ("Sigmoid", None, None),
    "relu": ("Relu", None, None),
    "hard_sigmoid": ("HardSigmoid", 1 / 6, 0.5),  # Keras 3; ONNX's default is 0.2, as in Keras 2
    "softsign": ("Softsign", None, None),
    "softplus": ("Softplus", None, None),
    "elu": ("Elu", 1.0, None),
    "linear": ("Affine", 1.0, 0.0),
}
# Those that are a node of their own behind another layer.
AFTER_LAYERS = {
    "tanh": ("Tanh", {}),
    "sigmoid": ("Sigmoid", {}),
    "relu": ("Relu", {}),
    "hard_sigmoid": ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}),
    "softsign": ("Softsign", {}),
    "softplus": ("Softplus", {}),
    "elu": ("Elu", {"alpha": 1.0}),
    "softmax": ("Softmax", {"axis": -1}),
    "exponential": ("Exp", {}),
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
        shape = [size or f"{name}_{axis}" for axis, size in enumerate(tensor.shape)]
        if not tensor.shape[0]:
            shape[0] = "batch"
        declared.append(helper.make_tensor_value_info(name, TYPES[tensor.dtype], shape))
    outputs = flat(graph.model(model, inputs))
    results = []
    for number, (value, tensor) in enumerate(zip(outputs, model.outputs, strict=True)):
        name = f"output_{number}"
        graph.nodes.append(helper.make_node("Identity", [value.name], [name]))
        shape = [size or f"{name}_{axis}" for axis, size in enumerate(tensor.shape)]
        if not tensor.shape[0]:
            shape[0] = "batch"
        results.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
    made = helper.make_graph(graph.nodes, "model", declared, results, graph.constants)
    opset = helper.make_opsetid("", OPSET)
    proto = helper.make_model(made, opset_imports=[opset], ir_version=IR_VERSION)
    onnx.checker.check_model(proto)
    onnx.save(proto, str(path))


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

    def translated(self, layer, kind, arguments, options):
        import keras

        given = options.pop("mask", None)
        if given is not None:
            # Keras writes the masks that it derives into the graph, as arguments of layers.
            if not isinstance(given, Value) or not isinstance(arguments[0], Value):
                raise of_layer(layer, "has several masks")
            first = arguments[0]
            arguments = (Value(first.name, first.shape, given.name), *arguments[1:])
        if isinstance(layer, keras.layers.Bidirectional):
            return self.bidirectional(layer, arguments, options)
        if isinstance(layer, keras.layers.RNN):
            return self.recurrent(layer, arguments, options)
        if options or len(arguments) != 1:
            raise of_layer(layer, "has further arguments")
        (value,) = arguments
        if kind in WITHOUT_EFFECT:
            return value
        if kind in ("Concatenate", "Add", "Multiply", "Average"):
            return self.merged(layer, kind, value)
        return self.by_kind(layer, kind, value)

    def mask_operation(self, operation, kind, arguments, options):
        """The operations of which Keras makes the masks of Embedding and Masking."""
        value = arguments[0]
        if kind == "NotEqual" and len(arguments) == 2 and not isinstance(arguments[1], Value):
            name = self.node("Cast", [value.name], to=TensorProto.FLOAT)
            name = self.node("Equal", [name, self.scalar(arguments[1], "float32")])
            return Value(self.node("Not", [name]), value.shape)
        if kind == "Any" and operation.axis in (-1, [-1], (-1,)) and not operation.keepdims:
            name = self.node("Cast", [value.name], to=TensorProto.FLOAT)
            name = self.node("ReduceMax", [name], axes=[-1], keepdims=0)
            return Value(self.node("Cast", [name], to=TensorProto.BOOL), value.shape[:-1])
        raise of_layer(operation, f"the operation {kind} has no translation")

    # Layers that are not recurrent.

    def activated(self, layer, value, activation):
        name = activation_name(layer, activation)
        if name == "linear":
            return value
        if name not in AFTER_LAYERS:
            raise of_layer(layer, f"the activation {name} has no translation")
        op, attributes = AFTER_LAYERS[name]
        return Value(self.node(op, [value.name], **attributes), value.shape, value.mask)

    def of_Activation(self, layer, value):
        return self.activated(layer, value, layer.activation)

    def of_Dense(self, layer, value):
        if getattr(layer, "quantization_mode", None):
            raise of_layer(layer, "is quantized")
        name = self.node("MatMul", [value.name, self.constant(layer.kernel)])
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
        indices = self.node("Cast", [value.name], to=TensorProto.INT64)
        mask = None
        if layer.mask_zero:
            is_zero = self.node("Equal", [indices, self.scalar(0, "int64")])
            mask = self.node("Not", [is_zero])
        name = self.node("Gather", [self.constant(layer.embeddings), indices])
        return Value(name, (*value.shape, layer.output_dim), mask)

    def of_Masking(self, layer, value):
        masked = self.node("Equal", [value.name, self.scalar(layer.mask_value, "float32")])
        differs = self.node("Cast", [self.node("Not", [masked])], to=TensorProto.FLOAT)
        kept = self.node("ReduceMax", [differs], axes=[-1], keepdims=1)
        name = self.node("Mul", [value.name, kept])
        last = self.node("Squeeze", [kept, self.axes(-1)])
        return Value(name, value.shape, self.node("Cast", [last], to=TensorProto.BOOL))

    def of_LayerNormalization(self, layer, value):
        axis = layer.axis
        if axis not in (-1, [-1], (-1,), len(value.shape) - 1, [len(value.shape) - 1]):
            raise of_layer(layer, "normalizes another axis than the last one")
        if getattr(layer, "rms_scaling", False):
            raise of_layer(layer, "has rms_scaling")
        size = value.shape[-1]
        gamma = layer.gamma if layer.scale else numpy.ones(size)
        beta = layer.beta if layer.center else numpy.zeros(size)
        inputs = [value.name, self.constant(gamma), self.constant(beta)]
        name = self.node("LayerNormalization", inputs, axis=-1, epsilon=layer.epsilon)
        return Value(name, value.shape, value.mask)

    def of_Flatten(self, layer, value):
        if None in value.shape[1:]:
            raise of_layer(layer, "flattens a free length")
        size = int(numpy.prod(value.shape[1:]))
        return Value(self.node("Flatten", [value.name], axis=1), (value.shape[0], size))

    def of_RepeatVector(self, layer, value):
        name = self.node("Unsqueeze", [value.name, self.axes(1)])
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
        name = self.node(op, [value.name], axes=[1], keepdims=int(layer.keepdims))
        shape = (value.shape[0], value.shape[2])
        if layer.keepdims:
            shape = (value.shape[0], 1, value.shape[2])
        return Value(name, shape)

    def merged(self, layer, kind, values):
        if any(value.mask for value in values):
            raise of_layer(layer, f"{kind} of masked sequences has no translation")
        names = [value.name for value in values]
        shape = list(values[0].shape)
        if kind == "Concatenate":
            axis = layer.axis % len(shape)
            sizes = [value.shape[axis] for value in values]
            shape[axis] = None if None in sizes else sum(sizes)
            return Value(self.node("Concat", names, axis=axis), tuple(shape))
        if any(value.shape != values[0].shape for value in values):
            raise of_layer(layer, f"{kind} of different shapes has no translation")
        op = "Mul" if kind == "Multiply" else "Add"
        name = names[0]
        for other in names[1:]:
            name = self.node(op, [name, other])
        if kind == "Average":
            name = self.node("Div", [name, self.scalar(len(names), "float32")])
        return Value(name, tuple(shape))

    # Recurrent layers.

    def recurrent(self, layer, arguments, options):
        value, states = _inputs_of(layer, arguments, options)
        _check(layer)
        node = _Node(self, layer, [layer.cell], value)
        direction = "reverse" if layer.go_backwards else "forward"
        if layer.go_backwards and layer.return_sequences and value.mask:
            raise of_layer(layer, "go_backwards with a mask and return_sequences")
        sequences, last = node.run(direction, states)
        shape = (value.shape[0], layer.cell.units)
        outputs = []
        if layer.return_sequences:
            name = sequences[0]
            if layer.go_backwards:
                name = self.reversed(name)
            outputs.append(Value(name, (value.shape[0], value.shape[1], shape[1]), value.mask))
        else:
            outputs.append(Value(last[0][0], shape))
        if layer.return_state:
            outputs += [Value(state[0], shape) for state in last]
            return outputs
        return outputs[0]

    def bidirectional(self, layer, arguments, options):
        value, states = _inputs_of(layer, arguments, options)
        forward = layer.forward_layer
        backward = layer.backward_layer
        for each in (forward, backward):
            _check(each)
        if forward.go_backwards or not backward.go_backwards:
            raise of_layer(layer, "its forward layer runs backwards, or both layers forwards")
        if _settings(forward) != _settings(backward):
            raise of_layer(layer, "its two layers have different settings")
        if states:
            raise of_layer(layer, "Bidirectional with initial states has no translation")
        node = _Node(self, forward, [forward.cell, backward.cell], value)
        sequences, last = node.run("bidirectional", None)
        units = forward.cell.units
        mask = None
        if layer.return_sequences:
            pair = sequences
            shape = (value.shape[0], value.shape[1], units)
            mask = value.mask
        else:
            pair = last[0]
            shape = (value.shape[0], units)
        outputs = self.merged_directions(layer, pair, shape, mask)
        if not layer.return_state:
            return outputs if len(outputs) > 1 else outputs[0]
        for direction in (0, 1):
            outputs += [Value(state[direction], (value.shape[0], units)) for state in last]
        return outputs

    def merged_directions(self, layer, pair, shape, mask):
        mode = layer.merge_mode
        if mode is None:
            return [Value(name, shape, mask) for name in pair]
        if mode == "concat":
            name = self.node("Concat", pair, axis=-1)
            return [Value(name, (*shape[:-1], 2 * shape[-1]), mask)]
        name = self.node("Mul" if mode == "mul" else "Add", pair)
        if mode == "ave":
            name = self.node("Div", [name, self.scalar(2, "float32")])
        return [Value(name, shape, mask)]

    def reversed(self, name):
        """A sequence (batch, time, units) from its last to its first step."""
        start, end = self.axes(-1), self.axes(-LAST)
        return self.node("Slice", [name, start, end, self.axes(1), self.axes(-1)])


class _Node:
    """One recurrent node: of a layer, or of the two directions of a bidirectional one."""

    def __init__(self, graph, layer, cells, value):
        self.graph = graph
        self.layer = layer
        self.cells = cells
        self.value = value

    def run(self, direction, states):
        """(sequences, last): for each direction the name of all outputs (batch, time, units); for
        each state the names of the last one, by direction, (batch, units)."""
        graph = self.graph
        kind, attributes = _attributes(self.layer, self.cells[0])
        if len(self.cells) == 2:
            for name in ("activations", "activation_alpha", "activation_beta"):
                if name in attributes:
                    attributes[name] = attributes[name] * 2
        arrays = [_arrays(kind, cell) for cell in self.cells]
        inputs = [self.value.name]
        places = None
        lengths = ""
        if self.value.mask:
            places, lengths = self.places()
            rows = graph.node("Unsqueeze", [places.order, graph.axes(-1)])
            inputs = [graph.node("GatherND", [self.value.name, rows], batch_dims=1)]
        time_major = graph.node("Transpose", inputs, perm=[1, 0, 2])
        inputs = [time_major]
        for each in zip(*arrays, strict=True):
            inputs.append(graph.constant(numpy.stack(each)))
        inputs.append(lengths)
        for state in states or ():
            inputs.append(graph.node("Unsqueeze", [state.name, graph.axes(0)]))
        if not states and not lengths:
            inputs.pop()
        count = 2 if kind == "LSTM" else 1
        outputs = [graph.name(f"{kind}_{name}") for name in ("all", "h", "c")[: count + 1]]
        made = helper.make_node(kind, inputs, outputs, direction=direction, **attributes)
        graph.nodes.append(made)
        sequences = []
        if self.layer.return_sequences:
            for number in range(len(self.cells)):
                sequences.append(self.sequence(outputs[0], number, direction, places))
        if places is not None and not graph.trusts_lengths:
            return sequences, self.last_of_all(outputs[0], direction, lengths)
        last = []
        for output in outputs[1:]:
            last.append([self.part(output, number, 0) for number in range(len(self.cells))])
        return sequences, last

    def last_of_all(self, name, direction, lengths):
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
        for number in range(len(self.cells)):
            outputs = graph.node("Transpose", [self.part(name, number, 1)], perm=[1, 0, 2])
            if direction == "reverse" or number == 1:
                chosen = graph.node("Gather", [outputs, zero], axis=1)
            else:
                chosen = graph.node("GatherND", [outputs, row], batch_dims=1)
            inputs = [is_there, chosen, graph.scalar(0, "float32")]
            found.append(graph.node("Where", inputs))
        return [found]

    def part(self, name, number, axis):
        index = self.graph.scalar(number, "int64")
        return self.graph.node("Gather", [name, index], axis=axis)

    def sequence(self, name, number, direction, places):
        """The outputs of a direction in the order of time, (batch, time, units)."""
        graph = self.graph
        outputs = graph.node("Transpose", [self.part(name, number, 1)], perm=[1, 0, 2])
        if places is None:
            return outputs
        # Forwards, a masked step repeats the one before it; backwards, the one after it.
        is_backwards = direction == "reverse" or number == 1
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


def _inputs_of(layer, arguments, options):
    """(the sequences, the initial states or None) that a recurrent layer is called with."""
    states = options.pop("initial_state", None)
    arguments = list(arguments)
    if len(arguments) > 1 and states is None:
        states = arguments.pop(1)
    if options or len(arguments) != 1 or not isinstance(arguments[0], Value):
        raise of_layer(layer, "has further arguments")
    if states is not None:
        states = flat(states)
    return arguments[0], states


def _check(layer):
    if layer.stateful:
        raise of_layer(layer, "stateful=True: an ONNX graph keeps no states between calls")
    for part in (layer, layer.cell):
        if type(part).__module__.partition(".")[0] != "keras":
            raise of_layer(layer, f"{type(part).__name__} is not a class of Keras")


def _settings(layer):
    kind, attributes = _attributes(layer, layer.cell)
    return kind, attributes, layer.cell.use_bias


def _attributes(layer, cell):
    """(the kind of the node, its attributes)."""
    kinds = {"LSTMCell": "LSTM", "GRUCell": "GRU", "SimpleRNNCell": "RNN"}
    kind = kinds.get(type(cell).__name__)
    if kind is None:
        raise of_layer(layer, f"the cell {type(cell).__name__} has no node in ONNX")
    squash = activation_name(layer, cell.activation)
    if kind == "RNN":
        names = [squash]
    else:
        gate = activation_name(layer, cell.recurrent_activation)
        names = [gate, squash, squash] if kind == "LSTM" else [gate, squash]
    attributes = {"hidden_size": cell.units, "activations": []}
    alphas = []
    betas = []
    for name in names:
        if name not in ACTIVATIONS:
            raise of_layer(layer, f"ONNX's {kind} node has no activation {name}")
        operator, alpha, beta = ACTIVATIONS[name]
        attributes["activations"].append(operator)
        if alpha is not None:
            alphas.append(alpha)
        if beta is not None:
            betas.append(beta)
    if alphas:
        attributes["activation_alpha"] = alphas
    if betas:
        attributes["activation_beta"] = betas
    if kind == "GRU":
        attributes["linear_before_reset"] = int(cell.reset_after)
    return kind, attributes


def _arrays(kind, cell):
    """W, R and B of one direction, with ONNX's order of gates."""
    kernel = _gates(kind, numpy.asarray(cell.kernel))
    recurrent = _gates(kind, numpy.asarray(cell.recurrent_kernel))
    columns = kernel.shape[1]
    bias = numpy.zeros((2, columns), "float32")
    if cell.use_bias:
        given = numpy.atleast_2d(numpy.asarray(cell.bias))
        bias[: len(given)] = given
    return kernel.T, recurrent.T, _gates(kind, bias).reshape(-1)


def _gates(kind, array):
    """Keras's i, f, c, o → ONNX's i, o, f, c; a GRU has z, r, h in both."""
    if kind != "LSTM":
        return array
    i, f, c, o = numpy.split(array, 4, axis=-1)
    return numpy.concatenate([i, o, f, c], axis=-1)
