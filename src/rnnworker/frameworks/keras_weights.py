"""The weights of a Keras model in canonical form: which layers have them, what initializes them,
and what the model has set itself."""

import collections

from rnnworker import canonical_weights
from rnnworker.arguments import INITIALIZERS
from rnnworker.frameworks.watch import described
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
        for name, variable in zip(_names(layer), layer.weights):
            found = self._watched.initializer(variable)
            if found is not None and canonical_weights.is_drawn(found):
                initializers[name] = found
            else:
                kept[name] = arrays[name]
        return {"initializers": initializers, "kept": kept}

    def _recurrent_initializers(self, layer, arrays):
        """The initializers of a recurrent layer are those of its arguments, because its own weights
        may be arranged in another way."""
        made = self.recurrent.made_here(layer)
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
        self.forget_states()
        for layer, arrays in zip(self.weighted(), weights):
            if layer in self.recurrent.layers:
                self.recurrent.from_canonical(layer, arrays)
                continue
            values = [arrays[name] for name in _names(layer)]
            layer.set_weights(values)
        self._initial = self.read(self._state())

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
        """The layers with weights, in order. An inner model or a wrapper that holds a recurrent
        layer counts as the layers inside it."""
        found = []
        for layer in self._leaves(self.model.layers):
            if layer.weights and not any(layer is each for each in found):
                found.append(layer)
        return found

    def _leaves(self, layers):
        """The `layers`, with those in an inner model or a wrapper in its place if one of them is a
        recurrent layer."""
        leaves = []
        for layer in layers:
            inner = inner_of(layer)
            is_recurrent = self.recurrent.made_here(layer) is not None
            if is_recurrent or not self._holds_recurrent(inner):
                leaves.append(layer)
            else:
                leaves += self._leaves(inner)
        return leaves

    def _holds_recurrent(self, layers):
        for layer in layers:
            if self.recurrent.made_here(layer) is not None:
                return True
            if self._holds_recurrent(inner_of(layer)):
                return True
        return False

    def _canonical(self, layer):
        """The weights of a layer, {name: array}; those of a recurrent layer in canonical form."""
        if layer in self.recurrent.layers:
            return self.recurrent.to_canonical(layer)
        return dict(zip(_names(layer), layer.get_weights()))


def _names(layer):
    """The names of a layer's weights, each once."""
    names = []
    count = collections.Counter()
    for variable in layer.weights:
        last = variable.name.split("/")[-1]
        name, _, _ = last.partition(":")
        count[name] += 1
        if count[name] > 1:
            name += "#{}".format(count[name])
        names.append(name)
    return names
