"""tf.contrib.cudnn_rnn's CudnnLSTM, CudnnGRU, CudnnRNNTanh and CudnnRNNRelu, in TensorFlow 1.15.
GPU only.

Source: tensorflow/contrib/cudnn_rnn/python/layers/cudnn_rnn.py of 1.15. The class makes its opaque
buffer by an op that exists on a GPU only, and its size is unknown until that op has run; Keras's
optimizers do not accept that. This module makes the buffer as a variable of its size
(`cudnn_layout`) and passes it to the class, which calls its op on it.

tf.contrib trains the whole buffer, including both bias sets of an LSTM or a simple cell. Their sum
then learns twice as fast as Keras's single bias, and the loss curve differs from Keras's after the
first step. Here the second sets are zero and not trained.
"""

from rnnworker.recurrent import cudnn_layout
from rnnworker.recurrent.cells import check_supported
from rnnworker.recurrent.cudnn_raw import from_canonical, gradients_to_canonical, to_canonical
from rnnworker.recurrent.layer import layer_settings, sequence_layer

__all__ = ["from_canonical", "gradients_to_canonical", "make", "make_stack", "to_canonical"]
CLASSES = {
    "lstm": "CudnnLSTM",
    "gru": "CudnnGRU",
    "rnn_tanh": "CudnnRNNTanh",
    "rnn_relu": "CudnnRNNRelu",
}


def make(keras, cell, units, options):
    return make_stack(keras, cell, units, 1, 1, options)


def make_stack(keras, cell, units, layers, directions, options):
    """One layer that computes a stack of `layers` in 1 or 2 `directions`."""
    import tensorflow

    check_supported("tf.contrib.cudnn_rnn", cell, tuple(sorted(CLASSES)), options)
    layer_class = _layer_class(keras, tensorflow, cell, layers, directions)
    return layer_class(units, **layer_settings(options))


def _layer_class(keras, tensorflow, cell, layers, both):
    class ContribCudnn(sequence_layer(keras, tensorflow)):
        cell_name, depth, directions = cell, layers, both

        def make_weights(self, inputs):
            size = cudnn_layout.trained_size(cell, inputs, self.units, layers, both)
            self.trained = self.zeros("opaque_kernel", size)

        def hidden_states(self, sequence):
            # Not an attribute of the layer: Keras would list its variable twice.
            inner_class = getattr(tensorflow.contrib.cudnn_rnn, CLASSES[cell])
            inner = inner_class(layers, self.units, direction=cudnn_layout.DIRECTIONS[both])
            inner._input_size = self.inputs_size
            sizes = (self.inputs_size, self.units, layers, both)
            inner.kernel = cudnn_layout.with_untrained(tensorflow, self.trained, cell, *sizes)
            inner.built = True
            return inner(sequence, training=True)[0]

    return ContribCudnn
