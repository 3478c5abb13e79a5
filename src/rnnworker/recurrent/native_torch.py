"""``torch.nn.LSTM``, ``torch.nn.GRU`` and ``torch.nn.RNN`` as layers of Keras 3, which trains
torch's own parameters.

Source of their form: torch's documentation of these classes: one row per gate and unit, gates
i, f, g, o for LSTM (Keras's i, f, c, o); r, z, n for GRU, where the canonical order is z, r, h.
Each has two biases, ``bias_ih`` and ``bias_hh``, and adds them. A GRU that resets after the product
has two canonically as well, and both are trained. The others have one canonically: it is
``bias_ih``; ``bias_hh`` is zero and not trained. Trained, or each given half, the two would both
get the bias's whole gradient: their sum would learn twice as fast, and the loss curve would part
from Keras's after the first step. The price is that Keras counts gates·units more parameters.

What runs: on a CPU oneDNN's LSTM over the whole sequence, forward and backward, while GRU and RNN
are torch's own loop in C++ over single ops; on a GPU cuDNN.
"""

import contextlib

import numpy

from rnnworker.recurrent.layer import recurrent_layer

NAME = "torch.nn"
# Cell → class in torch.nn, its settings, where the canonical gates are in torch's order.
CLASSES = {
    "lstm": ("LSTM", {}, (0, 1, 2, 3)),
    "gru": ("GRU", {}, (1, 0, 2)),
    "rnn_tanh": ("RNN", {"nonlinearity": "tanh"}, (0,)),
    "rnn_relu": ("RNN", {"nonlinearity": "relu"}, (0,)),
}
CELLS = tuple(sorted(CLASSES))


def pack(cell, arrays):
    """Canonical arrays → [weight_ih, weight_hh, bias_ih, bias_hh]."""
    bias = arrays["bias"]
    first, second = (bias, numpy.zeros_like(bias)) if bias.ndim == 1 else bias
    given = [arrays["kernel"].T, arrays["recurrent"].T, first, second]
    return [_reordered(cell, one) for one in given]


def unpack(cell, values):
    """[weight_ih, weight_hh, bias_ih, bias_hh] → canonical arrays. ``bias_hh`` is read of a GRU
    only: of another cell it is zero, and has no gradient."""
    back = [_reordered(cell, numpy.asarray(one)) for one in values]
    bias = numpy.stack(back[2:4]) if cell == "gru" else back[2]
    return {"kernel": back[0].T, "recurrent": back[1].T, "bias": bias}


def layer_class(keras, cell):
    """A class of Keras layers around torch's for `cell`."""
    import torch

    name, settings, _ = CLASSES[cell]

    class TorchNative(recurrent_layer(keras)):
        def make_weights(self, inputs):
            module = getattr(torch.nn, name)(inputs, self.units, batch_first=True, **settings)
            if cell != "gru":
                torch.nn.init.zeros_(module.bias_hh_l0)
                module.bias_hh_l0.requires_grad_(False)
            # Keras wraps it when it is assigned: its parameters are weights of this layer.
            self.wrapped = module

        def outputs(self, inputs):
            if self.go_backwards:
                inputs = torch.flip(inputs, [1])
            with self.casting(inputs):
                hidden, _ = self.wrapped.module(inputs)
            return hidden if self.return_sequences else hidden[:, -1]

        def casting(self, inputs):
            """Keras casts its own variables; torch's parameters stay as they are, and torch's
            ``autocast`` casts them."""
            if inputs.dtype not in (torch.float16, torch.bfloat16):
                return contextlib.nullcontext()
            return torch.autocast(inputs.device.type, inputs.dtype)

        def pack(self, arrays):
            return pack(cell, arrays)

        def unpack(self, values):
            return unpack(cell, values)

    return TorchNative


def _reordered(cell, rows):
    """The gates' rows between the canonical order and torch's; its own inverse."""
    order = CLASSES[cell][2]
    parts = numpy.split(rows, len(order), axis=0)
    return numpy.concatenate([parts[gate] for gate in order], axis=0)
