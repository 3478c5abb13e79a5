"""Watches a model's ``build``: where it makes each layer, the shapes of the inputs of recurrent
layers, the initializers of its weights, the weights that it sets itself, and the arguments with
which it compiles."""

import contextlib
import functools
import inspect
import zlib
from unittest import mock

import numpy

from rnnworker.recurrent.in_place import RECURRENT
from rnnworker.user_functions import caller

DEFAULT = ("GlorotUniform", {})  # Keras's, for a weight whose layer states no initializer


class Watched:
    """`value_of`: a function that returns the value of a variable, or None if it has none yet."""

    def __init__(self, keras, value_of=lambda variable: None):
        self._keras = keras
        self._value_of = value_of
        self._initializers = {}  # id of a variable → (class name, settings)
        self._assigned = set()
        self._first = {}  # id of a variable → checksum of its first value
        self._compiled = {}  # id of a model → arguments
        self._places = {}  # id of a layer → the line of the model's file that made it
        self._shapes = {}  # id of a recurrent layer → the shape of its inputs, with the batch
        self._alive = []  # so that no id is used twice

    def initializer(self, variable):
        """(class name, settings) of the initializer of a `variable`; None if the model has set it,
        or made it without Keras's ``add_weight``, or if it has no initializer and other numbers
        than floating-point ones."""
        if id(variable) in self._assigned:
            return None
        return self._initializers.get(id(variable))

    def is_assigned(self, variable):
        return id(variable) in self._assigned

    def place(self, layer):
        """``FILE, line N`` where the model has made `layer`; None if that is unknown."""
        return self._places.get(id(layer))

    def input_shape(self, layer):
        """The shape of the inputs of a recurrent `layer`, with the batch; None if it was built at
        another time."""
        return self._shapes.get(id(layer))

    def compile_arguments(self, model):
        """The arguments with which the model has compiled itself; None if it has not."""
        # A Sequential of Keras 2.0.6 compiles a model inside it.
        for each in (model, getattr(model, "model", None)):
            if id(each) in self._compiled:
                return self._compiled[id(each)]
        return None

    @contextlib.contextmanager
    def watching(self, assignments):
        """Records what happens in the block. `assignments`: (object, attribute) of the functions
        that set variables, each of which takes a variable, or a list of (variable, value)."""
        keras = self._keras
        # Keras would take a Model with another `compile` than its Trainer's for a user's own.
        trainer = next(each for each in keras.models.Model.__mro__ if "compile" in vars(each))
        watched = [
            (keras.layers.Layer, "__init__", self._make),
            (keras.layers.Layer, "add_weight", self._add_weight),
            (trainer, "compile", self._compile),
        ]
        if hasattr(trainer, "compile_from_config"):
            watched.append((trainer, "compile_from_config", self._compile_from_config))
        for name in RECURRENT + ("RNN", "Bidirectional"):
            layer_class = getattr(keras.layers, name, None)
            if "build" in vars(layer_class or object):
                watched.append((layer_class, "build", self._build))
        for owner, name in assignments:
            watched.append((owner, name, self._assign))
        with contextlib.ExitStack() as stack:
            for owner, name, record in watched:
                replacement = _recorded(getattr(owner, name), record)
                patch = mock.patch.object(owner, name, replacement)
                stack.enter_context(patch)
            yield
        self._compare_values()

    def _compare_values(self):
        """Finds the variables that were set by other means, such as the checkpoints of TensorFlow
        or a function of torch."""
        for variable in self._alive:
            first = self._first.get(id(variable))
            if first is not None and self._checksum(variable) != first:
                self._assigned.add(id(variable))

    def _checksum(self, variable):
        value = self._value_of(variable)
        if value is None:
            return None
        return zlib.crc32(numpy.ascontiguousarray(value).view("uint8"))

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

    def _add_weight(self, variable, arguments):
        self._alive.append(variable)
        stated = arguments.get("initializer")
        # Keras makes numbers of another type zeros.
        if stated is not None or "float" in str(variable.dtype):
            self._initializers[id(variable)] = described(self._keras, stated)
        self._first[id(variable)] = self._checksum(variable)

    def _compile(self, _, arguments):
        given = dict(arguments)
        model = given.pop(next(iter(arguments)))
        given.update(given.pop("kwargs", {}))
        self._alive.append(model)
        self._compiled[id(model)] = given

    def _compile_from_config(self, _, arguments):
        model = next(iter(arguments.values()))
        # A saved model states what "auto" was where it was saved.
        self._compiled.get(id(model), {}).pop("jit_compile", None)

    def _assign(self, _, arguments):
        target = next(iter(arguments.values()))
        variables = [target]
        if isinstance(target, (list, tuple)):
            variables = [variable for variable, _ in target]
        for variable in variables:
            self._alive.append(variable)
            self._assigned.add(id(variable))


def _recorded(original, record):
    """The function `original`, after each call of which `record` is called with its result and its
    arguments by name, ``self`` first."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def recorded(*arguments, **settings):
        result = original(*arguments, **settings)
        bound = signature.bind(*arguments, **settings)
        record(result, bound.arguments)
        return result

    if original.__name__ == "__init__":
        # Keras 3 reads the names of positional arguments from it.
        recorded.__signature__ = signature
    return recorded


def described(keras, initializer):
    """(class name, settings) of an `initializer`, which Keras takes as a name, a dict or an
    object."""
    if initializer is None:
        return DEFAULT
    found = keras.initializers.get(initializer)
    if isinstance(found, type):
        found = found()  # TensorFlow 1 has a class of a name
    settings = {}
    if hasattr(found, "get_config"):
        settings.update(found.get_config())
    if hasattr(found, "value"):
        settings["value"] = found.value  # Keras 3 has arrays in a form of its own in its config
    return type(found).__name__, settings
