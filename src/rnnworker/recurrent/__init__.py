"""The recurrent layers of models, by the implementation that a run's config names: a module of
``rnnworker.kernels``, or a user-supplied file that fulfils the contract in ``docs/own_kernel.md``.
"""

import contextlib
import functools
import importlib
import sys
import types

from rnnworker import arguments, canonical_weights, products
from rnnworker.arguments import Refusal
from rnnworker.options import (
    IMPLEMENTATIONS,
    LONGEST,
    OF_MODEL,
    honoured,
    is_keras,
    is_user_file,
    not_honoured,
)
from rnnworker.recurrent import cells, composed, own_file
from rnnworker.user_functions import USER_MODULE_PREFIX

LONGEST_UNROLLED = 1000
# That compiling a training step of TensorFlow 2.21 took for each time step of an LSTM layer with 32
# units, on one quiet core, for 100 and 400 time steps.
UNROLLED_SECONDS = 0.05
_places = []  # of `placed`
MODELS = (USER_MODULE_PREFIX, "rnnworker.models.")


def implementation(name):
    """The module, or an object with its functions, that ``rnn.implementation`` names. It may have
    its own ``to_canonical`` and ``from_canonical`` in place of those of `cells`."""
    if is_user_file(name):
        return own_file.Implementation(name)
    if name not in IMPLEMENTATIONS:
        known = ", ".join(IMPLEMENTATIONS)
        raise ValueError("rnn.implementation {!r} must be one of {}".format(name, known))
    if is_keras(name):
        keras = importlib.import_module("rnnworker.kernels.keras")
        make = keras.MAKE[name]
        return types.SimpleNamespace(make=make)
    return importlib.import_module("rnnworker.kernels." + name)


