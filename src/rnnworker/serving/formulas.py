"""The outputs of a whole Keras model in float64 NumPy: recurrent layers by the formulas of
`rnnworker.reference`, everything else by formulas of this file; no framework computes anything."""

import numpy

from rnnserve.refusals import of_layer
from rnnserve.walk import MERGE_MODES, Value, Walk, check_class, flat, is_last_axis
from rnnworker import reference

CELLS = {"LSTMCell": "lstm", "SimpleRNNCell": "rnn_tanh"}


def outputs(model, arrays):
    """Returns the outputs of `model` as a flat list of float64 arrays. Raises `Refused` with the
    layer that the formulas do not have."""
    given = []
    for array in arrays:
        array = numpy.asarray(array)
        if array.dtype.kind == "f":
            array = array.astype("float64")
        given.append(of_array(array))
    return [each.tensor for each in flat(_Formulas().model(model, given))]


def of_array(array, mask=None):
    return Value(array, array.shape, mask)


class _Formulas(Walk):
    """Tensors are float64 arrays."""

    dtype = None
    unknown = "there is no formula of {}"

    def mask_operation(self, operation, kind, arguments):
        array = arguments[0].tensor
        if kind == "NotEqual":
            return of_array(array != arguments[1])
        if kind == "Any":
            axis = operation.axis if isinstance(operation.axis, int) else tuple(operation.axis)
            return of_array(array.any(axis=axis))
        raise of_layer(operation, self.unknown.format(kind))

    # Layers that are not recurrent.

    def merged(self, layer, kind, values):
        if any(value.mask is not None for value in values):
            raise of_layer(layer, "merges masked sequences")
        axis = getattr(layer, "axis", None)
        return of_array(_joined(kind, [value.tensor for value in values], axis))

    def of_Activation(self, layer, x):
        return of_array(_activated(layer, layer.activation, x.tensor), x.mask)

    def of_Dense(self, layer, x):
        product = x.tensor @ numpy.asarray(layer.kernel, "float64")
        if layer.use_bias:
            product = product + numpy.asarray(layer.bias, "float64")
        return of_array(_activated(layer, layer.activation, product), x.mask)

    def of_TimeDistributed(self, layer, x):
        if type(layer.layer).__name__ != "Dense":
            raise of_layer(layer, "wraps something else than Dense")
        return self.of_Dense(layer.layer, x)

    def of_Embedding(self, layer, x):
        indices = x.tensor.astype("int64")
        mask = None
        if layer.mask_zero:
            mask = indices != 0
        return of_array(numpy.asarray(layer.embeddings, "float64")[indices], mask)

    def of_Masking(self, layer, x):
        mask = (x.tensor != layer.mask_value).any(axis=-1)
        return of_array(x.tensor * mask[..., None], mask)

    def of_Flatten(self, layer, x):
        return of_array(x.tensor.reshape(len(x.tensor), -1))

    def of_RepeatVector(self, layer, x):
        return of_array(numpy.repeat(x.tensor[:, None], layer.n, axis=1))

    def of_LayerNormalization(self, layer, x):
        if not is_last_axis(layer.axis, x.shape):
            raise of_layer(layer, "normalizes another axis")
        if getattr(layer, "rms_scaling", False):
            raise of_layer(layer, "has rms_scaling")
        mean = x.tensor.mean(axis=-1, keepdims=True)
        variance = x.tensor.var(axis=-1, keepdims=True)
        found = (x.tensor - mean) / numpy.sqrt(variance + layer.epsilon)
        if layer.scale:
            found = found * numpy.asarray(layer.gamma, "float64")
        if layer.center:
            found = found + numpy.asarray(layer.beta, "float64")
        return of_array(found, x.mask)

    # Recurrent layers.

    def recurrent(self, layer, x, states):
        return self.directions(layer, [layer], x, states)

    def bidirectional(self, layer, x, states):
        return self.directions(layer, [layer.forward_layer, layer.backward_layer], x, states)

    def directions(self, layer, parts, x, states):
        """The outputs of a `layer` that computes `parts`, its one direction or both."""
        if states is not None:
            raise of_layer(layer, "has initial states")
        mask = x.mask if layer.return_sequences else None
        found = []
        for part in parts:
            last, all_steps = _states(part, x)
            if layer.return_state and (part is not layer or part.cell.state_size != len(last[0])):
                raise of_layer(layer, "returns further states than its last output")
            if not layer.return_sequences:
                all_steps = last
            elif part is not parts[0]:
                all_steps = all_steps[:, ::-1]
            found.append(all_steps)
        mode = getattr(layer, "merge_mode", None)
        if mode is not None:
            found = [_joined(MERGE_MODES[mode], found, -1)]
        values = [of_array(each, mask) for each in found]
        if layer.return_state:
            values.append(of_array(last))
        return values if len(values) > 1 else values[0]


