"""tf.contrib.cudnn_rnn's CudnnLSTM, CudnnGRU, CudnnRNNTanh and CudnnRNNRelu, in TensorFlow 1.15.
GPU only.

Source: tensorflow/contrib/cudnn_rnn/python/layers/cudnn_rnn.py of 1.15. The class makes its opaque
buffer by an op that exists on a GPU only, and its size is unknown until that op has run; Keras's
optimizers do not accept that. This module makes the buffer as a variable of its size and passes it
to the class, which calls its op on it. tf.contrib trains the whole buffer; here the second biases
of an LSTM or a simple cell are zero and not trained (`cudnn_layout`).
"""

from rnnworker.recurrent import cudnn_layout
from rnnworker.recurrent.cells import supported
from rnnworker.recurrent.layer import layer_settings

MAKES_STACKS = True
CLASSES = {
    "lstm": "CudnnLSTM",
    "gru": "CudnnGRU",
    "rnn_tanh": "CudnnRNNTanh",
    "rnn_relu": "CudnnRNNRelu",
}


def make(keras, cell, units, options, layers=1, directions=1):
    """One layer that computes a stack of `layers` in 1 or 2 `directions`."""
    supported("tf.contrib.cudnn_rnn", cell, sorted(cudnn_layout.ORDERS), options)
    import tensorflow

    base = cudnn_layout.buffer_layer(keras, tensorflow, cell, layers, directions)

    class ContribCudnn(base):
        def hidden_states(self, sequence):
            # Not an attribute of the layer: Keras would list its variable twice.
            inner_class = getattr(tensorflow.contrib.cudnn_rnn, CLASSES[cell])
            direction = cudnn_layout.DIRECTIONS[directions]
            inner = inner_class(layers, self.units, direction=direction)
            inner._input_size = self.inputs_size
            inner.kernel = self.whole_buffer()
            inner.built = True
            return inner(sequence, training=True)[0]

    return ContribCudnn(units, **layer_settings(options))
