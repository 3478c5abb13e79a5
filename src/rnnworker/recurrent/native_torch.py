"""``torch.nn.LSTM``, ``torch.nn.GRU`` and ``torch.nn.RNN`` as layers of Keras 3, which trains
torch's own parameters.

Source of the format of the weights: torch's documentation of these classes: one row per gate and
unit, gates i, f, g, o for LSTM (Keras's i, f, c, o); r, z, n for GRU, whose canonical order is
z, r, h. Each class adds two biases, ``bias_ih`` and ``bias_hh``. A GRU that resets after the
product has two biases in canonical form too, and both are trained. The other cells have a single
canonical bias, which is ``bias_ih``; ``bias_hh`` is zero and not trained. If it were trained, even
with half of the bias in each, both would get the whole gradient: their sum would learn twice as
fast, and the loss curve would differ from Keras's after the first step. As a consequence, Keras
counts gates·units more parameters.

Kernels: on a CPU, the LSTM is oneDNN's over the whole sequence, forward and backward, and GRU and
RNN are torch's own loop in C++ over single ops; on a GPU, all are cuDNN's.
"""

import contextlib

import numpy

from rnnworker.recurrent.layer import recurrent_layer

NAME = "torch.nn"
# Cell → class in torch.nn, its settings, positions of the canonical gates in torch's order.
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
    weights = [arrays["kernel"].T, arrays["recurrent"].T, first, second]
    return [_reorder_gates(cell, weight) for weight in weights]


def unpack(cell, values):
    """[weight_ih, weight_hh, bias_ih, bias_hh] → canonical arrays. ``bias_hh`` matters for a GRU
    only; in other cells it is zero and has no gradient."""
    weights = [_reorder_gates(cell, numpy.asarray(value)) for value in values]
    bias = numpy.stack(weights[2:4]) if cell == "gru" else weights[2]
    return {"kernel": weights[0].T, "recurrent": weights[1].T, "bias": bias}


def layer_class(keras, cell):
    """The class of Keras layers that wrap torch's layer for `cell`."""
    import torch

    name, settings, _ = CLASSES[cell]

    class TorchNative(recurrent_layer(keras)):
        def make_weights(self, inputs):
            module = getattr(torch.nn, name)(inputs, self.units, batch_first=True, **settings)
            if cell != "gru":
                torch.nn.init.zeros_(module.bias_hh_l0)
                module.bias_hh_l0.requires_grad_(False)
            # On assignment Keras wraps the module and adds its parameters to the layer's weights.
            self.wrapped = module

        def outputs(self, inputs):
            if self.go_backwards:
                inputs = torch.flip(inputs, [1])
            with self.casting(inputs):
                hidden, _ = self.wrapped.module(inputs)
            return hidden if self.return_sequences else hidden[:, -1]

        def casting(self, inputs):
            """Keras casts only its own variables; torch's ``autocast`` casts torch's parameters."""
            if inputs.dtype not in (torch.float16, torch.bfloat16):
                return contextlib.nullcontext()
            return torch.autocast(inputs.device.type, inputs.dtype)

        def pack(self, arrays):
            return pack(cell, arrays)

        def unpack(self, values):
            return unpack(cell, values)

    return TorchNative


def _reorder_gates(cell, rows):
    """Converts rows between the canonical order of gates and torch's; its own inverse."""
    order = CLASSES[cell][2]
    parts = numpy.split(rows, len(order), axis=0)
    return numpy.concatenate([parts[gate] for gate in order], axis=0)
