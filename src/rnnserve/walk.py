"""A walk through the functional graph of a Keras model: what its translations share."""

from dataclasses import dataclass

import numpy

from rnnserve.refusals import Refused, of_layer

WITHOUT_EFFECT = ("Dropout", "SpatialDropout1D", "GaussianNoise", "GaussianDropout")
MERGES = ("Concatenate", "Add", "Multiply", "Average")
# Of a bidirectional layer → the layer that does the same to the outputs of both directions.
MERGE_MODES = {"concat": "Concatenate", "sum": "Add", "mul": "Multiply", "ave": "Average"}


@dataclass
class Value:
    """A tensor of the translation. `tensor`: its name, its number or its array; `shape`: as Keras
    has it, None where it is free; `mask`: the same as `tensor` of booleans (batch, time), or
    None."""

    tensor: object
    shape: tuple
    mask: object = None


def flat(outputs):
    """The values of a structure as a list."""
    if isinstance(outputs, Value):
        return [outputs]
    if isinstance(outputs, dict):
        outputs = [outputs[name] for name in sorted(outputs)]
    found = []
    for each in outputs:
        found += flat(each)
    return found


def activation_name(layer, activation):
    """The name of one of Keras's activations; any other is refused."""
    name = getattr(activation, "__name__", type(activation).__name__)
    if getattr(activation, "__module__", "").partition(".")[0] != "keras":
        raise of_layer(layer, f"the activation {name} is not one of Keras's")
    return name


def is_last_axis(axis, shape):
    """Whether `axis`, of a layer or an operation, is the last one of a `shape`."""
    if isinstance(axis, (list, tuple)):
        (axis,) = axis if len(axis) == 1 else (None,)
    return axis in (-1, len(shape) - 1)


def arrays_of(cell, order):
    """(kernel, recurrent kernel, both biases (2, gates·units)) of a `cell`, with its gates in
    another `order` (places among Keras's). A bias that the cell does not have is zero."""
    bias = numpy.zeros((2, cell.kernel.shape[1]), "float32")
    if cell.use_bias:
        given = numpy.atleast_2d(numpy.asarray(cell.bias))
        bias[: len(given)] = given
    found = []
    for array in (numpy.asarray(cell.kernel), numpy.asarray(cell.recurrent_kernel), bias):
        gates = numpy.split(array, len(order), axis=-1)
        found.append(numpy.concatenate([gates[place] for place in order], axis=-1))
    return found


def concatenated(values, axis):
    """The shape of `values` side by side along `axis`."""
    shape = list(values[0].shape)
    sizes = [value.shape[axis] for value in values]
    shape[axis] = None if None in sizes else sum(sizes)
    return tuple(shape)


def check_class(layer, part):
    """Refuses a `layer` of which a `part`, itself or its cell, is not a class of Keras."""
    kind = type(part)
    if kind.__module__.partition(".")[0] != "keras":
        raise of_layer(layer, f"{kind.__name__} is not a class of Keras")


def check_directions(layer):
    """Refuses a bidirectional `layer` unless its forward layer runs forwards and the other one
    backwards."""
    if layer.forward_layer.go_backwards or not layer.backward_layer.go_backwards:
        raise of_layer(layer, "its forward layer runs backwards, or both layers forwards")


class Walk:
    """Calls a method for each layer of a model: ``recurrent(layer, value, states)``,
    ``bidirectional(layer, value, states)``, ``merged(layer, kind, values)``, and ``of_KIND(layer,
    value)`` for any other one with one input. ``mask_operation(operation, kind, arguments)`` is for
    what else Keras has in the graph: the operations of which it makes masks."""

    dtype = "float32"  # in which each layer must compute; None: in any
    unknown = "{} has no translation"  # what is said of another kind of layer

    def model(self, model, inputs):
        """The outputs of a functional or sequential model, in its structure."""
        import keras

        if isinstance(model, keras.Sequential):
            model = model._functional
        if not isinstance(model, keras.Model) or not hasattr(model, "_run_through_graph"):
            raise Refused(f"model {model.name}: only functional and sequential models have a graph")
        return model._run_through_graph(inputs, operation_fn=self.operation)

    def operation(self, operation):
        """The function that `_run_through_graph` calls in place of an operation of the model."""

        def call(*arguments, **options):
            return self.layer(operation, arguments, options)

        return call

    def layer(self, layer, arguments, options):
        import keras

        layers = keras.layers
        if isinstance(layer, keras.Model):
            return self.model(layer, flat(arguments))
        kind = type(layer).__name__
        if not isinstance(layer, layers.Layer):
            return self.mask_operation(layer, kind, arguments)
        check_class(layer, layer)
        if self.dtype and layer.compute_dtype != self.dtype:
            raise of_layer(layer, f"computes in {layer.compute_dtype}, not in {self.dtype}")
        options = {name: option for name, option in options.items() if option is not None}
        options.pop("training", None)
        arguments = list(arguments)
        if "mask" in options:
            arguments[0] = self.masked(layer, arguments[0], options.pop("mask"))
        states = None
        if isinstance(layer, (layers.RNN, layers.Bidirectional)):
            states = options.pop("initial_state", None)
            if len(arguments) > 1 and states is None:
                states = arguments.pop(1)
        if options or len(arguments) != 1:
            raise of_layer(layer, "has further arguments")
        (value,) = arguments
        if kind in WITHOUT_EFFECT:
            return value
        if kind in MERGES:
            return self.merged(layer, kind, value)
        if not isinstance(value, Value):
            raise of_layer(layer, "has several inputs")
        if isinstance(layer, layers.Bidirectional):
            return self.bidirectional(layer, value, states)
        if isinstance(layer, layers.RNN):
            return self.recurrent(layer, value, states)
        method = getattr(self, f"of_{kind}", None)
        if method is None:
            raise of_layer(layer, self.unknown.format(kind))
        return method(layer, value)

    def masked(self, layer, value, mask):
        """`value` with the `mask` that Keras passes to the layer: it writes those that it derives
        into the graph, as arguments."""
        if not isinstance(mask, Value) or not isinstance(value, Value):
            raise of_layer(layer, "has several masks")
        return Value(value.tensor, value.shape, mask.tensor)
