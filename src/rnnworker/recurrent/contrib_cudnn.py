"""tf.contrib.cudnn_rnn's CudnnLSTM, CudnnGRU, CudnnRNNTanh and CudnnRNNRelu, in TensorFlow 1.15.
GPU only.

Source: tensorflow/contrib/cudnn_rnn/python/layers/cudnn_rnn.py of 1.15. The class makes its opaque
buffer by an op that exists on a GPU only, and its size is unknown until that op has run; Keras's
optimizers do not accept that. This module makes the buffer as a variable of its size
(`cudnn_layout`) and passes it to the class, which calls its op on it.

tf.contrib trains the whole buffer, including both bias sets of an LSTM or a simple cell. Their sum
then learns twice as fast as Keras's single bias, and the loss curve differs from Keras's after the
first step. Here the second set is zero and not trained.
"""

from rnnworker.recurrent import cudnn_layout
from rnnworker.recurrent.cells import check_supported
from rnnworker.recurrent.cudnn_raw import from_canonical, gradients_to_canonical, to_canonical
from rnnworker.recurrent.layer import layer_settings, sequence_layer

__all__ = ["from_canonical", "gradients_to_canonical", "make", "to_canonical"]
CLASSES = {
    "lstm": "CudnnLSTM",
    "gru": "CudnnGRU",
    "rnn_tanh": "CudnnRNNTanh",
    "rnn_relu": "CudnnRNNRelu",
}


def make(keras, cell, units, options):
    import tensorflow

    check_supported("tf.contrib.cudnn_rnn", cell, tuple(sorted(CLASSES)), options)
    return _layer_class(keras, tensorflow, cell)(units, **layer_settings(options))


def _layer_class(keras, tensorflow, cell):
    class ContribCudnn(sequence_layer(keras, tensorflow)):
        cell_name = cell

        def make_weights(self, inputs):
            size = cudnn_layout.trained_size(cell, inputs, self.units)
            self.trained = self.zeros("opaque_kernel", size)

        def hidden_states(self, sequence):
            # Not an attribute of the layer: Keras would list its variable twice.
            inner = getattr(tensorflow.contrib.cudnn_rnn, CLASSES[cell])(1, self.units)
            inner._input_size = self.inputs_size
            sizes = (self.inputs_size, self.units)
            inner.kernel = cudnn_layout.append_untrained(tensorflow, self.trained, cell, *sizes)
            inner.built = True
            return inner(sequence, training=True)[0]

    return ContribCudnn
