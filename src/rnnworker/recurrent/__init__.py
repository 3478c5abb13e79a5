"""The recurrent layers of models, by the implementation that a run's config names.

Most implementations are kernels that compute Keras's own layers (`rnnlayers`): a model makes its
layers as always, and they get the kernel when it is built (`in_place`). The others have weights of
their own: a module of ``rnnworker.kernels``, or a user's file with ``make``
(``docs/own_kernel.md``). A model makes their layers by ``recurrent(…)``.
"""

import importlib

from rnnlayers import own_hook, own_method
from rnnlayers.in_place import COMPUTING
from rnnworker import arguments, canonical_weights
from rnnworker.arguments import Refusal
from rnnworker.options import (
    IMPLEMENTATIONS,
    IN_PLACE,
    LONGEST,
    OF_MODEL,
    honoured,
    is_user_file,
    not_honoured,
)
from rnnworker.recurrent import cells, composed, in_place, own_file
from rnnworker.user_functions import caller

# Methods of a layer or a cell that decide its function.
OWN_METHODS = COMPUTING + ("get_initial_state", "__call__")
LONGEST_UNROLLED = 1000
# That compiling a training step of TensorFlow 2.21 took for each time step of an LSTM layer with 32
# units, on one quiet core, for 100 and 400 time steps.
UNROLLED_SECONDS = 0.05
NO_LAYER = {
    "none": (
        "this model has a recurrent layer, so it cannot be built with rnn=none: write recurrent: "
        "true in its YAML and use another rnn"
    ),
    "fake": "rnn.implementation fake goes with build.framework fake only",
}


