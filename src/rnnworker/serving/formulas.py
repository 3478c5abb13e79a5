"""The outputs of a whole Keras model in float64 NumPy: recurrent layers by the formulas of
`rnnworker.reference`, everything else by formulas of this file; no framework computes anything."""

import numpy

from rnnworker import reference

CELLS = {"LSTMCell": "lstm", "SimpleRNNCell": "rnn_tanh"}


class NoFormula(ValueError):
    """The model has a layer that the formulas do not have; the message names it."""


class Sequence:
    """An array with the mask that belongs to it, or None: (batch, time) booleans."""

    def __init__(self, array, mask=None):
        self.array = array
        self.mask = mask


def outputs(model, arrays):
    """Returns the outputs of `model` as a flat list of float64 arrays. Raises `NoFormula`."""
    given = []
    for array in arrays:
        array = numpy.asarray(array)
        if array.dtype.kind == "f":
            array = array.astype("float64")
        given.append(Sequence(array))
    return [each.array for each in _flat(_model(model, given))]


def _flat(found):
    if isinstance(found, Sequence):
        return [found]
    if isinstance(found, dict):
        found = [found[name] for name in sorted(found)]
    flat = []
    for each in found:
        flat += _flat(each)
    return flat


def _model(model, given):
    functional = getattr(model, "_functional", None) or model
    if not hasattr(functional, "_run_through_graph"):
        raise NoFormula("{} is not a functional or sequential model".format(model.name))
    return functional._run_through_graph(given, operation_fn=_operation)


def _operation(operation):
    def call(*arguments, **options):
        return _apply(operation, arguments, options)

    return call


def _apply(layer, arguments, options):
    kind = type(layer).__name__
    if hasattr(layer, "_run_through_graph") or hasattr(layer, "_functional"):
        return _model(layer, _flat(arguments))
    options = {name: value for name, value in options.items() if value is not None}
    options.pop("training", None)
    mask = options.pop("mask", None)
    states = options.pop("initial_state", None)
    if type(layer).__module__.partition(".")[0] != "keras":
        raise NoFormula("layer {}: {} is not a class of Keras".format(layer.name, kind))
    if kind == "NotEqual":
        return Sequence(arguments[0].array != arguments[1])
    if kind == "Any":
        axis = layer.axis if isinstance(layer.axis, int) else tuple(layer.axis)
        return Sequence(arguments[0].array.any(axis=axis))
    if states is not None or options:
        raise NoFormula("layer {}: has initial states or further arguments".format(layer.name))
    if kind in ("Concatenate", "Add", "Multiply", "Average"):
        return _merged(layer, kind, arguments[0])
    if len(arguments) != 1 or not isinstance(arguments[0], Sequence):
        raise NoFormula("layer {}: has several inputs".format(layer.name))
    (x,) = arguments
    if mask is not None:
        x = Sequence(x.array, mask.array)
    if kind == "Bidirectional":
        return _bidirectional(layer, x)
    if hasattr(layer, "cell"):
        return _recurrent(layer, x)
    if kind not in LAYERS:
        raise NoFormula("layer {}: there is no formula of {}".format(layer.name, kind))
    return LAYERS[kind](layer, x)


def _merged(layer, kind, parts):
    if any(part.mask is not None for part in parts):
        raise NoFormula("layer {}: merges masked sequences".format(layer.name))
    arrays = [part.array for part in parts]
    if kind == "Concatenate":
        return Sequence(numpy.concatenate(arrays, axis=layer.axis))
    found = arrays[0]
    for array in arrays[1:]:
        if kind == "Multiply":
            found = found * array
        else:
            found = found + array
    if kind == "Average":
        found = found / len(arrays)
    return Sequence(found)


# Layers that are not recurrent.


def _activation(layer, activation, array):
    name = getattr(activation, "__name__", "")
    if name == "softmax":
        powers = numpy.exp(array - array.max(axis=-1, keepdims=True))
        return powers / powers.sum(axis=-1, keepdims=True)
    if name == "hard_sigmoid":
        name = "hard_sigmoid of Keras 3"
    if name not in reference.ACTIVATIONS:
        raise NoFormula("layer {}: there is no formula of {}".format(layer.name, name))
    return reference.ACTIVATIONS[name][0](array)


def _dense(layer, x):
    product = x.array @ numpy.asarray(layer.kernel, "float64")
    if layer.use_bias:
        product = product + numpy.asarray(layer.bias, "float64")
    return Sequence(_activation(layer, layer.activation, product), x.mask)


def _time_distributed(layer, x):
    if type(layer.layer).__name__ != "Dense":
        raise NoFormula("layer {}: wraps something else than Dense".format(layer.name))
    return _dense(layer.layer, x)


def _embedding(layer, x):
    indices = x.array.astype("int64")
    mask = None
    if layer.mask_zero:
        mask = indices != 0
    return Sequence(numpy.asarray(layer.embeddings, "float64")[indices], mask)


def _masking(layer, x):
    mask = (x.array != layer.mask_value).any(axis=-1)
    return Sequence(x.array * mask[..., None], mask)


