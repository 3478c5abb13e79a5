"""Base classes of rnnbench's own recurrent layers: shapes, direction, no masks inside the layer."""

from rnnworker.arguments import OF_ANY_LAYER, Refusal, check_call
from rnnworker.recurrent.cells import shapes

# The arguments of a `RecurrentMethods`, in its options.
ARGUMENTS = ("return_sequences", "go_backwards", "name") + OF_ANY_LAYER


class RecurrentMethods:
    """The methods of a layer inputs (batch, time, features) → last output (batch, units), or all
    outputs. A subclass with 2 ``directions`` has outputs of twice the units."""

    directions = 1

    def __init__(self, units, return_sequences=False, go_backwards=False, **settings):
        super().__init__(**settings)
        self.units = units
        self.return_sequences = return_sequences
        self.go_backwards = go_backwards

    def build(self, shape):
        self.inputs_size = int(shape[-1])
        self.make_weights(self.inputs_size)
        self.built = True

    def get_config(self):
        """Keras asks for it to make another layer of the same kind, which would have other
        weights."""
        fault = (
            "Keras cannot make a copy of {}: write recurrent.bidirectional(…) in place of "
            "keras.layers.Bidirectional(recurrent(…))"
        )
        raise Refusal(fault.format(type(self).__name__))

    def make_weights(self, inputs):
        self.arrays = []
        for number, shape in enumerate(shapes(self.layout, inputs, self.units)):
            self.arrays.append(self.zeros("weight_{}".format(number), *shape))

    def zeros(self, name, *shape):
        return self.add_weight(shape=shape, initializer="zeros", name=name)

    def compute_output_shape(self, shape):
        features = self.directions * self.units
        if self.return_sequences:
            return (shape[0], shape[1], features)
        return (shape[0], features)

    def call(self, inputs, mask=None, training=None, initial_state=None):
        check_call(getattr(self, "asked_for", type(self).__name__), mask, initial_state)
        return self.outputs(inputs)


def recurrent_layer(keras):
    """The base class of layers over (batch, time, features), a class of the given Keras. Subclasses
    name the ``layout`` of their weights (`cells.LAYOUTS`), which are then in ``arrays``, or make
    them in ``make_weights(inputs)``. They provide ``outputs(inputs)``: (batch, time, features) →
    (batch, units), or (batch, time, units) with ``return_sequences``."""

    class RecurrentLayer(RecurrentMethods, keras.layers.Layer):
        pass

    return RecurrentLayer


def sequence_layer(keras, tensorflow):
    """A `recurrent_layer` made of TensorFlow's ops. In place of ``outputs``, subclasses provide
    ``hidden_states(sequence)``: (time, batch, features) → (time, batch, directions·units)."""

    class SequenceLayer(recurrent_layer(keras)):
        def tensors(self):
            return [tensorflow.convert_to_tensor(variable) for variable in self.arrays]

        def outputs(self, inputs):
            sequence = tensorflow.transpose(inputs, [1, 0, 2])
            if self.go_backwards:
                sequence = tensorflow.reverse(sequence, [0])
            hidden = self.hidden_states(sequence)
            features = self.directions * self.units
            hidden.set_shape([inputs.shape[1], inputs.shape[0], features])
            if self.return_sequences:
                return tensorflow.transpose(hidden, [1, 0, 2])
            if self.directions == 1:
                return hidden[-1]
            # The backward direction ends at the first time step.
            forward = hidden[-1, :, : self.units]
            backward = hidden[0, :, self.units :]
            return tensorflow.concat([forward, backward], -1)

    return SequenceLayer


def layer_settings(options):
    """The `options` that a `recurrent_layer` has as arguments."""
    return {name: options[name] for name in ARGUMENTS if name in options}
