"""Recurrent layers that consist of others, both directions of one or a stack of several, and their
weights in canonical form."""

import contextlib

from rnnworker.arguments import Refusal, check_call
from rnnworker.canonical_weights import DIRECTIONS, layer_prefixes


def both_directions(keras, forward, backward, settings=None):
    """A layer of two layers with weights of their own that differ only in ``go_backwards``: their
    outputs side by side, forward first. Keras's ``Bidirectional`` would make other ones from their
    configs. `settings`: further ones of a layer."""

    class BothDirections(keras.layers.Layer):
        """inputs (batch, time, features) → (batch, 2·units), or (batch, time, 2·units)."""

        def __init__(self, forward, backward, **settings):
            super().__init__(**settings)
            self.forward_layer = forward
            self.backward_layer = backward
            self.return_sequences = forward.return_sequences

        def build(self, shape):
            for layer in (self.forward_layer, self.backward_layer):
                layer.build(shape)
            self.built = True

        def compute_output_shape(self, shape):
            inner = tuple(self.forward_layer.compute_output_shape(shape))
            return inner[:-1] + (2 * inner[-1],)

        def call(self, inputs, mask=None, training=None, initial_state=None):
            check_call(self.forward_layer.asked_for, mask, initial_state)
            forward = self.forward_layer(inputs)
            backward = self.backward_layer(inputs)
            if hasattr(keras, "ops"):  # Keras 3, on any framework
                reverse, join = keras.ops.flip, keras.ops.concatenate
            else:
                import tensorflow

                reverse, join = tensorflow.reverse, tensorflow.concat
            if self.return_sequences:
                backward = reverse(backward, [1])
            return join([forward, backward], -1)

    return BothDirections(forward, backward, **(settings or {}))


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

    return Stack(layers, name=name)


def parts_of(layer):
    """{prefix in canonical form: part} of the layers of a stack, or of both directions of a layer;
    empty for any other layer."""
    if hasattr(layer, "stacked_layers"):
        prefixes = layer_prefixes(len(layer.stacked_layers))
        return dict(zip(prefixes, layer.stacked_layers))
    if hasattr(layer, "forward_layer"):
        forward, backward = DIRECTIONS
        return {forward: layer.forward_layer, backward: layer.backward_layer}
    return {}


# Attributes that add to the outputs of a layer or change their form → their value without effect.
PLAIN = {
    "return_state": False,
    "stateful": False,
    "merge_mode": "concat",
    "time_major": False,  # of Keras 2
}


def _not_plain(layer):
    """[(layer, attribute, the value without effect)] of what differs from `PLAIN`, in `layer` and
    those inside it."""
    found = []
    for each in (layer, *inner_layers(layer)):
        for name, value in PLAIN.items():
            if getattr(each, name, value) != value:
                found.append((each, name, value))
    return found


def is_plain(layer):
    """Whether `plain` would change nothing."""
    return not _not_plain(layer)


def plain(layer):
    """In its block, `layer` maps a sequence to its outputs alone: no states that are returned or
    kept, both directions side by side, the batch first."""
    return changed(_not_plain(layer))


def unfrozen(layer):
    """In its block, all weights of `layer` are trained: frozen ones have gradients too."""
    every = [layer] + inner_layers(layer)
    cells = [each.cell for each in every if hasattr(each, "cell")]
    every = every + cells
    for each in list(every):  # in Keras 3, weights may be frozen one by one
        every += getattr(each, "_trainable_variables", ())
    return changed([(each, "trainable", True) for each in every])


@contextlib.contextmanager
def changed(settings):
    """In its block, attributes have other values. `settings`: [(object, attribute, value)]."""
    before = [(each, name, getattr(each, name)) for each, name, _ in settings]
    try:
        for setting in settings:
            setattr(*setting)
        yield
    finally:
        for setting in before:  # of a layer before those of what it changes inside it
            setattr(*setting)


def inner_of(layer):
    """The layers directly inside a model, a wrapper or any other layer."""
    if hasattr(layer, "_flatten_layers"):  # Keras knows them
        return list(layer._flatten_layers(recursive=False, include_self=False))
    inner = getattr(layer, "layers", None)
    if isinstance(inner, (list, tuple)):
        return list(inner)
    if hasattr(layer, "forward_layer"):
        return [layer.forward_layer, layer.backward_layer]
    wrapped = getattr(layer, "layer", None)
    return [] if wrapped is None else [wrapped]


def flat(layers, enters=lambda layer: True):
    """`layers` and all layers inside them, each once and before those inside it. `enters`: a
    function that says of a layer whether those inside it belong to them."""
    found = []
    seen = set()
    waiting = list(layers)
    while waiting:
        layer = waiting.pop(0)
        if id(layer) in seen:
            continue
        seen.add(id(layer))
        found.append(layer)
        if enters(layer):
            waiting = inner_of(layer) + waiting
    return found


def inner_layers(layer):
    """The single layers that `layer`, one of a model's recurrent layers, consists of."""
    found = []
    for part in parts_of(layer).values():
        found += inner_layers(part)
    return found or [layer]
