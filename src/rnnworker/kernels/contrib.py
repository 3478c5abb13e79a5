"""The cells of tf.contrib.rnn and tf.contrib.cudnn_rnn on a CPU, in TensorFlow 1.15.

Source: tensorflow/contrib/rnn/python/ops/{lstm_ops,gru_ops}.py, contrib/cudnn_rnn/python/ops/
cudnn_rnn_ops.py and python/ops/rnn_cell_impl.py of 1.15. ``rnn.options.class`` chooses one of the
cell's `CLASSES`, by default the first. LSTMBlockFusedCell takes the whole sequence;
``tf.nn.dynamic_rnn`` runs the others. The forget bias is 0; there are no clips and no peepholes.

An LSTM has one matrix and one bias, gates i, c, f, o. A GRU has its gates r, u in one matrix and
the candidate in another. CudnnCompatibleGRUCell computes cuDNN's GRU (``gru``), but adds the two
biases of each gate to a single variable, so that these biases learn at half the speed of cuDNN's
and Keras's. This module adds a second variable to the class; the equations are unchanged.
"""

from rnnworker.recurrent.cells import supported
from rnnworker.recurrent.layer import layer_settings, sequence_layer

OPTIONS = ("class",)
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
# Cell → the layout of its classes' weights, in the order in which they make them.
LAYOUTS = {
    "lstm": "lstm_icfo",
    "gru": "contrib_gru",
    "gru_reset_before": "gru_reset_before",
    "rnn_tanh": "rnn",
    "rnn_relu": "rnn",
}
SETTINGS = {
    "LSTMBlockFusedCell": {"forget_bias": 0.0, "cell_clip": None, "use_peephole": False},
    "LSTMBlockCell": {"forget_bias": 0.0, "cell_clip": None, "use_peephole": False},
    "LSTMCell": {"forget_bias": 0.0, "cell_clip": None, "use_peepholes": False},
    "BasicLSTMCell": {"forget_bias": 0.0},
}


def make(keras, cell, units, options):
    supported("tf.contrib", cell, sorted(CLASSES), options)
    import tensorflow

    name = class_name(cell, options.get("class"))

    class Contrib(sequence_layer(keras, tensorflow)):
        layout = LAYOUTS[cell]

        def make_weights(self, inputs):
            # Keras's optimizers can only update resource variables.
            with tensorflow.variable_scope(None, default_name=self.name, use_resource=True):
                self.cell = _cell(tensorflow, cell, name, self.units)
                sizes = [None, inputs]
                if name == "LSTMBlockFusedCell":
                    sizes = [None, None, inputs]
                self.cell.build(tensorflow.TensorShape(sizes))
                self.cell.built = True

        def hidden_states(self, sequence):
            if name == "LSTMBlockFusedCell":
                return self.cell(sequence, dtype=sequence.dtype)[0]
            run = tensorflow.nn.dynamic_rnn
            outputs, _ = run(self.cell, sequence, dtype=sequence.dtype, time_major=True)
            return outputs

    return Contrib(units, **layer_settings(options))


def class_name(cell, requested):
    """The class for `cell` if ``rnn.options.class`` is `requested` (or None)."""
    if requested is None:
        return CLASSES[cell][0]
    if requested not in CLASSES[cell]:
        message = "rnn.options.class {!r} must be one of {} for {}"
        raise ValueError(message.format(requested, ", ".join(CLASSES[cell]), cell))
    return requested


def _cell(tensorflow, cell, name, units):
    if name == "CudnnCompatibleGRUCell":
        return _two_biases(tensorflow)(units)
    settings = dict(SETTINGS.get(name, {}))
    if cell == "rnn_relu":
        settings["activation"] = tensorflow.nn.relu
    contrib = tensorflow.contrib
    package = contrib.cudnn_rnn if name.startswith("Cudnn") else contrib.rnn
    return getattr(package, name)(units, **settings)


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
