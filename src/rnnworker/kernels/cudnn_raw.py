"""``CudnnRNNV2`` or ``CudnnRNNV3`` on one opaque parameter buffer: the basis of tf.contrib's
CudnnLSTM, CudnnGRU, CudnnRNNTanh and CudnnRNNRelu. GPU only. As there, one op on one buffer
computes all layers of a stack and both directions; unlike there, it trains one set of biases, or
two of a GRU, as Keras does (`cudnn_layout`).

Source: TensorFlow's op definitions (cudnn_rnn_ops.cc) and registered gradients
(cudnn_rnn_grad.py). ``rnn.options.op`` in the config chooses the op; V3 takes the lengths of the
sequences, which are all full here. Both are always called with ``is_training=True``, as in Keras
(keras/src/backend/tensorflow/rnn.py, ``_cudnn_lstm`` and ``_cudnn_gru``).
"""

from rnnworker.recurrent import cudnn_layout
from rnnworker.recurrent.cells import supported
from rnnworker.recurrent.layer import layer_settings

MAKES_STACKS = True
OPTIONS = ("op",)
OPS = ("CudnnRNNV2", "CudnnRNNV3")


def make(keras, cell, units, options, layers=1, directions=1):
    """One layer that computes a stack of `layers` in 1 or 2 `directions`."""
    supported("CudnnRNN", cell, sorted(cudnn_layout.ORDERS), options)
    import tensorflow

    base = cudnn_layout.buffer_layer(keras, tensorflow, cell, layers, directions)
    op = options.get("op", OPS[0])
    if op not in OPS:
        raise ValueError("rnn.options.op {!r} must be one of {}".format(op, ", ".join(OPS)))

    class CudnnRaw(base):
        def hidden_states(self, sequence):
            shape = tensorflow.shape(sequence)
            zeros = tensorflow.zeros([layers * directions, shape[1], self.units], sequence.dtype)
            arguments = {
                "rnn_mode": cell,
                "is_training": True,
                "direction": cudnn_layout.DIRECTIONS[directions],
                "input": sequence,
                "input_h": zeros,
                "input_c": zeros,
            }
            if cell != "lstm":
                arguments["input_c"] = tensorflow.constant(0, sequence.dtype)
            if op == "CudnnRNNV3":
                arguments["sequence_lengths"] = tensorflow.fill([shape[1]], shape[0])
            call = getattr(tensorflow.raw_ops, op)
            return call(params=self.whole_buffer(), **arguments).output

    return CudnnRaw(units, **layer_settings(options))
