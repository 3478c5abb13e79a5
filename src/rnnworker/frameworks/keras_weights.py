"""The weights of a Keras model in canonical form, and which layers have them."""

import collections

import numpy

from rnnworker.recurrent.composed import flat, inner_layers, inner_of

KINDS = {"Embedding": "embedding", "Dense": "dense"}


class KerasWeights:
    """A mix-in of `KerasSession`."""

    def layers(self):
        """The layers with weights in order: the ``name`` of each, its ``kind`` (``recurrent``,
        ``embedding``, ``dense`` or ``other``), the ``cell`` of a recurrent one, and ``shapes``, the
        (name, shape) of its canonical arrays."""
        layers = []
        for layer in self.weighted():
            arrays = self._canonical(layer)
            facts = {"name": layer.name}
            if layer in self.recurrent.layers:
                names = sorted(arrays)
                facts.update(kind="recurrent", cell=self.recurrent.made_here(layer).cell)
            else:
                names = list(arrays)
                facts["kind"] = KINDS.get(type(layer).__name__, "other")
            facts["shapes"] = [(name, list(arrays[name].shape)) for name in names]
            layers.append(facts)
        return layers

    def load_weights(self, weights):
        """Sets the model's weights to canonical ones, to which `reset` will return."""
        self.set_weights(weights)
        # The variables too: the first step may make further ones.
        state = self._state()
        self._initial = (state, self.read(state))

    def set_weights(self, weights):
        """Sets the model's weights to canonical ones, and kept states to zero."""
        self.forget_states()
        for layer, arrays in zip(self.weighted(), weights):
            if layer in self.recurrent.layers:
                self.recurrent.from_canonical(layer, arrays)
                continue
            named = self._own[id(layer)]
            self.write(list(named.values()), [arrays[name] for name in named])

    def trained(self):
        """Which arrays of the layers in `weighted` are trained, {array: bool} for each."""
        found = []
        for layer in self.weighted():
            variables = layer.trainable_weights
            if self.recurrent.made_here(layer) is None:
                trained = set(map(id, variables))
                own = self._own[id(layer)]
                flags = {name: id(own[name]) in trained for name in own}
            else:
                names = ()
                if variables:
                    names = self.recurrent.to_canonical(layer, self.read(variables))
                flags = {name: name in names for name in self._canonical(layer)}
            found.append(flags)
        return found

    def dump_weights(self):
        """The model's weights in canonical form."""
        weights = []
        for layer in self.weighted():
            arrays = self._canonical(layer)
            # Copies: torch's are views of the variables' own memory.
            weights.append({name: numpy.array(arrays[name]) for name in arrays})
        return weights

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
        # id of a layer → its weights that are in no other one: {name: variable}.
        self._own = {}
        seen = set()
        recurrent = set()  # weights, also if the model has a loop over their cell of its own
        for layer in self.recurrent.layers:
            recurrent.update(map(id, layer.weights))
        for layer in self.outside_recurrent([self.model]):
            if self.recurrent.made_here(layer) is not None:
                own = list(layer.weights)
            else:
                own = [each for each in _of_its_own(layer) if id(each) not in recurrent]
            own = [variable for variable in own if id(variable) not in seen]
            seen.update(map(id, own))
            if own:
                found.append(layer)
                self._own[id(layer)] = dict(zip(_names(own), own))
        return found

    def outside_recurrent(self, layers):
        """The `layers` and those inside them, but for those inside a recurrent layer."""
        return flat(layers, lambda layer: self.recurrent.made_here(layer) is None)

    def count_of(self, layer):
        """The number of weights of a layer in `weighted`."""
        return len(self._own[id(layer)])

    def _canonical(self, layer):
        """The weights of a layer, {name: array}; those of a recurrent layer in canonical form."""
        if layer in self.recurrent.layers:
            return self.recurrent.to_canonical(layer)
        named = self._own[id(layer)]
        return dict(zip(named, self.read(list(named.values()))))


def _of_its_own(layer):
    """The weights of `layer` that no layer inside it has."""
    inside = set()
    for inner in inner_of(layer):
        inside.update(map(id, inner.weights))
    return [variable for variable in layer.weights if id(variable) not in inside]


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
