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
        # One function for all feeds, since XLA compiles it for each size of a batch.
        self._take = trees.taken if self.feed == "host" else jax.jit(trees.taken)

    def build_facts(self):
        return {"jax": self.jax.__version__}

    def devices(self):
        devices = self.jax.devices()
        cards = [device.device_kind for device in devices if device.platform == "gpu"]
        return {"framework_devices": list(map(str, devices)), "framework_cards": cards}

    def compile_settings(self):
        return {"jit_compile": True}

    def batches(self, samples, orders, batch):
        order = numpy.concatenate(orders)
        if self.feed == "device":
            samples = self.jax.device_put(samples)

        def generate():
            for start, stop in itertools.cycle(zip(*bounds(orders, batch))):
                yield self._take(samples, order[start:stop])

        return generate()

    def validation(self, samples=None):
        # On a GPU Keras reads one batch more than it uses, so each call needs a new iterator.
        self._validation_feeds.clear()
        return super().validation(samples)

    # XLA would compile another step for ``train_on_batch``.
    train_batch = KerasSession.fit_batch

    def layer_gradients(self, layer, x, upstream):
        def call(x, variables):
            # Keras's stateless_call omits the casts of a dtype policy.
            mapping = list(zip(layer.trainable_variables, variables))
            with self.keras.StatelessScope(state_mapping=mapping):
                outputs = layer(x, training=True)
            return outputs.astype(x.dtype)

        variables = [variable.value for variable in layer.trainable_variables]
        outputs, back = self.jax.vjp(call, self.jax.numpy.asarray(x), variables)
        x_gradient, gradients = back(self.jax.numpy.asarray(upstream))
        gradients = [numpy.asarray(gradient) for gradient in gradients]
        canonical = self.recurrent.to_canonical(layer, gradients)
        return numpy.asarray(outputs), dict(canonical, x=numpy.asarray(x_gradient))

    def kernels(self, run, steps):
        """The kernels in the step that ``fit`` compiles; it is traced again, and nothing is run."""
        model, batch = self.model, self.config["model"]["batch"]
        first = trees.taken(data.samples(self.arrays, "train"), slice(batch))
        parts = ("trainable", "non_trainable", "optimizer", "metrics")
        state = model._get_jax_state(**{part + "_variables": True for part in parts})
        traced = self.jax.make_jaxpr(model.train_step)(state, first)
        found = primitives(traced.jaxpr, *map(frozenset, self._layer_names()))
        return attest.kernels_in_jax(list(found), steps)

    def cudnn_facts(self):
        gpus = sum(device.platform == "gpu" for device in self.jax.devices())
        return {"gpus": gpus}

    def set_tf32(self, on):
        self.jax.config.update("jax_default_matmul_precision", "tensorfloat32" if on else "highest")

    def card_memory_peak(self):
        return (self.jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use")

    def tf32(self):
        name = self.jax.config.jax_default_matmul_precision
        return {"tensorfloat32": True, "highest": False}.get(name, name)

    def finish_step(self, values):
        # Within an epoch the steps pass the variables on; the model does not hold them.
        self.jax.block_until_ready(values)

    def finish_device(self):
        # One program computes all results of a step, including the variables.
        self.jax.block_until_ready([variable.value for variable in self._state()])


def primitives(jaxpr, recurrent=frozenset(), others=frozenset(), loops=()):
    """(names of the enclosing loops, name) of every primitive in a jaxpr and in the jaxprs inside
    it, without those in the layers `others` (names), such as the unrolled products of a
    TimeDistributed. `recurrent`: the names of the recurrent layers, in which nothing is left
    out."""
    for equation in jaxpr.eqns:
        scopes = scopes_of(equation)
        is_own = bool(scopes & recurrent)
        if scopes & others and not is_own:
            continue
        name = equation.primitive.name
        yield loops, name
        inside = loops + (name,) if name in ("scan", "while") else loops
        # A jaxpr inside an equation names its scopes relative to it.
        left_out = frozenset() if is_own else others
        for value in equation.params.values():
            for item in value if isinstance(value, (list, tuple)) else [value]:
                item = getattr(item, "jaxpr", item)
                if hasattr(item, "eqns"):
                    yield from primitives(item, recurrent, left_out, inside)


def scopes_of(equation):
    """The names of the scopes in which an equation was traced, which Keras names after its layers:
    jax writes ``transpose(jvp(model/layer))``. Empty with a version that records none."""
    stack = getattr(getattr(equation, "source_info", None), "name_stack", "")
    return frozenset(re.split(r"[/()]+", str(stack)))