class Recurrent:
    """Makes the recurrent layers of a model: ``recurrent(units, **options)``, or
    ``recurrent.bidirectional(units, **options)`` for both directions side by side, or
    ``recurrent.stack(units, layers, bidirectional, **options)`` for several layers as one.

    `made` has the layers made so far, whose weights can be read and set in canonical form. With
    ``certifying`` in the config the layers have no dropout. Raises `Refusal` for an argument that
    the implementation does not honour.
    """

    def __init__(self, keras, config):
        self.keras = keras
        self._config = config
        self._rnn = config["rnn"]
        self._implementation = self._rnn["implementation"]
        self.module = implementation(self._implementation)
        ignored = not_honoured(config)
        if ignored:
            message = "rnn.implementation {} does not honour rnn.options.{}: it honours {}"
            known = ", ".join(honoured(config)) or "no options"
            raise ValueError(message.format(self._implementation, ignored[0], known))
        self.made = []
        self.is_making = False  # whether an implementation, not the model, asks for layers

    @property
    def layers(self):
        return [made.layer for made in self.made]

    def made_here(self, layer):
        """The `Made` of a `layer`; None if it was not made here."""
        for made in self.made:
            if made.layer is layer:
                return made
        return None

    def __call__(self, units, **options):
        return self.stack(units, **options)

    def bidirectional(self, units, **options):
        return self.stack(units, bidirectional=True, **options)

    def stack(self, units, layers=1, bidirectional=False, **options):
        """`layers` recurrent layers, each on all outputs of the one before, as one layer. An
        implementation that has an op for a whole stack makes one layer of it."""
        cell = self._config["cell"]["name"]
        if cell == OF_MODEL:
            fault = (
                "{}: with cell={} write keras.layers.LSTM(…), GRU(…) or SimpleRNN(…), or name "
                "another cell in the grid"
            )
            raise Refusal(fault.format(caller(), OF_MODEL))
        return self.make(cell, units, options, layers, bidirectional)

    def make(self, cell, units, options, layers=1, bidirectional=False):
        """As `stack`, with the name of a `cell` and the `options` that the model states. Raises
        `Refusal` for what the implementation or this build's Keras cannot do."""
        place = caller()
        name = self._rnn.get("name") or self._implementation
        is_single = layers == 1 and not bidirectional
        options = self._options(cell, options, is_single)
        longest = options.pop(LONGEST, LONGEST_UNROLLED)
        stated = {}
        for argument in options:
            stated[argument] = activation_name(self.keras, options[argument], argument)
        for initializer in ("unit_forget_bias",) + arguments.INITIALIZERS:
            options.pop(initializer, None)
        is_trained = options.pop("trainable", True)
        try:
            with self.making():
                layer = self._layer(cell, units, layers, bidirectional, options)
        except Refusal as error:
            raise Refusal("{}: rnn={}: {}".format(place, name, error)) from error
        except TypeError as error:  # an older Keras lacks the argument
            if not is_keras(self._implementation):
                raise
            raise Refusal("{}: this build's Keras refuses it: {}".format(place, error)) from error
        if not is_trained:
            layer.trainable = False  # as an argument, it would not reach the cell of Keras's RNN
        # For a refusal of what the layer is called with.
        for inner in composed.inner_layers(layer):
            inner.asked_for = "{}: rnn={}".format(place, name)
        made = Made(
            layer,
            cell,
            units,
            stated,
            options,
            place,
        )
        build = self._config.get("build") or {}
        if self._implementation == "unrolled" and build.get("framework") != "keras3_torch":
            made.longest = longest
        self.made.append(made)
        return layer

    def both_directions(self, layer, backward=None, merge_mode="concat", **settings):
        """A layer of `layer`, made here, and of `backward`, or of its copy in the other direction,
        as Keras's ``Bidirectional``, whose `settings` these are."""
        made = self.made_here(layer)
        self.made.remove(made)
        del layer.build  # Keras 2.0.6 copies the layer, with what records its shape
        if made.options.get("go_backwards"):
            raise Refusal("{}: go_backwards is for a layer in one direction".format(made.place))
        if backward is None:
            options = dict(made.settings, go_backwards=True)
            options.pop("name", None)
            with self.making():
                backward = self.module.make(
                    self.keras,
                    made.cell,
                    made.units,
                    options,
                )
            if not layer.trainable:
                backward.trainable = False
            backward.asked_for = layer.asked_for
        else:
            other = self.made_here(backward)
            self.made.remove(other)
            is_reverse = other.options.get("go_backwards")
            if made.function() != other.function() or not is_reverse:
                fault = (
                    "{}: backward_layer must differ from the other one in go_backwards=True "
                    "and its name only"
                )
                raise Refusal(fault.format(other.place))

        with self.making():
            pair = composed.both_directions(
                self.keras,
                layer,
                backward,
                merge_mode,
                settings,
            )
        whole = Made(
            pair,
            made.cell,
            made.units,
            made.options,
            made.settings,
            made.place,
        )
        whole.longest = made.longest
        self.made.append(whole)
        return pair

    @contextlib.contextmanager
    def making(self):
        """In the block, the names of Keras's layers stand for those layers themselves."""
        self.is_making = True
        try:
            yield
        finally:
            self.is_making = False

    def _layer(self, cell, units, layers, bidirectional, options):
        if getattr(self.module, "MAKES_STACKS", False):
            directions = 2 if bidirectional else 1
            return self.module.make(
                self.keras,
                cell,
                units,
                options,
                layers,
                directions,
            )

        settings = {}  # of the whole layer, if it is not a single one
        if "name" in options and (bidirectional or layers > 1):
            settings["name"] = options.pop("name")
        inner = []
        for number in range(layers):
            own = dict(options)
            if number < layers - 1:
                own["return_sequences"] = True
            layer = self.module.make(self.keras, cell, units, dict(own))
            if bidirectional:
                own["go_backwards"] = True
                backward = self.module.make(self.keras, cell, units, own)
                of_pair = settings if layers == 1 else {}
                layer = composed.both_directions(self.keras, layer, backward, settings=of_pair)
            inner.append(layer)
        if layers == 1:
            return layer
        return composed.stack(self.keras, inner, **settings)

    def to_canonical(self, layer, values=None):
        """The canonical arrays of a layer in `layers`: its weights, or in their place `values`, the
        gradients of its trainable weights in their order."""
        parts = composed.parts_of(layer)
        if not parts:
            convert = getattr(self.module, "to_canonical", cells.to_canonical)
            return convert(layer, values)
        converted = []
        first = 0
        for part in parts.values():
            its_values = None
            if values is not None:
                end = first + len(part.trainable_weights)
                its_values = list(values[first:end])
                first = end
            converted.append(self.to_canonical(part, its_values))
        return canonical_weights.join(parts, converted)

    def of_keras(self):
        """The same with Keras's own layers, whose weights it reads."""
        config = dict(self._config, rnn={"implementation": "keras"})
        return Recurrent(self.keras, config)

    def from_canonical(self, layer, arrays):
        """Sets the weights of a layer in `layers` to the canonical `arrays`."""
        parts = composed.parts_of(layer)
        if not parts:
            convert = getattr(self.module, "from_canonical", cells.from_canonical)
            convert(layer, arrays)
            return
        of_parts = canonical_weights.split(arrays)
        for prefix, part in parts.items():
            self.from_canonical(part, of_parts[prefix])

    def _options(self, cell, given, single):
        """The arguments of a layer: those that the model has `given`, and those of the grid."""
        config = dict(self._config, cell={"name": cell})
        of_grid = dict(self._rnn.get("options") or {})
        is_own = is_user_file(self._implementation)
        for argument in sorted(given):
            value = activation_name(self.keras, given[argument], argument)
            reason = arguments.refusal(config, argument, value)
            if not is_own and value != of_grid.get(argument, value):
                reason = "the model sets {0}={1!r}, and the grid rnn.options.{0}={2!r}"
                reason = reason.format(argument, value, of_grid[argument])
            if argument == "go_backwards" and given[argument] and not single:
                reason = "go_backwards is for a single layer in one direction"
            if reason:
                raise Refusal("{}: {}".format(caller(), reason))
        without_dropout = {"dropout": 0.0, "recurrent_dropout": 0.0}
        options = {"return_sequences": False}
        options.update(without_dropout)
        options.update(of_grid)
        for argument, value in given.items():
            # Any other one has no effect, since it was not refused; most layers do not have it.
            if argument in options or arguments.supports(config, argument):
                options[argument] = value
        if self._config.get("certifying"):
            options.update(without_dropout)
        return options


