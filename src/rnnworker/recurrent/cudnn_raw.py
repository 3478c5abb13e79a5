"""``CudnnRNNV2`` or ``CudnnRNNV3`` on one opaque parameter buffer: what tf.contrib's CudnnLSTM,
CudnnGRU, CudnnRNNTanh and CudnnRNNRelu were made of. GPU only.

Source: TensorFlow's op definitions (cudnn_rnn_ops.cc) and registered gradients
(cudnn_rnn_grad.py). ``rnn.options.op`` in the config chooses the op; V3 takes the sequences'
lengths, all of them full here. Both are called with ``is_training=True`` always, as Keras does
(keras/src/backend/tensorflow/rnn.py, ``_cudnn_lstm`` and ``_cudnn_gru``).

The trained variable is the buffer (`cudnn_layout`). tf.contrib trained both bias sets of an LSTM,
so that its biases moved twice as fast as Keras's; here the second set, the buffer's end, is not
trained and zero, as in Keras. Both sets of a GRU are trained, in Keras too.
"""

from rnnworker.recurrent import cudnn_layout
from rnnworker.recurrent.cells import refuse
from rnnworker.recurrent.layer import layer_settings, sequence_layer

MODES = {"lstm": "lstm", "gru": "gru", "rnn_tanh": "rnn_tanh", "rnn_relu": "rnn_relu"}
OPS = ("CudnnRNNV2", "CudnnRNNV3")


def make(keras, cell, units, options):
    import tensorflow

    refuse("CudnnRNN", cell, tuple(sorted(MODES)), options)
    op = options.get("op", OPS[0])
    if op not in OPS:
        raise ValueError("rnn.options.op {!r} is none of {}".format(op, ", ".join(OPS)))
    return _layer_class(keras, tensorflow, cell, op)(units, **layer_settings(options))


def to_canonical(layer):
    return _unpacked(layer, layer.get_weights(), gradients=False)


def gradients_to_canonical(layer, values):
    return _unpacked(layer, values, gradients=True)


def from_canonical(layer, arrays):
    layer.set_weights([cudnn_layout.pack_trained(layer.cell_name, arrays)])


def _unpacked(layer, values, gradients):
    shape = (layer.inputs_size, layer.units)
    return cudnn_layout.unpack_trained(layer.cell_name, values[0], *shape, gradients=gradients)


def _layer_class(keras, tensorflow, cell, op):
    class CudnnRaw(sequence_layer(keras, tensorflow)):
        cell_name = cell

        def make_weights(self, inputs):
            size = cudnn_layout.trained_size(cell, inputs, self.units)
            self.trained = self.zeros("opaque_kernel", size)

        def hidden_states(self, sequence):
            shape = tensorflow.shape(sequence)
            sizes = (self.inputs_size, self.units)
            params = cudnn_layout.with_zeros(tensorflow, self.trained, cell, *sizes)
            zeros = tensorflow.zeros([1, shape[1], self.units], sequence.dtype)
            memory = zeros if cell == "lstm" else tensorflow.constant(0, sequence.dtype)
            given = {"input": sequence, "input_h": zeros, "input_c": memory, "params": params}
            if op == "CudnnRNNV3":
                given["sequence_lengths"] = tensorflow.fill([shape[1]], shape[0])
            found = getattr(tensorflow.raw_ops, op)(rnn_mode=MODES[cell], is_training=True, **given)
            return found.output

    return CudnnRaw
