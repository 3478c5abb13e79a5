"""``call`` of a recurrent layer of tf.keras 2 around ``inner_loop``, the method of Keras 3."""

from rnnlayers.refusals import RAGGED, refusal
from rnnlayers.sequences import check_mask


def not_converted():
    """`call` as it is, also where TensorFlow would convert its Python code into a graph's."""
    import tensorflow

    return tensorflow.autograph.experimental.do_not_convert(call)


def call(self, inputs, mask=None, training=None, initial_state=None):
    """Treats inputs, states and outputs as a layer's own ``call`` does.

    Source: Keras 2.15, layers/rnn/base_rnn.py, ``RNN.call``.
    """
    import tensorflow

    parts = inputs if isinstance(inputs, list) else [inputs]
    if isinstance(parts[0], tensorflow.RaggedTensor):
        raise refusal(self, self.rnnlayers_kernel, RAGGED)
    check_mask(self, mask)
    sequences, states, _ = self._process_inputs(inputs, initial_state, None)
    self._maybe_reset_cell_dropout_mask(self.cell)

    time_major = getattr(self, "time_major", False)
    if time_major:
        sequences = tensorflow.transpose(sequences, [1, 0, 2])
    last, outputs, states = self.inner_loop(sequences, list(states), None, training)
    if time_major:
        outputs = tensorflow.transpose(outputs, [1, 0, 2])

    if self.stateful:
        updates = []
        for variable, state in zip(self.states, states):
            new = tensorflow.cast(state, variable.dtype)
            updates.append(tensorflow.compat.v1.assign(variable, new))
        self.add_update(updates)
    output = outputs if self.return_sequences else last
    if self.return_state:
        return [output] + list(states)
    return output