def _joined(kind, arrays, axis):
    if kind == "Concatenate":
        return numpy.concatenate(arrays, axis=axis)
    found = arrays[0]
    for array in arrays[1:]:
        if kind == "Multiply":
            found = found * array
        else:
            found = found + array
    if kind == "Average":
        found = found / len(arrays)
    return found


def _activated(layer, activation, array):
    name = getattr(activation, "__name__", "")
    if name == "softmax":
        powers = numpy.exp(array - array.max(axis=-1, keepdims=True))
        return powers / powers.sum(axis=-1, keepdims=True)
    if name == "hard_sigmoid":
        name = "hard_sigmoid of Keras 3"
    if name not in reference.ACTIVATIONS:
        raise of_layer(layer, f"there is no formula of {name}")
    return reference.ACTIVATIONS[name][0](array)


def _states(layer, x):
    """(the last output, the outputs of all steps in the order of processing)."""
    if layer.stateful:
        raise of_layer(layer, "keeps its states between calls")
    cell, arrays, function = _cell(layer)
    steps = x.tensor
    mask = x.mask
    if layer.go_backwards:
        steps = steps[:, ::-1]
        if mask is not None:
            mask = mask[:, ::-1]
    batch, times = steps.shape[:2]
    units = arrays["recurrent"].shape[0]

    def computed(chosen):
        found, _ = reference.run(
            cell, chosen, arrays, numpy.zeros((*chosen.shape[:2], units)), function
        )
        return found

    if mask is None:
        found = computed(steps)
        return found[:, -1], found
    found = numpy.zeros((batch, times, units))
    last = numpy.zeros((batch, units))
    for sample in range(batch):
        valid = numpy.flatnonzero(mask[sample])
        if not len(valid):
            continue
        alone = computed(steps[sample : sample + 1, valid])[0]
        last[sample] = alone[-1]
        counted = numpy.cumsum(mask[sample])
        begun = counted > 0
        # A masked step repeats the output of the step before it.
        found[sample, begun] = alone[counted[begun] - 1]
        if layer.zero_output_for_mask:
            found[sample, ~mask[sample]] = 0.0
    return last, found


def _cell(layer):
    """(name of the cell in the reference, its canonical arrays, its function)."""
    cell = layer.cell
    check_class(layer, cell)
    kind = type(cell).__name__
    name = CELLS.get(kind)
    if kind == "GRUCell":
        name = "gru" if cell.reset_after else "gru_reset_before"
    if name is None:
        raise of_layer(layer, f"there is no formula of {kind}")
    options = {}
    for option in ("activation", "recurrent_activation"):
        if hasattr(cell, option):
            options[option] = getattr(cell, option).__name__
    try:
        function = reference.function_of(name, options, True)
    except reference.UnknownFunction as error:
        raise of_layer(layer, str(error)) from error
    arrays = {
        "kernel": numpy.asarray(cell.kernel, "float64"),
        "recurrent": numpy.asarray(cell.recurrent_kernel, "float64"),
    }
    if cell.use_bias:
        arrays["bias"] = numpy.asarray(cell.bias, "float64")
    return name, arrays, function