def _normalization(layer, x):
    if layer.axis not in (-1, [-1], (-1,), x.array.ndim - 1, [x.array.ndim - 1]):
        raise NoFormula("layer {}: normalizes another axis".format(layer.name))
    if getattr(layer, "rms_scaling", False):
        raise NoFormula("layer {}: has rms_scaling".format(layer.name))
    mean = x.array.mean(axis=-1, keepdims=True)
    variance = x.array.var(axis=-1, keepdims=True)
    found = (x.array - mean) / numpy.sqrt(variance + layer.epsilon)
    if layer.scale:
        found = found * numpy.asarray(layer.gamma, "float64")
    if layer.center:
        found = found + numpy.asarray(layer.beta, "float64")
    return Sequence(found, x.mask)


LAYERS = {
    "Activation": lambda layer, x: Sequence(_activation(layer, layer.activation, x.array), x.mask),
    "Dense": _dense,
    "Dropout": lambda layer, x: x,
    "Embedding": _embedding,
    "Flatten": lambda layer, x: Sequence(x.array.reshape(len(x.array), -1)),
    "LayerNormalization": _normalization,
    "Masking": _masking,
    "RepeatVector": lambda layer, x: Sequence(numpy.repeat(x.array[:, None], layer.n, axis=1)),
    "SpatialDropout1D": lambda layer, x: x,
    "TimeDistributed": _time_distributed,
}


# Recurrent layers.


def _recurrent(layer, x):
    states, all_steps = _states(layer, x, layer.go_backwards)
    if layer.return_sequences:
        first = Sequence(all_steps, x.mask)
    else:
        first = Sequence(states[0])
    if layer.return_state:
        if len(states) < _number_of_states(layer):
            raise NoFormula("layer {}: returns a cell's memory".format(layer.name))
        return [first] + [Sequence(state) for state in states]
    return first


def _number_of_states(layer):
    return 2 if type(layer.cell).__name__ == "LSTMCell" else 1


def _bidirectional(layer, x):
    if layer.return_state:
        raise NoFormula("layer {}: returns its states".format(layer.name))
    found = []
    for part in (layer.forward_layer, layer.backward_layer):
        states, all_steps = _states(part, x, part.go_backwards)
        if not layer.return_sequences:
            found.append(states[0])
        elif part is layer.backward_layer:
            found.append(all_steps[:, ::-1])
        else:
            found.append(all_steps)
    mask = x.mask if layer.return_sequences else None
    mode = layer.merge_mode
    if mode is None:
        return [Sequence(each, mask) for each in found]
    if mode == "concat":
        return Sequence(numpy.concatenate(found, axis=-1), mask)
    if mode == "mul":
        return Sequence(found[0] * found[1], mask)
    total = found[0] + found[1]
    if mode == "ave":
        total = total / 2
    return Sequence(total, mask)


def _states(layer, x, is_backwards):
    """([the last output], the outputs of all steps in the order of processing)."""
    if layer.stateful:
        raise NoFormula("layer {}: keeps its states between calls".format(layer.name))
    cell, arrays, function = _cell(layer)
    steps = x.array
    mask = x.mask
    if is_backwards:
        steps = steps[:, ::-1]
        if mask is not None:
            mask = mask[:, ::-1]
    batch, times = steps.shape[:2]
    units = arrays["recurrent"].shape[0]
    if mask is None:
        upstream = numpy.zeros((batch, times, units))
        found, _ = reference.run(cell, steps, arrays, upstream, function)
        return [found[:, -1]], found
    found = numpy.zeros((batch, times, units))
    last = numpy.zeros((batch, units))
    for sample in range(batch):
        valid = numpy.flatnonzero(mask[sample])
        if not len(valid):
            continue
        upstream = numpy.zeros((1, len(valid), units))
        alone, _ = reference.run(
            cell, steps[sample : sample + 1, valid], arrays, upstream, function
        )
        last[sample] = alone[0, -1]
        counted = numpy.cumsum(mask[sample])
        begun = counted > 0
        # A masked step repeats the output of the step before it.
        found[sample, begun] = alone[0, counted[begun] - 1]
        if layer.zero_output_for_mask:
            found[sample, ~mask[sample]] = 0.0
    return [last], found


def _cell(layer):
    """(name of the cell in the reference, its canonical arrays, its function)."""
    cell = layer.cell
    kind = type(cell).__name__
    if type(cell).__module__.partition(".")[0] != "keras":
        raise NoFormula("layer {}: {} is not a class of Keras".format(layer.name, kind))
    name = CELLS.get(kind)
    if kind == "GRUCell":
        name = "gru" if cell.reset_after else "gru_reset_before"
    if name is None:
        raise NoFormula("layer {}: there is no formula of {}".format(layer.name, kind))
    options = {}
    for option in ("activation", "recurrent_activation"):
        if hasattr(cell, option):
            options[option] = getattr(cell, option).__name__
    try:
        function = reference.function_of(name, options, True)
    except reference.UnknownFunction as error:
        raise NoFormula("layer {}: {}".format(layer.name, error)) from error
    arrays = {
        "kernel": numpy.asarray(cell.kernel, "float64"),
        "recurrent": numpy.asarray(cell.recurrent_kernel, "float64"),
    }
    if cell.use_bias:
        arrays["bias"] = numpy.asarray(cell.bias, "float64")
    return name, arrays, function
