"""What the kernels have in common: what they refuse, and the inputs that they get."""

import contextlib
import functools

from rnnlayers import refusals


def cause_of_cell(keras, layer, can):
    """Why a kernel of whole sequences cannot compute the cell of `layer`; None if it can.

    `can`: {name of a layer: {argument: activation}}, the cells that it computes.
    """
    cell = layer.cell
    activations = None
    for name in can:
        if isinstance(cell, keras.cells[name]):
            activations = can[name]
    if activations is None:
        return refusals.of_cell(cell, tuple(can))
    if cell.recurrent_dropout:
        return refusals.RECURRENT_DROPOUT
    if cell.dropout and getattr(cell, "implementation", 2) == 1:
        return refusals.DROPOUT_PER_GATE
    for argument, known in activations.items():
        activation = getattr(cell, argument)
        if keras.function(activation) not in known:
            return refusals.of_activation(argument, activation, " or ".join(known))
    return None


def dropped(cell, sequences, training):
    """`sequences` (batch, time, features) after the dropout of `cell`, which has one mask for all
    time steps."""
    if not cell.dropout:
        return sequences
    step = sequences[:, 0, :]
    if hasattr(cell, "get_dropout_mask"):  # Keras 3
        if not training:
            return sequences
        mask = cell.get_dropout_mask(step)
    else:
        gates = cell.kernel.shape[-1] // cell.units
        if gates == 1:
            mask = cell.get_dropout_mask_for_cell(step, training)
        else:
            mask = cell.get_dropout_mask_for_cell(step, training, count=gates)[0]
    return sequences * mask[:, None, :]


def time_major(tensorflow, layer, sequences, mask, training):
    """`sequences` as TensorFlow's ops take them, (time, batch, features) in the order in which
    `layer` reads them, after its dropout. Raises `CannotCompute` if there is a `mask`."""
    check_mask(layer, mask)
    x = tensorflow.transpose(dropped(layer.cell, sequences, training), [1, 0, 2])
    if layer.go_backwards:
        x = tensorflow.reverse(x, [0])
    return x


def joint_weights(tensorflow, cell, dtype):
    """Keras's weights in one matrix, (inputs + units, gates·units), and the bias, zeros if the cell
    has none."""
    kernel = tensorflow.convert_to_tensor(cell.kernel)
    recurrent_kernel = tensorflow.convert_to_tensor(cell.recurrent_kernel)
    matrix = tensorflow.concat([kernel, recurrent_kernel], 0)
    if cell.use_bias:
        return matrix, tensorflow.convert_to_tensor(cell.bias)
    return matrix, tensorflow.zeros([matrix.shape[-1]], dtype)


@functools.lru_cache(maxsize=None)
def differentiated_once(tensorflow, kernel, *ops):
    """Lets whoever asks for the gradient of `ops`, which compute gradients and have none, find
    `CannotCompute` in place of TensorFlow's LookupError. TensorFlow does not say of which layer."""

    def refuse(*_):
        raise refusals.CannotCompute("{} {}".format(kernel, refusals.SECOND_DERIVATIVES))

    for op in ops:
        with contextlib.suppress(KeyError):  # somebody has registered one
            tensorflow.RegisterGradient(op)(refuse)


def check_mask(layer, mask):
    """Raises `CannotCompute` if the layer is called with a mask."""
    if isinstance(mask, (list, tuple)):
        mask = mask[0] if mask else None
    if mask is not None:
        raise refusals.refusal(layer, layer.rnnlayers_kernel, refusals.MASK)
