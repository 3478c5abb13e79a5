"""Keras 3 on jax. Every training step is compiled by XLA."""

import itertools
import os
import re

import numpy

from rnnworker import attest, data, trees
from rnnworker.frameworks.keras_session import KerasSession
from rnnworker.frameworks.keras_training import bounds


class Session(KerasSession):
    """XLA has no setting for its threads: it starts one per core that the process is pinned to."""

    attests_short_layers = False  # a step is traced and not run, which needs no memory

    def __init__(self, config, threads):
        super().__init__(config, threads)
        os.environ["KERAS_BACKEND"] = "jax"
        # Allocates GPU memory as needed: other runs of a round have contexts on the card too.
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        if config["device"]["kind"] == "cpu":
            os.environ["JAX_PLATFORMS"] = "cpu"
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        import jax
        import keras

        self.jax, self.keras = jax, keras
        self._probes = {}
        # One function for all feeds, since XLA compiles it for each size of a batch.
        self._take = trees.taken if self.feed == "host" else jax.jit(trees.taken)

    def loses_states(self, layer):
        # Keras 3.15 does not count the states among the variables that a compiled step returns.
        return (
            "Keras on jax trains it from zero states in each step, as if it were not stateful: use "
            "a build of TensorFlow, or of torch in float32"
        )

    def build_facts(self):
        return {"jax": self.jax.__version__}

    def devices(self):
        devices = self.jax.devices()
        return {
            "framework_devices": [str(device) for device in devices],
            "framework_cards": [each.device_kind for each in devices if each.platform == "gpu"],
        }

    def compile_settings(self):
        return {"jit_compile": True, "run_eagerly": False}

    def load_data(self, path, pinned_md5=None):
        facts = super().load_data(path, pinned_md5)
        # Here, because each validation makes its batches anew.
        if self.feed == "device":
            self.arrays = self.jax.device_put(self.arrays)
        return facts

    def batches(self, samples, orders, batch):
        order = numpy.concatenate(orders)

        def generate():
            starts, stops = bounds(orders, batch)
            for start, stop in itertools.cycle(zip(starts, stops)):
                yield self._take(samples, order[start:stop])

        return generate()

    def validation(self, samples=None):
        # On a GPU Keras reads one batch more than it uses, so each call needs a new iterator.
        self._validation_feeds.clear()
        return super().validation(samples)

    def train(self, *arguments, **settings):
        history = super().train(*arguments, **settings)
        # With `use_ema` a weight and its mean are one array afterwards, which Keras 3.15 would give
        # to the next step twice, and XLA refuses.
        seen = set()
        for variable in self.variables():
            if id(variable.value) in seen:
                variable.assign(self.jax.numpy.copy(variable.value))
            seen.add(id(variable.value))
        return history

    # XLA would compile another step for ``train_on_batch``.
    train_batch = KerasSession.fit_batch

    def called_in_step(self):
        # Not the model itself, which would tell all layers inside that they are trained (Keras
        # 3.15, ``Layer.stateless_call``).
        return self.model.call

    def loss_gradients(self):
        variables = self.model.trainable_variables

        def loss(values, *samples):
            mapping = list(zip(variables, values))
            # With the losses that layers add, such as those of activity regularizers.
            with self.keras.StatelessScope(state_mapping=mapping, collect_losses=True):
                return self.loss(*samples)

        gradient = self.jax.jit(self.jax.grad(loss))

        def gradients(*samples):
            values = [variable.value for variable in variables]
            return list(map(numpy.asarray, gradient(values, *samples)))

        return gradients

    def _layer_gradients(self, layer, x, upstream):
        variables = [variable.value for variable in layer.trainable_variables]
        outputs, of_x, gradients = self._probe(layer, True)(x, upstream, variables)
        return numpy.asarray(outputs), list(map(numpy.asarray, [of_x, *gradients]))

    def layer_outputs(self, layer, x):
        variables = [variable.value for variable in layer.trainable_variables]
        return numpy.asarray(self._probe(layer, False)(x, variables))

    def _probe(self, layer, training):
        """A compiled function of the inputs and the variables of `layer`, as a step of ``fit`` and
        of ``evaluate`` is: the outputs. In `training` also of what the outputs are multiplied by:
        (outputs, gradients of the inputs, those of the variables)."""

        def call(x, variables):
            # Keras's stateless_call omits the casts of a dtype policy.
            mapping = list(zip(layer.trainable_variables, variables))
            with self.keras.StatelessScope(state_mapping=mapping):
                outputs = layer(x, training=training)
            return outputs.astype(x.dtype)

        def with_gradients(x, upstream, variables):
            outputs, back = self.jax.vjp(call, x, variables)
            return (outputs,) + back(upstream)

        key = (id(layer), training)
        if key not in self._probes:
            function = call
            if training:
                function = with_gradients
            self._probes[key] = self.jax.jit(function)
        return self._probes[key]

    def kernels(self, run, steps):
        """The kernels in the step that ``fit`` compiles; it is traced again, and nothing is run."""
        batch = self.config["model"]["batch"]
        samples = data.samples(self.arrays, "train")
        first = trees.taken(samples, slice(batch))
        state = self.model._get_jax_state(
            trainable_variables=True,
            non_trainable_variables=True,
            optimizer_variables=True,
            metrics_variables=True,
        )
        traced = self.jax.make_jaxpr(self.model.train_step)(state, first)
        recurrent, others = self._layer_names()
        found = primitives(traced.jaxpr, frozenset(recurrent), frozenset(others))
        return attest.kernels_in_jax(list(found), steps)

    def cudnn_facts(self):
        return {"gpus": len(self.devices()["framework_cards"])}

    def set_tf32(self, on):
        name = "highest"
        if on:
            name = "tensorfloat32"
        self.jax.config.update("jax_default_matmul_precision", name)

    def card_memory_peak(self):
        first = self.jax.devices()[0]
        stats = first.memory_stats()
        if not stats:
            return None
        return stats.get("peak_bytes_in_use")

    def tf32(self):
        name = self.jax.config.jax_default_matmul_precision
        return {"tensorfloat32": True, "highest": False}.get(name, name)

    def finish_step(self, values):
        # Within an epoch the steps pass the variables on; the model does not hold them.
        self.jax.block_until_ready(values)

    def finish_device(self):
        # One program computes all results of a step, including the variables.
        self.jax.block_until_ready([variable.value for variable in self.variables()])


