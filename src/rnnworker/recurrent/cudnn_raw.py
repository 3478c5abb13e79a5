"""``CudnnRNNV2`` or ``CudnnRNNV3`` on one opaque parameter buffer: the basis of tf.contrib's
CudnnLSTM, CudnnGRU, CudnnRNNTanh and CudnnRNNRelu. GPU only.

Source: TensorFlow's op definitions (cudnn_rnn_ops.cc) and registered gradients
(cudnn_rnn_grad.py). ``rnn.options.op`` in the config chooses the op; V3 takes the lengths of the
sequences, which are all full here. Both are always called with ``is_training=True``, as in Keras
(keras/src/backend/tensorflow/rnn.py, ``_cudnn_lstm`` and ``_cudnn_gru``).

The trained variable is the buffer (`cudnn_layout`). tf.contrib trained both bias sets of an LSTM,
so that its biases learned twice as fast as Keras's. Here the second set, the end of the buffer, is
zero and not trained, as in Keras. Both sets of a GRU are trained, as in Keras.
"""

from rnnworker.recurrent import cudnn_layout
from rnnworker.recurrent.cells import check_supported
from rnnworker.recurrent.layer import layer_settings, sequence_layer

CELLS = ("gru", "lstm", "rnn_relu", "rnn_tanh")  # also the names of cuDNN's modes
OPS = ("CudnnRNNV2", "CudnnRNNV3")


def make(keras, cell, units, options):
    import tensorflow

    check_supported("CudnnRNN", cell, CELLS, options)
    op = options.get("op", OPS[0])
    if op not in OPS:
        raise ValueError("rnn.options.op {!r} must be one of {}".format(op, ", ".join(OPS)))
    return _layer_class(keras, tensorflow, cell, op)(units, **layer_settings(options))


def to_canonical(layer):
    return _unpack(layer, layer.get_weights(), gradients=False)


def gradients_to_canonical(layer, values):
    return _unpack(layer, values, gradients=True)


def from_canonical(layer, arrays):
    layer.set_weights([cudnn_layout.pack_trained(layer.cell_name, arrays)])


def _unpack(layer, values, gradients):
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
            params = cudnn_layout.append_untrained(tensorflow, self.trained, cell, *sizes)
            zeros = tensorflow.zeros([1, shape[1], self.units], sequence.dtype)
            memory = zeros if cell == "lstm" else tensorflow.constant(0, sequence.dtype)
            arguments = {"input": sequence, "input_h": zeros, "input_c": memory, "params": params}
            if op == "CudnnRNNV3":
                arguments["sequence_lengths"] = tensorflow.fill([shape[1]], shape[0])
            call = getattr(tensorflow.raw_ops, op)
            return call(rnn_mode=cell, is_training=True, **arguments).output

    return CudnnRaw