class Made:
    """A recurrent `layer` with its `cell`, the `options` that model and grid state, the `settings`
    with which the implementation made it, and the `place` in the model's file that asked for it
    (``FILE, line N``)."""

    def __init__(self, layer, cell, units, options, settings, place):
        self.layer = layer
        self.cell = cell
        self.units = units
        self.options = options
        self.settings = settings
        self.place = place
        self.is_plain = composed.is_plain(layer)
        self.input_shape = None  # with the batch, once the layer is built
        self.longest = None  # the most time steps that it may have
        build = layer.build

        @functools.wraps(build)
        def recording(*arguments, **settings):
            shape, *_ = arguments + tuple(settings.values())
            # Keras 2 gives a layer with initial states a list of shapes.
            if isinstance(shape, list) and hasattr(shape[0], "__len__"):
                shape = shape[0]
            self.input_shape = shape
            self._check_steps()
            return build(*arguments, **settings)

        layer.build = recording

    def _check_steps(self):
        """Raises `Refusal` if the layer has more time steps than it may have."""
        if self.longest is None:
            return
        steps = products.sizes(self.input_shape)[1]
        if steps is None or steps <= self.longest:
            return
        minutes = max(1, steps * UNROLLED_SECONDS / 60)
        fault = (
            "{}: rnn=unrolled would compile {} time steps for about {:.0f} min in each run, "
            "and for several times as long in a certificate: leave it out, or write "
            "+rnn.options.{}={}"
        )
        raise Refusal(fault.format(self.place, steps, minutes, LONGEST, steps))

    def function(self):
        """What the layer computes, but for its direction: cell, units, options."""
        options = {}
        for name, value in self.options.items():
            if name in ("name", "go_backwards"):
                continue
            if hasattr(value, "get_config"):  # a regularizer equals another one with its settings
                value = type(value).__name__, value.get_config()
            options[name] = value
        return self.cell, self.units, options


def activation_name(keras, value, argument="activation"):
    """The name of an activation of Keras, if `argument` is one and `value` its function; else
    `value`."""
    if not argument.endswith("activation") or not callable(value):
        return value
    name = getattr(value, "__name__", None)
    if name and getattr(keras.activations, name, None) is value:
        return name
    return value


@contextlib.contextmanager
def placed(place):
    """In the block, `caller` returns `place`."""
    _places.append(place)
    try:
        yield
    finally:
        _places.pop()


def caller():
    """``FILE, line N`` of the innermost caller in a model's file, or ``the model``."""
    if _places:
        return _places[-1]
    frame = sys._getframe(1)
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith(MODELS):
            return "{}, line {}".format(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return "the model"
