"""``CudnnRNNV2`` or ``CudnnRNNV3`` on one opaque parameter buffer: the basis of tf.contrib's
CudnnLSTM, CudnnGRU, CudnnRNNTanh and CudnnRNNRelu. GPU only. As there, one op on one buffer
computes all layers of a stack and both directions.

Source: TensorFlow's op definitions (cudnn_rnn_ops.cc) and registered gradients
(cudnn_rnn_grad.py). ``rnn.options.op`` in the config chooses the op; V3 takes the lengths of the
sequences, which are all full here. Both are always called with ``is_training=True``, as in Keras
(keras/src/backend/tensorflow/rnn.py, ``_cudnn_lstm`` and ``_cudnn_gru``).

The trained variable is the buffer (`cudnn_layout`). tf.contrib trained both bias sets of an LSTM,
so that its biases learned twice as fast as Keras's. Here the second sets are zero and not trained,
as in Keras. Both sets of a GRU are trained, as in Keras.
"""

from rnnworker.recurrent import cudnn_layout
from rnnworker.recurrent.cells import check_supported
from rnnworker.recurrent.layer import layer_settings, sequence_layer

CELLS = ("gru", "lstm", "rnn_relu", "rnn_tanh")  # also the names of cuDNN's modes
OPS = ("CudnnRNNV2", "CudnnRNNV3")


def make(keras, cell, units, options):
    return make_stack(keras, cell, units, 1, 1, options)


def make_stack(keras, cell, units, layers, directions, options):
    """One layer that computes a stack of `layers` in 1 or 2 `directions`."""
    import tensorflow

    check_supported("CudnnRNN", cell, CELLS, options)
    op = options.get("op", OPS[0])
    if op not in OPS:
        raise ValueError("rnn.options.op {!r} must be one of {}".format(op, ", ".join(OPS)))
    layer_class = _layer_class(keras, tensorflow, cell, op, layers, directions)
    return layer_class(units, **layer_settings(options))


def to_canonical(layer):
    return _unpack(layer, layer.get_weights(), gradients=False)


def gradients_to_canonical(layer, values):
    return _unpack(layer, values, gradients=True)


def from_canonical(layer, arrays):
    layer.set_weights([cudnn_layout.pack_trained(layer.cell_name, arrays)])


def _unpack(layer, values, gradients):
    sizes = (layer.inputs_size, layer.units, layer.depth, layer.directions)
    return cudnn_layout.unpack_trained(layer.cell_name, values[0], *sizes, gradients=gradients)


def _layer_class(keras, tensorflow, cell, op, layers, both):
    class CudnnRaw(sequence_layer(keras, tensorflow)):
        cell_name, depth, directions = cell, layers, both

        def make_weights(self, inputs):
            size = cudnn_layout.trained_size(cell, inputs, self.units, layers, both)
            self.trained = self.zeros("opaque_kernel", size)

        def hidden_states(self, sequence):
            shape = tensorflow.shape(sequence)
            sizes = (self.inputs_size, self.units, layers, both)
            params = cudnn_layout.with_untrained(tensorflow, self.trained, cell, *sizes)
            zeros = tensorflow.zeros([layers * both, shape[1], self.units], sequence.dtype)
            memory = zeros if cell == "lstm" else tensorflow.constant(0, sequence.dtype)
            arguments = {"input": sequence, "input_h": zeros, "input_c": memory, "params": params}
            arguments["direction"] = cudnn_layout.DIRECTIONS[both]
            if op == "CudnnRNNV3":
                arguments["sequence_lengths"] = tensorflow.fill([shape[1]], shape[0])
            call = getattr(tensorflow.raw_ops, op)
            return call(rnn_mode=cell, is_training=True, **arguments).output

    return CudnnRaw
