"""Watches a model's ``build``: where it makes each layer, the shapes of the inputs of recurrent
layers, and the arguments with which it compiles."""

import contextlib

from rnnworker.frameworks import keras_facts
from rnnworker.recorded import recording
from rnnworker.recurrent.in_place import RECURRENT
from rnnworker.user_functions import caller

# Arguments of ``compile`` that are attributes too.
SETTINGS = ("run_eagerly", "jit_compile", "steps_per_execution")


class Watched:
    def __init__(self, keras):
        self._keras = keras
        # id of a model → the arguments and the line of the model's file that compiled it
        self._compiled = {}
        self._places = {}  # id of a layer → the line of the model's file that made it
        self._shapes = {}  # id of a recurrent layer → the shape of its inputs, with the batch
        self._settings = []  # (model, `SETTINGS` after it was compiled)
        self._alive = []  # so that no id is used twice

    def place(self, layer):
        """``FILE, line N`` where the model has made `layer`, or an optimizer; None if that is
        unknown."""
        return self._places.get(id(layer))

    def made(self):
        """All layers that were made in a line of the model's file."""
        return [each for each in self._alive if self._places.get(id(each))]

    def input_shape(self, layer):
        """The shape of the inputs of a recurrent `layer`, with the batch; None if it was built at
        another time."""
        return self._shapes.get(id(layer))

    def compiled(self, model):
        """(the arguments with which the model has compiled itself, None if it has not; ``FILE, line
        N`` where it has, None if that is unknown)."""
        # A Sequential of Keras 2.0.6 compiles a model inside it.
        for each in (model, getattr(model, "model", None)):
            if id(each) in self._compiled:
                return self._compiled[id(each)]
        return None, None

    @contextlib.contextmanager
    def watching(self):
        """Records what happens in its block."""
        with recording(self._watched()):
            yield
        for model, settings in self._settings:
            given, _ = self._compiled[id(model)]
            for name, value in _settings_of(model).items():
                if value != settings[name]:
                    given[name] = value  # set after `compile`

    def _watched(self):
        keras = self._keras
        # Keras would take a Model with another `compile` than its Trainer's for a user's own.
        trainer = next(each for each in keras.models.Model.__mro__ if "compile" in vars(each))
        watched = [(trainer, "compile", self._compile)]
        for kind in (keras.layers.Layer,) + keras_facts.optimizers(keras):
            watched.append((kind, "__init__", self._make))
        if hasattr(trainer, "compile_from_config"):
            watched.append((trainer, "compile_from_config", self._compile_from_config))
        for name in RECURRENT + ("RNN", "Bidirectional"):
            layer_class = getattr(keras.layers, name, None)
            if "build" in vars(layer_class or object):
                watched.append((layer_class, "build", self._build))
        return watched

    def _make(self, _, arguments):
        layer = next(iter(arguments.values()))
        self._alive.append(layer)
        self._places[id(layer)] = caller()

    def _build(self, _, arguments):
        layer, shape = list(arguments.values())[:2]
        # Keras 2 gives a layer with initial states a list of shapes.
        if isinstance(shape, list) and hasattr(shape[0], "__len__"):
            shape = shape[0]
        self._shapes[id(layer)] = shape

    def _compile(self, _, arguments):
        given = dict(arguments)
        model = given.pop(next(iter(arguments)))
        given.update(given.pop("kwargs", {}))
        self._compiled[id(model)] = (given, caller())
        self._settings.append((model, _settings_of(model)))

    def _compile_from_config(self, _, arguments):
        model = next(iter(arguments.values()))
        if id(model) in self._compiled:
            # A saved model states what "auto" was where it was saved.
            self._compiled[id(model)][0].pop("jit_compile", None)


def _settings_of(model):
    return {name: getattr(model, name, None) for name in SETTINGS}
