"""A kernel of a user's own: any class with the method ``inner_loop``."""

from rnnlayers import refusals
from rnnlayers.sequences import cause_of_cell, check_mask

GATED = {"activation": ("tanh",), "recurrent_activation": ("sigmoid",)}
USUAL = {"LSTM": GATED, "GRU": GATED, "SimpleRNN": {"activation": ("tanh",)}}


class Own:
    """A kernel out of a class. Its method ``inner_loop(self, sequences, initial_state, mask,
    training=False)`` is that of Keras 3's recurrent layers: `self` is the layer, with its ``cell``
    and its ``go_backwards``; `sequences` (batch, time, features); `initial_state`, a list of
    (batch, units). It returns (the last output, the outputs of all steps, the last states).

    Attributes that the class may have:

    - ``computes``: {name of a layer: {argument: activations}}, by default each layer with tanh and
      sigmoid. Any other layer is refused.
    - ``with_dropout``: whether it drops inputs as the layer asks (`sequences.dropped`); otherwise a
      layer with dropout is refused.
    - ``with_masks``: whether it takes masks; a layer that is called with one is refused otherwise.
    - ``with_xla``: whether TensorFlow and torch may compile it, as jax does.
    - ``refuses(layer)``: a static method that returns why the kernel cannot compute a layer, as the
      end of a sentence, or None.
    """

    BACKENDS = ("tensorflow", "torch", "jax")

    def __init__(self, kernel):
        self._kernel = kernel
        if not callable(getattr(kernel, "inner_loop", None)):
            raise TypeError("{} has no method inner_loop".format(kernel.__name__))
        self.COMPILED_ON = self.BACKENDS if getattr(kernel, "with_xla", False) else ("jax",)

    def cause(self, keras, layer):
        found = cause_of_cell(keras, layer, getattr(self._kernel, "computes", USUAL))
        drops = getattr(self._kernel, "with_dropout", False)
        if found is None and layer.cell.dropout and not drops:
            found = refusals.DROPOUT
        refuses = getattr(self._kernel, "refuses", None)
        if found is None and refuses is not None:
            found = refuses(layer)
        return found

    def methods(self, keras):
        if getattr(self._kernel, "with_masks", False):
            return self._kernel
        return _without_masks(self._kernel)


_refusing = {}  # class → the same without masks


def _without_masks(kernel):
    if kernel not in _refusing:

        class Kernel(kernel):
            def inner_loop(self, sequences, initial_state, mask, training=False):
                check_mask(self, mask)
                return super().inner_loop(sequences, initial_state, None, training)

        _refusing[kernel] = Kernel
    return _refusing[kernel]