def primitives(jaxpr, recurrent=frozenset(), others=frozenset(), loops=()):
    """(names of the enclosing loops, name) of every primitive in a jaxpr and in the jaxprs inside
    it, without those in the layers `others` (names), such as the unrolled products of a
    TimeDistributed. `recurrent`: the names of the recurrent layers, in which nothing is left
    out."""
    for equation in jaxpr.eqns:
        # Keras names the scopes in which an equation was traced after its layers; jax writes
        # ``transpose(jvp(model/layer))``. A version that records none has an empty text.
        source = getattr(equation, "source_info", None)
        stack = getattr(source, "name_stack", "")
        scopes = frozenset(re.split(r"[/()]+", str(stack)))
        is_own = bool(scopes & recurrent)
        if scopes & others and not is_own:
            continue
        name = equation.primitive.name
        yield loops, name
        inside = loops
        if name in ("scan", "while"):
            inside = loops + (name,)
        # A jaxpr inside an equation names its scopes relative to it.
        left_out = others
        if is_own:
            left_out = frozenset()
        for value in equation.params.values():
            items = value
            if not isinstance(value, (list, tuple)):
                items = [value]
            for item in items:
                item = getattr(item, "jaxpr", item)
                if hasattr(item, "eqns"):
                    yield from primitives(item, recurrent, left_out, inside)
