"""tf.contrib.rnn's and tf.contrib.cudnn_rnn's own cells on a CPU, in TensorFlow 1.15.

Source: tensorflow/contrib/rnn/python/ops/{lstm_ops,gru_ops}.py, contrib/cudnn_rnn/python/ops/
cudnn_rnn_ops.py and python/ops/rnn_cell_impl.py of 1.15. ``rnn.options.class`` chooses among
`CLASSES`; without it the first one of the cell's. LSTMBlockFusedCell takes the whole sequence, the
others are run by ``tf.nn.dynamic_rnn``. Forget bias 0, no clip, no peepholes.

An LSTM's matrices and bias are one each, gates i, c, f, o; a GRU's gates r, u in one matrix and the
candidate in another. CudnnCompatibleGRUCell computes cuDNN's GRU (``gru``), but adds the two biases
of each gate up: with its one variable the gates' biases learn at half the speed of cuDNN's and
Keras's. The class is taken with a second variable beside that one; its equations are untouched.
"""

import numpy

from rnnworker.recurrent.block_cell import _swapped
from rnnworker.recurrent.cells import refuse
from rnnworker.recurrent.layer import layer_settings, sequence_layer

CLASSES = {
    "lstm": (
        "LSTMBlockFusedCell",
        "LSTMBlockCell",
        "CudnnCompatibleLSTMCell",
        "LSTMCell",
        "BasicLSTMCell",
    ),
    "gru": ("CudnnCompatibleGRUCell",),
    "gru_reset_before": ("GRUBlockCellV2", "GRUCell"),
    "rnn_tanh": ("BasicRNNCell",),
    "rnn_relu": ("BasicRNNCell",),
}
SETTINGS = {
    "LSTMBlockFusedCell": {"forget_bias": 0.0, "cell_clip": None, "use_peephole": False},
    "LSTMBlockCell": {"forget_bias": 0.0, "cell_clip": None, "use_peephole": False},
    "LSTMCell": {"forget_bias": 0.0, "cell_clip": None, "use_peepholes": False},
    "BasicLSTMCell": {"forget_bias": 0.0},
}
ICFO = (0, 2, 1, 3)


def make(keras, cell, units, options):
    import tensorflow

    refuse("a cell of tf.contrib", cell, tuple(sorted(CLASSES)), options)
    name = class_name(cell, options.get("class"))
    return _layer_class(keras, tensorflow, cell, name)(units, **layer_settings(options))


def class_name(cell, asked):
    """The class that is taken for `cell` where `asked` (or None) is in ``rnn.options.class``."""
    if asked is None:
        return CLASSES[cell][0]
    if asked not in CLASSES[cell]:
        known = ", ".join(CLASSES[cell])
        raise ValueError("rnn.options.class {!r} is none of {} for {}".format(asked, known, cell))
    return asked


def to_canonical(layer, values=None):
    return unpack(layer.cell_name, layer.get_weights() if values is None else values, layer.units)


def from_canonical(layer, arrays):
    layer.set_weights(pack(layer.cell_name, arrays))


def gradients_to_canonical(layer, values):
    return to_canonical(layer, values)


def pack(cell, arrays):
    """Canonical arrays → the class's weights in the order in which it makes them."""
    kernel, recurrent, bias = (arrays[name] for name in ("kernel", "recurrent", "bias"))
    both, edge = numpy.concatenate([kernel, recurrent], axis=0), 2 * recurrent.shape[0]
    if cell == "lstm":
        return [_swapped(value, 4, ICFO) for value in (both, bias)]
    if cell == "gru_reset_before":
        gates, gates_bias = (_swapped(value[..., :edge], 2, (1, 0)) for value in (both, bias))
        return [gates, gates_bias, both[:, edge:], bias[edge:]]
    if cell == "gru":
        gates, first, second = (
            _swapped(value[..., :edge], 2, (1, 0)) for value in (both, bias[0], bias[1])
        )
        candidate = [kernel[:, edge:], recurrent[:, edge:], bias[0, edge:], bias[1, edge:]]
        return [gates, first] + candidate + [second]
    return [both, bias]


def unpack(cell, values, units):
    """The reverse of `pack`; gradients travel as weights do."""
    if cell == "gru":
        gates, first, kernel, recurrent, input_bias, hidden_bias, second = values
        gates, first, second = (_swapped(value, 2, (1, 0)) for value in (gates, first, second))
        inputs = gates.shape[0] - units
        biases = [(first, input_bias), (second, hidden_bias)]
        return {
            "kernel": numpy.concatenate([gates[:inputs], kernel], axis=1),
            "recurrent": numpy.concatenate([gates[inputs:], recurrent], axis=1),
            "bias": numpy.stack([numpy.concatenate(one) for one in biases]),
        }
    if cell == "gru_reset_before":
        gates, gates_bias, candidate, candidate_bias = values
        both = numpy.concatenate([_swapped(gates, 2, (1, 0)), candidate], axis=1)
        bias = numpy.concatenate([_swapped(gates_bias, 2, (1, 0)), candidate_bias])
    elif cell == "lstm":
        both, bias = (_swapped(value, 4, ICFO) for value in values)
    else:
        both, bias = values
    inputs = both.shape[0] - units
    return {"kernel": both[:inputs], "recurrent": both[inputs:], "bias": bias}


def _layer_class(keras, tensorflow, cell, name):
    class Contrib(sequence_layer(keras, tensorflow)):
        cell_name = cell

        def make_weights(self, inputs):
            # Keras's optimizers update resource variables only.
            with tensorflow.variable_scope(None, default_name=self.name, use_resource=True):
                self.cell = _cell(tensorflow, cell, name, self.units)
                sizes = [None, None, inputs] if name == "LSTMBlockFusedCell" else [None, inputs]
                self.cell.build(tensorflow.TensorShape(sizes))
                self.cell.built = True

        def hidden_states(self, sequence):
            if name == "LSTMBlockFusedCell":
                return self.cell(sequence, dtype=sequence.dtype)[0]
            run = tensorflow.nn.dynamic_rnn
            return run(self.cell, sequence, dtype=sequence.dtype, time_major=True)[0]

    return Contrib


def _cell(tensorflow, cell, name, units):
    if name == "CudnnCompatibleGRUCell":
        return _two_biases(tensorflow)(units)
    settings = dict(SETTINGS.get(name, {}))
    if cell == "rnn_relu":
        settings["activation"] = tensorflow.nn.relu
    contrib = tensorflow.contrib
    home = contrib.cudnn_rnn if name.startswith("Cudnn") else contrib.rnn
    return getattr(home, name)(units, **settings)


def _two_biases(tensorflow):
    class TwoBiases(tensorflow.contrib.cudnn_rnn.CudnnCompatibleGRUCell):
        def build(self, shape):
            super().build(shape)
            second = self.add_variable(
                "gates/hidden_projection/bias",
                shape=[2 * self._num_units],
                initializer=tensorflow.zeros_initializer(),
            )
            self._gate_bias = self._gate_bias + second

    return TwoBiases
