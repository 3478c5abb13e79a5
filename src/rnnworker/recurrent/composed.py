"""Recurrent layers that consist of others, both directions of one or a stack of several, and their
weights in canonical form.

Keras's ``Bidirectional`` recreates its inner layers from their configs, which lack ``use_cudnn``
(Keras 3), and needs a registered class. This module sets ``use_cudnn`` again in Keras's layers, and
puts layers that Keras cannot recreate side by side in a layer that does the same.
"""

from rnnworker.arguments import Refusal
from rnnworker.canonical_weights import DIRECTIONS, layer_prefixes
from rnnworker.recurrent.cells import accepts
from rnnworker.user_functions import USER_MODULE_PREFIX

RESTORED = ("use_cudnn", "_could_use_gpu_kernel")
# The beginnings of the names of modules whose classes Keras cannot recreate.
UNREGISTERED = ("rnnworker", USER_MODULE_PREFIX)


def both_directions(keras, forward, backward, name=None):
    """A layer of two layers that differ only in ``go_backwards``: outputs side by side on the last
    axis, forward first."""
    settings = {"name": name} if name else {}
    if _is_unregistered(forward) or _is_unregistered(getattr(forward, "cell", None)):
        return _pair_class(keras)(forward, backward, **settings)
    # Keras 2.0.6 has no such argument: it makes the backward layer from the forward layer.
    if accepts(keras.layers.Bidirectional, "backward_layer"):
        settings["backward_layer"] = backward
    layer = keras.layers.Bidirectional(forward, **settings)
    for inner, original in ((layer.forward_layer, forward), (layer.backward_layer, backward)):
        for setting in RESTORED:
            if hasattr(original, setting):
                setattr(inner, setting, getattr(original, setting))
    return layer


def stack(keras, layers, name=None):
    """A layer of `layers`, each on all outputs of the one before; all but the last return
    sequences."""

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
                raise Refusal(
                    "recurrent.stack does not support a mask: write recurrent(…) for each layer"
                )
            for layer in self.stacked_layers:
                inputs = layer(inputs)
            return inputs

    return Stack(layers, **({"name": name} if name else {}))


def parts_of(layer):
    """{prefix in canonical form: part} of the layers of a stack, or of both directions of a layer;
    empty for any other layer."""
    if hasattr(layer, "stacked_layers"):
        parts = list(layer.stacked_layers)
        return dict(zip(layer_prefixes(len(parts)), parts))
    if hasattr(layer, "forward_layer"):
        return dict(zip(DIRECTIONS, (layer.forward_layer, layer.backward_layer)))
    return {}


def inner_layers(layer):
    """The single layers that `layer`, one of a model's recurrent layers, consists of."""
    return [inner for part in parts_of(layer).values() for inner in inner_layers(part)] or [layer]


def _is_unregistered(instance):
    return type(instance).__module__.startswith(UNREGISTERED)


def _pair_class(keras):
    class BothDirections(keras.layers.Layer):
        """inputs (batch, time, features) → (batch, 2·units), or (batch, time, 2·units)."""

        def __init__(self, forward, backward, **settings):
            super().__init__(**settings)
            self.forward_layer, self.backward_layer = forward, backward
            self.return_sequences = forward.return_sequences

        def build(self, shape):
            for layer in (self.forward_layer, self.backward_layer):
                layer.build(shape)
            self.built = True

        def compute_output_shape(self, shape):
            inner = tuple(self.forward_layer.compute_output_shape(shape))
            return inner[:-1] + (2 * inner[-1],)

        def call(self, inputs, mask=None, training=None):
            if mask is not None:
                kind = type(self.forward_layer).__name__
                raise Refusal("{} does not support a mask: Keras's own layers can".format(kind))
            forward, backward = self.forward_layer(inputs), self.backward_layer(inputs)
            return _side_by_side(keras, forward, backward, self.return_sequences)

    return BothDirections


def _side_by_side(keras, forward, backward, sequences):
    """Both outputs on the last axis, the time steps of `backward` in the order of `forward`'s."""
    if hasattr(keras, "ops"):  # Keras 3, on any framework
        backward = keras.ops.flip(backward, 1) if sequences else backward
        return keras.ops.concatenate([forward, backward], -1)
    import tensorflow

    backward = tensorflow.reverse(backward, [1]) if sequences else backward
    return tensorflow.concat([forward, backward], -1)
