"""The weights of a Keras model in canonical form: which layers have them, what initializes them,
and what the model has set itself."""

import collections

from rnnworker import canonical_weights
from rnnworker.arguments import INITIALIZERS
from rnnworker.frameworks.watch import described
from rnnworker.recurrent import cells, composed, in_place
from rnnworker.recurrent.composed import flat, inner_layers, inner_of


class KerasWeights:
    """A mix-in of `KerasSession`."""

    def layers(self):
        """The layers with weights in order, as arguments of ``canonical_weights.initial``."""
        layers = []
        for layer in self.weighted():
            arrays = self._canonical(layer)
            facts = {"name": layer.name}
            if layer in self.recurrent.layers:
                names = sorted(arrays)
                facts["cell"] = self.recurrent.made_here(layer).cell
                facts.update(self._recurrent_initializers(layer, arrays), kind="recurrent")
            else:
                names = list(arrays)
                facts["kind"] = "other"
                if type(layer).__name__ == "Embedding":
                    facts["kind"] = "embedding"
                facts.update(self._initializers(layer, arrays))
            facts["shapes"] = [(name, list(arrays[name].shape)) for name in names]
            layers.append(facts)
        return layers

    def _initializers(self, layer, arrays):
        """The initializers of the weights that are drawn, and the values of the others, by name."""
        initializers = {}
        kept = {}
        for name, variable in self._named(layer):
            found = self._watched.initializer(variable)
            if found is not None and canonical_weights.is_drawn(found):
                initializers[name] = found
            else:
                kept[name] = arrays[name]
        return {"initializers": initializers, "kept": kept}

    def _recurrent_initializers(self, layer, arrays):
        """The initializers of a recurrent layer by the parts of its canonical arrays, `kernel`,
        `recurrent` and `bias`."""
        made = self.recurrent.made_here(layer)
        if not in_place.is_of_keras(self.keras, inner_layers(layer)[0]):
            return self._initializers_of_arguments(made, layer, arrays)
        found = {"initializers": {}, "kept": {}}
        for prefix, part in single_parts(layer).items():
            cell = getattr(part, "cell", part)
            names = [name for name in cells.ARRAYS if prefix + name in arrays]
            for name, variable in zip(names, part.weights):
                stated = self._watched.initializer(variable)
                is_assigned = self._watched.is_assigned(variable)
                has_forget = getattr(cell, "unit_forget_bias", False) and made.cell == "lstm"
                if name == "bias" and not is_assigned and stated is not None:
                    stated = described(self.keras, cell.bias_initializer)
                    found["unit_forget_bias"] = has_forget
                if stated is not None and canonical_weights.is_drawn(stated):
                    found["initializers"].setdefault(name, stated)
                    if found["initializers"][name] == stated:
                        continue
                found["kept"][prefix + name] = arrays[prefix + name]
        return found

    def _initializers_of_arguments(self, made, layer, arrays):
        """As `_recurrent_initializers`, of a layer whose weights may be arranged in another way:
        those of its arguments."""
        options = made.options
        if any(self._watched.is_assigned(variable) for variable in layer.weights):
            return {"initializers": {}, "kept": arrays}
        initializers = {}
        kept = {}
        for name in INITIALIZERS:
            part = name.partition("_")[0]  # kernel, recurrent or bias
            stated = options.get(name) or canonical_weights.RECURRENT_DEFAULTS[part]
            found = described(self.keras, stated)
            initializers[part] = found
            if canonical_weights.is_drawn(found):
                continue
            make = self.keras.initializers.get(stated)
            for full in arrays:
                if full.split("_")[-1] == part:
                    kept[full] = self.as_numpy(make(arrays[full].shape))
        forget = options.get("unit_forget_bias", True) and made.cell == "lstm"
        return {
            "initializers": initializers,
            "kept": kept,
            "unit_forget_bias": forget,
        }

    def load_weights(self, weights):
        """Sets the model's weights to canonical ones, to which `reset` will return."""
        self.set_weights(weights)
        self._initial = self.read(self._state())

    def set_weights(self, weights):
        """Sets the model's weights to canonical ones, and kept states to zero."""
        self.forget_states()
        for layer, arrays in zip(self.weighted(), weights):
            if layer in self.recurrent.layers:
                self.recurrent.from_canonical(layer, arrays)
                continue
            named = self._named(layer)
            self.write([variable for _, variable in named], [arrays[name] for name, _ in named])

    def trained(self):
        """Which arrays of the layers in `weighted` are trained, {array: bool} for each."""
        found = []
        for layer in self.weighted():
            trained = set(map(id, layer.trainable_weights))
            flags = {}
            if self.recurrent.made_here(layer) is None:
                for name, variable in self._named(layer):
                    flags[name] = id(variable) in trained
            elif in_place.is_of_keras(self.keras, inner_layers(layer)[0]):
                for prefix, part in single_parts(layer).items():
                    for name, variable in zip(cells.ARRAYS, part.weights):
                        flags[prefix + name] = id(variable) in trained
            else:
                flags = dict.fromkeys(self._canonical(layer), bool(trained))
            found.append(flags)
        return found

    def dump_weights(self):
        """The model's weights in canonical form."""
        return [self._canonical(layer) for layer in self.weighted()]

    def forget_states(self):
        """Sets the states that stateful layers have kept to zero, also those of a model's own loops
        over cells."""
        layers = flat(self.model.layers)
        for layer in self.recurrent.layers:
            layers += inner_layers(layer)
        for layer in layers:
            if not getattr(layer, "stateful", False):
                continue
            if not hasattr(self.keras, "tree"):
                layer.reset_states()
                continue
            # Not by Keras 3's reset_state, which fails for a stack of cells.
            for state in self.keras.tree.flatten(getattr(layer, "states", None) or []):
                state.assign(self.keras.ops.zeros_like(state))

    def weighted(self):
        """The layers that have weights of their own, not only those of layers inside them, in
        order, and the recurrent layers."""
        found = []
        self._own = {}  # id of a layer → those of its weights that are in no other one
        seen = set()
        for layer in self._leaves([self.model]):
            if self.recurrent.made_here(layer) is not None:
                own = list(layer.weights)
            else:
                own = _of_its_own(layer)
            own = [variable for variable in own if id(variable) not in seen]
            seen.update(map(id, own))
            if own:
                found.append(layer)
                self._own[id(layer)] = own
        return found

    def _leaves(self, layers):
        """The `layers` and those inside them, but for those inside a recurrent layer."""
        leaves = []
        for layer in layers:
            if any(layer is each for each in leaves):
                continue
            leaves.append(layer)
            if self.recurrent.made_here(layer) is None:
                leaves += self._leaves(inner_of(layer))
        return leaves

    def count_of(self, layer):
        """The number of weights of a layer in `weighted`."""
        return len(self._own[id(layer)])

    def _named(self, layer):
        """[(name, variable)] of the weights of a layer in `weighted`, each name once."""
        return list(zip(_names(self._own[id(layer)]), self._own[id(layer)]))

    def _canonical(self, layer):
        """The weights of a layer, {name: array}; those of a recurrent layer in canonical form."""
        if layer in self.recurrent.layers:
            return self.recurrent.to_canonical(layer)
        named = self._named(layer)
        values = self.read([variable for _, variable in named])
        return dict(zip([name for name, _ in named], values))


def _of_its_own(layer):
    """The weights of `layer` that no layer inside it has."""
    inside = set()
    for inner in inner_of(layer):
        inside.update(map(id, inner.weights))
    return [variable for variable in layer.weights if id(variable) not in inside]


def single_parts(layer):
    """{prefix in canonical form: single layer} of a recurrent layer."""
    parts = {}
    for prefix, part in composed.parts_of(layer).items():
        for further, single in single_parts(part).items():
            parts[prefix + further] = single
    return parts or {"": layer}


def _names(variables):
    """The names of `variables` of a layer, each once."""
    names = []
    count = collections.Counter()
    for variable in variables:
        last = variable.name.split("/")[-1]
        name, _, _ = last.partition(":")
        count[name] += 1
        if count[name] > 1:
            name += "#{}".format(count[name])
        names.append(name)
    return names
