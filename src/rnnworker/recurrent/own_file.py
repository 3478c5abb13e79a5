"""User-supplied recurrent kernels: a class ``Kernel`` that computes Keras's own layers, or
functions that make layers with weights of their own. A violation of the contract in
``docs/own_kernel.md`` is a ValueError of one line that names the file."""

import numpy

from rnnworker import user_functions
from rnnworker.canonical_weights import GATES
from rnnworker.options import KERNEL_CLASS

FUNCTIONS = ("make", "to_canonical", "from_canonical")


class Implementation:
    """The recurrent kernels in the Python file `path`, one of any number of layers. Every layer of
    a run has the same cell. `kernel` is the file's class ``Kernel``, None if it has none."""

    def __init__(self, path):
        self.path = path
        self._module = user_functions.from_file(path)
        self.kernel = getattr(self._module, KERNEL_CLASS, None)
        if self.kernel is not None:
            if not callable(getattr(self.kernel, "inner_loop", None)):
                raise self._error("its class Kernel has no method inner_loop: add it")
            return
        for name in FUNCTIONS:
            if not callable(getattr(self._module, name, None)):
                raise self._error(
                    "has neither a class Kernel nor a function {}: add it".format(name)
                )
        self._cell = None
        self._units = set()

    def make(self, keras, cell, units, options):
        """A Keras layer of `units` units; `options`: further arguments of Keras's own layer."""
        self._cell = cell
        self._units.add(units)
        layer = self._module.make(keras, cell, units, options)
        if not isinstance(layer, keras.layers.Layer):
            kind = type(layer).__name__
            raise self._error("make returns a {}: it must return a Keras layer".format(kind))
        return layer

    def to_canonical(self, layer, values=None):
        """The canonical arrays of `layer`: its weights, or in their place `values`, the gradients
        of its trainable weights in their order, which the file may convert in another way."""
        convert = self._module.to_canonical
        if values is not None:
            convert = getattr(self._module, "gradients_to_canonical", convert)
        arrays = convert(layer, values)
        reason = violation(self._cell, self._units, arrays)
        if reason:
            raise self._error("{} {} (docs/own_kernel.md)".format(convert.__name__, reason))
        return arrays

    def from_canonical(self, layer, arrays):
        """Sets the weights of `layer` to the canonical `arrays`, and reads them back."""
        self._module.from_canonical(layer, arrays)
        result = self.to_canonical(layer)
        for name in sorted(arrays):
            if not numpy.array_equal(result[name], arrays[name]):
                fault = (
                    "to_canonical returns another {} than from_canonical received: each must "
                    "undo the other"
                )
                raise self._error(fault.format(name))

    def _error(self, message):
        return ValueError("{}: {}".format(self.path, message))


def violation(cell, units, arrays):
    """A message if `arrays` are not canonical arrays of a layer with one of these `units`, else
    None."""
    fault = "returns {}, not a dict of kernel, recurrent and bias"
    if not isinstance(arrays, dict):
        return fault.format(type(arrays).__name__)
    if set(arrays) | {"bias"} != {"kernel", "recurrent", "bias"}:
        return fault.format(sorted(arrays))
    kernel = numpy.shape(arrays["kernel"])
    inputs = "inputs"
    if kernel:
        inputs = kernel[0]
    recurrent = numpy.shape(arrays["recurrent"])
    size = max(units)
    if recurrent and recurrent[0] in units:
        size = recurrent[0]
    columns = GATES[cell] * size
    expected = {
        "kernel": (inputs, columns),
        "recurrent": (size, columns),
        "bias": (columns,),
    }
    if cell == "gru":
        expected["bias"] = (2, columns)
    for name in sorted(arrays):
        shape = numpy.shape(arrays[name])
        if shape != expected[name]:
            fault = "returns {} of shape {}: for cell={} with {} units it must be {}"
            return fault.format(name, shape, cell, size, expected[name])
    return None