class Recurrent:
    """Makes the recurrent layers of a model that asks for them: ``recurrent(units, **options)``, or
    ``recurrent.bidirectional(units, **options)`` for both directions side by side, or
    ``recurrent.stack(units, layers, bidirectional, **options)`` for several layers as one.

    `kernel`: what `rnnlayers.use` takes; None for an implementation with weights of its own, which
    is the `module`. `made` has the recurrent layers of the model, whose weights can be read and set
    in canonical form. Raises `Refusal` for an argument that the implementation does not honour.
    """

    def __init__(self, keras, config):
        self.keras = keras
        self.made = []
        self._asked_for = []  # the layers of Keras that `stack` has returned
        self._of_keras = []  # (layer with weights of its own, that of Keras in its place)
        self.kernel = self.module = None
        self._config = config
        self._rnn = config["rnn"]
        name = self._rnn["implementation"]
        self.name = self._rnn.get("name") or name
        if name in IN_PLACE:
            self.kernel = name
        elif is_user_file(name):
            own = own_file.Implementation(name)
            self.kernel = own.kernel
            if self.kernel is None:
                self.module = own
        elif name not in IMPLEMENTATIONS:
            known = ", ".join(IMPLEMENTATIONS)
            raise ValueError("rnn.implementation {!r} must be one of {}".format(name, known))
        elif name not in NO_LAYER:
            self.module = importlib.import_module("rnnworker.kernels." + name)
        ignored = not_honoured(config)
        if ignored:
            message = "rnn.implementation {} does not honour rnn.options.{}: it honours {}"
            known = ", ".join(honoured(config)) or "no options"
            raise ValueError(message.format(name, ignored[0], known))

    @property
    def layers(self):
        return [made.layer for made in self.made]

    def made_here(self, layer):
        """The `Made` of a `layer`; None if it has none."""
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
        place = caller() or "the model"
        asked_for = "{}: rnn={}".format(place, self.name)
        if self._rnn["implementation"] in NO_LAYER:
            raise ValueError(NO_LAYER[self._rnn["implementation"]])
        if cell == OF_MODEL:
            fault = (
                "{}: with cell={} write keras.layers.LSTM(…), GRU(…) or SimpleRNN(…), or name "
                "another cell in the grid"
            )
            raise Refusal(fault.format(place, OF_MODEL))
        is_single = layers == 1 and not bidirectional
        options = self._options(cell, options, is_single, place)
        try:
            if self.kernel is not None:
                layer = self._layer_of_keras(cell, units, layers, bidirectional, options)
                if layers == 1:
                    self._asked_for.append(layer)
                    return layer  # found in the model
                first = composed.inner_layers(layer)[0]
                stated = in_place.options_of(self.keras, first)
            else:
                stated = {}
                for argument in options:
                    stated[argument] = in_place.activation_name(self.keras, options[argument])
                of_start = {}
                for argument in ("unit_forget_bias",) + arguments.INITIALIZERS:
                    if argument in options:
                        of_start[argument] = options.pop(argument)
                of_keras = self._layer_of_keras(cell, units, layers, bidirectional, of_start)
                layer = self._own_layer(cell, units, layers, bidirectional, options)
                self._of_keras.append((layer, of_keras))
        except Refusal as error:
            raise Refusal("{}: {}".format(asked_for, error)) from error
        # For a refusal of what the layer is called with.
        for inner in composed.inner_layers(layer):
            inner.asked_for = asked_for
        self.made.append(Made(layer, cell, stated, place))
        return layer

    def initialize(self):
        """Gives the layers with weights of their own the first weights of those of Keras."""
        for layer, of_keras in self._of_keras:
            if not layer.built:
                continue  # refused later: it is not part of the model
            arrays = self.to_canonical(layer)
            inputs = next(len(arrays[name]) for name in arrays if name.endswith("kernel"))
            of_keras.build((None, None, inputs))
            first = canonical(of_keras)
            self.from_canonical(layer, {name: first[name] for name in arrays})

    def found_in(self, model, place_of):
        """Adds the recurrent layers of Keras in `model` that have weights, and not only those of
        another one, to `made`. `place_of`: the function of a layer that returns where the model
        has made it, or None."""
        inside = set()
        taken = set()  # weights
        for made in self.made:
            inside.update(id(layer) for layer in composed.inner_layers(made.layer))
        for layer in in_place.found_in(self.keras, model):
            inner = composed.inner_layers(layer)
            weights = set(map(id, layer.weights))
            if any(id(each) in inside for each in inner) or weights <= taken:
                continue  # `weights` is empty if the layer was never called
            taken |= weights
            place = place_of(inner[0]) or "layer " + layer.name
            options = in_place.options_of(self.keras, inner[0])
            cell = in_place.cell_name(self.keras, inner[0], options)
            made = Made(layer, cell, options, place)
            made.is_of_recurrent = any(layer is each for each in self._asked_for)
            self.made.append(made)

    def not_of_keras(self, made):
        """``CLASS.METHOD``, ``CLASS.WEIGHT`` or ``CLASS.hook of torch`` that an author computes in
        the layer of `made` in place of Keras; None if there is none."""
        if self.module is None:
            for layer in composed.inner_layers(made.layer):
                own = own_method(layer, OWN_METHODS) or cells.own_weight(layer)
                values = [getattr(weight, "value", weight) for weight in layer.weights]
                own = own or own_hook(layer, getattr(layer, "cell", layer), *values)
                if own:
                    return own
        return None

    def can_be_called(self, made):
        """Whether the layer of `made` can be called on its own."""
        if self.module is not None:
            return True
        return not any(map(cells.has_given_weights, composed.inner_layers(made.layer)))

    def unmet(self, made):
        """What the grid or the layer of `made` states that has no effect on it, as the end of a
        sentence; None if nothing does."""
        if made.is_of_recurrent:
            return None
        if self.kernel is None:
            fault = (
                "rnn={} has weights of its own and cannot compute Keras's layer {}: write "
                "recurrent(units, …) in its place"
            )
            return fault.format(self.name, made.layer.name)
        for option, value in sorted((self._rnn.get("options") or {}).items()):
            if value is not None and option != LONGEST:
                fault = (
                    "rnn.options.{} is for layers that recurrent(…) makes: the layer {} states its "
                    "own arguments"
                )
                return fault.format(option, made.layer.name)
        for layer in composed.inner_layers(made.layer):
            reason = self.stated_otherwise(layer, made.cell)
            if reason:
                return reason
        return None

    def stated_otherwise(self, layer, cell=OF_MODEL):
        """Which kernel the `layer` of a `cell` states itself, as the end of a sentence, if it is
        another one than that of the grid; else None."""
        config = dict(self._config, cell={"name": cell})
        for argument in ("unroll", "use_cudnn"):
            value = getattr(layer, argument, None)
            reason = arguments.refusal(config, argument, value, in_place=True)
            if reason:
                return reason
        return None

    def check_steps(self, place, steps):
        """Raises `Refusal` if a layer made in `place` has more time `steps` than it may have."""
        framework = (self._config.get("build") or {}).get("framework")
        if self.kernel != "unrolled" or framework == "keras3_torch":
            return
        longest = (self._rnn.get("options") or {}).get(LONGEST, LONGEST_UNROLLED)
        if steps is None or steps <= longest:
            return
        minutes = max(1, steps * UNROLLED_SECONDS / 60)
        fault = (
            "{}: rnn=unrolled would compile {} time steps for about {:.0f} min in each run, "
            "and for several times as long in a certificate: leave it out, or write "
            "+rnn.options.{}={}"
        )
        raise Refusal(fault.format(place, steps, minutes, LONGEST, steps))

    def _layer_of_keras(self, cell, units, layers, bidirectional, options):
        """A layer of Keras, or a stack of them, which gets the kernel with the whole model."""
        options.pop(LONGEST, None)

        def make(own, of_pair):
            layer = cells.of_keras(self.keras, cell, units, own)
            if of_pair is None:
                return layer
            return self.keras.layers.Bidirectional(layer, **of_pair)

        try:
            return self._stacked(make, layers, bidirectional, options)
        except (TypeError, ValueError) as error:  # an unknown argument, or a wrong value
            raise Refusal("this build's Keras refuses it: {}".format(error)) from error

    def _own_layer(self, cell, units, layers, bidirectional, options):
        """A layer with weights of its own, or a stack of them."""
        is_trained = options.pop("trainable", True)

        def make(own, of_pair):
            layer = self.module.make(self.keras, cell, units, dict(own))
            if of_pair is None:
                return layer
            reverse = dict(own, go_backwards=True)
            backward = self.module.make(self.keras, cell, units, reverse)
            return composed.both_directions(self.keras, layer, backward, of_pair)

        if getattr(self.module, "MAKES_STACKS", False):
            directions = 2 if bidirectional else 1
            layer = self.module.make(self.keras, cell, units, options, layers, directions)
        else:
            layer = self._stacked(make, layers, bidirectional, options)
        if not is_trained:
            layer.trainable = False
        return layer

    def _stacked(self, make, layers, bidirectional, options):
        """`layers` layers, each on all outputs of the one before, as one. `make`: the function of
        the options of a layer and, for both directions, the settings of their pair, else None."""
        of_whole = {}
        if "name" in options and (bidirectional or layers > 1):
            of_whole["name"] = options.pop("name")
        inner = []
        for number in range(layers):
            own = dict(options)
            if number < layers - 1:
                own["return_sequences"] = True
            of_pair = None
            if bidirectional:
                of_pair = of_whole if layers == 1 else {}
            inner.append(make(own, of_pair))
        if layers == 1:
            return inner[0]
        return composed.stack(self.keras, inner, **of_whole)

    def to_canonical(self, layer, values=None):
        """The canonical arrays of a layer in `layers`: its weights, or in their place `values`, the
        gradients of its trainable weights in their order."""
        convert = getattr(self.module, "to_canonical", cells.to_canonical)
        return canonical(layer, convert, values)

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

    def _options(self, cell, given, single, place):
        """The arguments of a layer: those that the model has `given`, and those of the grid."""
        config = dict(self._config, cell={"name": cell})
        of_grid = dict(self._rnn.get("options") or {})
        is_own = is_user_file(self._rnn["implementation"])
        takes_all = self.kernel is not None
        for argument in sorted(given):
            value = given[argument]
            if argument.endswith("activation"):
                value = in_place.activation_name(self.keras, value)
            reason = arguments.refusal(config, argument, value, takes_all)
            if not is_own and value != of_grid.get(argument, value):
                reason = "the model sets {0}={1!r}, and the grid rnn.options.{0}={2!r}"
                reason = reason.format(argument, value, of_grid[argument])
            if argument == "go_backwards" and given[argument] and not single:
                reason = "go_backwards is for a single layer in one direction"
            if reason:
                raise Refusal("{}: {}".format(place, reason))
        options = {"return_sequences": False, "dropout": 0.0, "recurrent_dropout": 0.0}
        options.update(of_grid)
        for argument, value in given.items():
            # Any other one has no effect, since it was not refused; most layers do not have it.
            if argument in options or arguments.supports(config, argument, takes_all):
                options[argument] = value
        return options


def canonical(layer, convert=cells.to_canonical, values=None):
    """The canonical arrays of a layer, of both directions, or of a stack of them; `convert`: the
    function of a single layer and its `values`, see `Recurrent.to_canonical`."""
    parts = composed.parts_of(layer)
    if not parts:
        return convert(layer, values)
    converted = []
    first = 0
    for part in parts.values():
        its_values = None
        if values is not None:
            end = first + len(part.trainable_weights)
            its_values = list(values[first:end])
            first = end
        converted.append(canonical(part, convert, its_values))
    return canonical_weights.join(parts, converted)


class Made:
    """A recurrent `layer` with its `cell`, the `options` that model and grid state, and the `place`
    in the model's file that asked for it (``FILE, line N``)."""

    def __init__(self, layer, cell, options, place):
        self.layer = layer
        self.cell = cell
        self.options = options
        self.place = place
        self.is_plain = composed.is_plain(layer)
        self.is_of_recurrent = True  # made by `Recurrent`, not found in the model
