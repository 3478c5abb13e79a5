"""tf.contrib.cudnn_rnn's CudnnLSTM, CudnnGRU, CudnnRNNTanh and CudnnRNNRelu, in TensorFlow 1.15.
GPU only.

Source: tensorflow/contrib/cudnn_rnn/python/layers/cudnn_rnn.py of 1.15. The class makes its opaque
buffer by an op that exists on a GPU only, and its size is unknown until that has run, which Keras's
optimizers do not take; here the buffer is made as a variable of its size (`cudnn_layout`) and given
to the class, which calls the op on it.

tf.contrib trains all of the buffer, both bias sets of an LSTM or a simple cell too, so that their
sum learns twice as fast as Keras's one bias and the loss curve parts from Keras's after the first
step. Here the second set is zero and not trained.
"""

from rnnworker.recurrent import cudnn_layout
from rnnworker.recurrent.cells import refuse
from rnnworker.recurrent.layer import layer_settings, sequence_layer

CLASSES = {
    "lstm": "CudnnLSTM",
    "gru": "CudnnGRU",
    "rnn_tanh": "CudnnRNNTanh",
    "rnn_relu": "CudnnRNNRelu",
}


def make(keras, cell, units, options):
    import tensorflow

    refuse("tf.contrib.cudnn_rnn", cell, tuple(sorted(CLASSES)), options)
    return _layer_class(keras, tensorflow, cell)(units, **layer_settings(options))


def to_canonical(layer):
    return _unpacked(layer, layer.get_weights(), gradients=False)


def gradients_to_canonical(layer, values):
    return _unpacked(layer, values, gradients=True)


def from_canonical(layer, arrays):
    layer.set_weights([cudnn_layout.pack_trained(layer.cell_name, arrays)])


def _unpacked(layer, values, gradients):
    shape = (layer.inputs_size, layer.units)
    return cudnn_layout.unpack_trained(layer.cell_name, values[0], *shape, gradients=gradients)


def _layer_class(keras, tensorflow, cell):
    class ContribCudnn(sequence_layer(keras, tensorflow)):
        cell_name = cell

        def make_weights(self, inputs):
            size = cudnn_layout.trained_size(cell, inputs, self.units)
            self.trained = self.zeros("opaque_kernel", size)

        def hidden_states(self, sequence):
            # Not kept as an attribute: Keras would list its variable twice.
            inner = getattr(tensorflow.contrib.cudnn_rnn, CLASSES[cell])(1, self.units)
            inner._input_size = self.inputs_size
            sizes = (self.inputs_size, self.units)
            inner.kernel = cudnn_layout.with_zeros(tensorflow, self.trained, cell, *sizes)
            inner.built = True
            return inner(sequence, training=True)[0]

    return ContribCudnn
