"""Watches a model's ``build``: the initializers of its weights, the weights that it sets itself,
and the arguments with which it compiles."""

import contextlib
import functools
import inspect
from unittest import mock

DEFAULT = ("GlorotUniform", {})  # Keras's, for a weight whose layer states no initializer


class Watched:
    def __init__(self, keras):
        self._keras = keras
        self._initializers = {}  # id of a variable → (class name, settings)
        self._assigned = set()
        self._compiled = {}  # id of a model → arguments
        self._alive = []  # so that no id is used twice

    def initializer(self, variable):
        """(class name, settings) of the initializer of a `variable`; None if the model has set it,
        or made it without Keras's ``add_weight``."""
        if id(variable) in self._assigned:
            return None
        return self._initializers.get(id(variable))

    def is_assigned(self, variable):
        return id(variable) in self._assigned

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
        model_class = keras.models.Model
        with contextlib.ExitStack() as stack:
            for owner, name, replacement in (
                (keras.layers.Layer, "add_weight", self._add_weight),
                (model_class, "compile", self._compile),
                *((owner, name, self._assign) for owner, name in assignments),
            ):
                original = getattr(owner, name)
                patch = mock.patch.object(owner, name, replacement(original))
                stack.enter_context(patch)
            yield

    def _add_weight(self, original):
        signature = inspect.signature(original)

        @functools.wraps(original)
        def add_weight(layer, *arguments, **settings):
            variable = original(layer, *arguments, **settings)
            stated = signature.bind(layer, *arguments, **settings).arguments.get("initializer")
            self._alive.append(variable)
            self._initializers[id(variable)] = described(self._keras, stated)
            return variable

        return add_weight

    def _compile(self, original):
        signature = inspect.signature(original)

        @functools.wraps(original)
        def compile_model(model, *arguments, **settings):
            given = dict(signature.bind(model, *arguments, **settings).arguments)
            given.pop(next(iter(signature.parameters)))
            given.update(given.pop("kwargs", {}))
            self._alive.append(model)
            self._compiled[id(model)] = given
            return original(model, *arguments, **settings)

        return compile_model

    def _assign(self, original):
        @functools.wraps(original)
        def assign(target, *arguments, **settings):
            pairs = target if isinstance(target, (list, tuple)) else [(target, None)]
            for variable, _ in pairs:
                self._alive.append(variable)
                self._assigned.add(id(variable))
            return original(target, *arguments, **settings)

        return assign


def described(keras, initializer):
    """(class name, settings) of an `initializer`, which Keras takes as a name, a dict or an
    object."""
    if initializer is None:
        return DEFAULT
    found = keras.initializers.get(initializer)
    settings = dict(found.get_config()) if hasattr(found, "get_config") else {}
    if hasattr(found, "value"):
        settings["value"] = found.value  # Keras 3 has arrays in a form of its own in its config
    name = type(found).__name__
    return name, settings
