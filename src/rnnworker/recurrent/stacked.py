"""Several recurrent layers as one layer, each on all outputs of the one before."""


def make(keras, layers, name=None):
    """A layer of `layers`, all of which but the last return sequences."""
    return _stack_class(keras)(layers, **({"name": name} if name else {}))


def _stack_class(keras):
    class Stack(keras.layers.Layer):
        """inputs (batch, time, features) → the outputs of the last layer."""

        def __init__(self, layers, **settings):
            super().__init__(**settings)
            self.stacked_layers = list(layers)

        def build(self, shape):
            for layer in self.stacked_layers:
                layer.build(shape)
                shape = layer.compute_output_shape(shape)
            self.built = True

        def compute_output_shape(self, shape):
            for layer in self.stacked_layers:
                shape = layer.compute_output_shape(shape)
            return shape

        def call(self, inputs, mask=None, training=None):
            if mask is not None:
                raise ValueError("a stack of recurrent layers does not support a mask")
            for layer in self.stacked_layers:
                inputs = layer(inputs)
            return inputs

    return Stack
