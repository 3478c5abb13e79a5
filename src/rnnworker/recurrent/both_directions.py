"""A recurrent layer in both directions, and its weights in canonical form.

Keras's ``Bidirectional`` makes its inner layers anew from their configs, which leaves out
``use_cudnn`` (Keras 3) and needs a registered class. Its layers get the setting back here, and
layers that Keras cannot make anew stand side by side in a layer of ours that does the same.
"""

from rnnworker.recurrent.cells import accepts
from rnnworker.user_functions import OWN

WAYS = ("forward_", "backward_")
KEPT = ("use_cudnn", "_could_use_gpu_kernel")
# Where classes that Keras cannot make anew are defined.
OURS = ("rnnworker", OWN)


def make(keras, forward, backward, name=None):
    """A layer of two: outputs side by side on the last axis, forward first.

    **Arguments:**

    - `forward`, `backward`: layers alike, the second one with ``go_backwards``.
    """
    settings = {"name": name} if name else {}
    if not type(forward).__module__.startswith(OURS) and not _holds_ours(forward):
        if accepts(keras.layers.Bidirectional, "backward_layer"):
            settings["backward_layer"] = backward
        # Keras 2.0.6 has no such argument: it makes the backward layer from the forward one itself.
        layer = keras.layers.Bidirectional(forward, **settings)
        for inner, meant in ((layer.forward_layer, forward), (layer.backward_layer, backward)):
            for setting in KEPT:
                if hasattr(meant, setting):
                    setattr(inner, setting, getattr(meant, setting))
        return layer
    return _pair_class(keras)(forward, backward, **settings)


def split(values):
    """The values of both layers, forward first → one list for each direction."""
    half = len(values) // 2
    return values[:half], values[half:]


def joined(forward, backward):
    """Two sets of canonical arrays → one, each name with its way in front."""
    return {
        way + name: array
        for way, arrays in zip(WAYS, (forward, backward))
        for name, array in arrays.items()
    }


def parted(arrays):
    """One set of canonical arrays → those of the forward and of the backward layer."""
    return [
        {name[len(way) :]: array for name, array in arrays.items() if name.startswith(way)}
        for way in WAYS
    ]


def _holds_ours(layer):
    return type(getattr(layer, "cell", None)).__module__.startswith(OURS)


def _pair_class(keras):
    class BothDirections(keras.layers.Layer):
        """inputs (batch, time, features) → (batch, 2·units), or all steps of it."""

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
                raise ValueError("{} takes no mask".format(type(self.forward_layer).__name__))
            forward, backward = self.forward_layer(inputs), self.backward_layer(inputs)
            return _side_by_side(keras, forward, backward, self.return_sequences)

    return BothDirections


def _side_by_side(keras, forward, backward, sequences):
    """Both outputs on the last axis, the steps of `backward` turned into `forward`'s order."""
    if hasattr(keras, "ops"):  # Keras 3, on any framework
        backward = keras.ops.flip(backward, 1) if sequences else backward
        return keras.ops.concatenate([forward, backward], -1)
    import tensorflow

    backward = tensorflow.reverse(backward, [1]) if sequences else backward
    return tensorflow.concat([forward, backward], -1)
