"""Which Keras a model belongs to: Keras 3, ``tf.keras`` 2 or ``tf_keras``."""

import importlib

from rnnlayers.refusals import CannotCompute

PACKAGES = ("keras", "tf_keras", "tensorflow")


class Keras:
    """The Keras of a model. `layers` is its module of layers; `backend` is ``tensorflow``,
    ``torch`` or ``jax``."""

    def __init__(self, module, is_keras3):
        self.layers = module.layers
        self.activations = module.activations
        self.is_keras3 = is_keras3
        self.backend = module.backend.backend() if is_keras3 else "tensorflow"
        self.cells = {
            "LSTM": module.layers.LSTMCell,
            "GRU": module.layers.GRUCell,
            "SimpleRNN": module.layers.SimpleRNNCell,
        }

    def function(self, activation):
        """The name of an activation, ``tanh``, if it is the function of Keras, of its backend or of
        ``keras.ops``; None of any other one."""
        backend = importlib.import_module(self.backend)
        modules = [self.activations, backend, getattr(backend, "nn", None)]
        if self.is_keras3:
            modules.append(importlib.import_module("keras").ops)
        for name in ("tanh", "sigmoid", "relu"):
            known = [getattr(module, name, None) for module in modules]
            if activation is not None and any(activation is each for each in known):
                return name
        return None


def keras_of(model):
    """The `Keras` whose model or layer `model` is. Raises `CannotCompute` for anything else."""
    for base in type(model).__mro__:
        package = base.__module__.partition(".")[0]
        if base.__name__ == "Layer" and package in PACKAGES:
            module = importlib.import_module(package)
            if package == "tensorflow":
                return Keras(module.keras, False)
            return Keras(module, not module.__version__.startswith("2."))
    raise CannotCompute("{} is no model of Keras".format(type(model).__name__))
