"""The common part of all Keras sessions: building the model, canonical weights, and what
certification and attestation need. `keras_training` has the rest."""

import contextlib
import functools
import inspect
import os
import sys
from unittest import mock

import numpy

from rnnworker import attest, data, optimizers, precision, products, user_functions
from rnnworker.frameworks.keras_training import KerasTraining
from rnnworker.recurrent import Recurrent
from rnnworker.recurrent.cells import keras_version
from rnnworker.recurrent.composed import inner_layers


class KerasSession(KerasTraining):
    """The model of one run. A framework's class sets ``self.keras`` and provides:

    - ``batches(x, y, orders, batch)``: an input for ``fit`` that yields ``x[order], y[order]`` of
      one order after another in batches of `batch` samples; no batch spans two orders. It never
      ends: the last order is followed by the first.
    - ``build_facts()``: facts about the framework for the record's ``environment``.
    - ``devices()``: lists of names, ``framework_devices`` and, if known, ``framework_cards``.
    - ``layer_gradients(layer, x, upstream)``: (outputs, gradients of sum(outputs ∘ upstream) with
      respect to ``x`` and the canonical arrays), with ``training=True``.
    - ``executed_ops(run)``: [(path, op type, count)] of the ops that `run` executes; or `kernels`.
    """

    keras = None
    lead_in = 5  # untimed steps at the beginning of a training, see `epoch_clock`
    resets_dropout = True  # whether `reset` restores the random states of dropout
    can_feed_on_device = True

    def __init__(self, config, threads):
        self.config = config
        self.threads = threads
        self.arrays = None
        self.model = None
        self.recurrent = None
        # With `device` the arrays stay in the device's memory, where each step gathers its batch;
        # with `host` each batch is copied to the device.
        on_device = self.can_feed_on_device and feeds_on_device(config)
        self.feed = "device" if on_device else "host"
        self._initial = None
        self._validation_feeds = {}

    def thread_counts(self):
        """(within an op, between ops); None if the framework has no such setting."""
        return None, None

    def finish_device(self):
        """Waits until the device has finished all submitted work."""

    def finish_step(self, values):
        """The same within an epoch; `values`: arguments or results of the step."""
        self.finish_device()

    def card_memory_peak(self):
        """The peak of the card's memory that arrays took so far, in bytes, without the memory of
        libraries and reserves; None if the framework does not report it."""

    def set_tf32(self, on):
        """Allows or forbids an NVIDIA GPU to round the operands of float32 products to TF32."""

    def tf32(self):
        """Whether TF32 is allowed, read back; None if the framework does not report it."""

    def cudnn_facts(self):
        """``gpus`` and ``cuda_build`` as the framework reports them."""
        return {}

    def environment(self):
        versions = {"keras": keras_version(self.keras), "numpy": numpy.__version__}
        return dict(self.build_facts(), packages=installed(), **versions)

    def device_facts(self):
        intra_op, inter_op = self.thread_counts()
        threads = {"asked": self.threads, "intra_op": intra_op, "inter_op": inter_op}
        threads["pinned_to"] = sorted(os.sched_getaffinity(0))
        return dict(self.devices(), threads=threads)

    def load_data(self, path, pinned_md5=None):
        self.arrays = data.arrays(self.config, path, pinned_md5)
        return {
            "sizes": {name: len(self.arrays["x_" + name]) for name in ("train", "val")},
            "sample_shape": list(self.arrays["x_train"].shape[1:]),
        }

    @property
    def validation_samples(self):
        return len(self.arrays["x_val"])

    def build(self):
        settings = self.config["model"]
        self.set_tf32(precision.requested_precision(self.config) == "tf32")
        self._policy(precision.policy(self.config))
        self.seed(self.config["seed"])
        self.recurrent = Recurrent(self.keras, self.config)
        self.model = self.make_model(user_functions.function(settings["function"]))
        if not hasattr(self.model, "compile"):
            fault = "build of {} returned {}, not a Keras model"
            raise TypeError(fault.format(settings["function"], type(self.model).__name__))
        self.model.compile(
            loss=settings["loss"],
            optimizer=self.optimizer(settings["optimizer"]),
            metrics=list(settings.get("metrics", ["accuracy"])),
            **self.compile_settings(),
        )
        self.prepare_training()
        return {"layers": len(self.model.layers)}

    def make_model(self, function):
        """The model that `function` builds, without dropout if it is certified: two
        implementations draw different masks."""
        if not self.config.get("certifying"):
            return function(self.keras, self.recurrent, self.config)
        with contextlib.ExitStack() as stack:
            without_dropout(self.keras.layers, stack)
            return function(self.keras, self.recurrent, self.config)

    def seed(self, seed):
        self.keras.utils.set_random_seed(seed)

    def optimizer(self, stated):
        return optimizers.for_keras_3(self.keras, stated)

    def compile_settings(self):
        # The default "auto" would let other choices turn XLA on or off.
        return {"jit_compile": bool(self.config["build"].get("jit_compile", False))}

    def prepare_training(self):
        """Makes the optimizer's variables, which `reset` restores too."""
        self.model.optimizer.build(self.model.trainable_variables)

    def model_facts(self):
        facts = {
            "parameters": int(self.model.count_params()),
            "optimizer": self.model.optimizer.get_config(),
            "recurrent_layers": [layer.name for layer in self.recurrent.layers],
            "precision": self.precision_facts(),
            "feed": self.feed,
        }
        return dict(facts, **products.facts_of(self))

    def precision_facts(self):
        """The requested precision and the one in which the built layers compute."""
        inner = [part for layer in self.recurrent.layers for part in inner_layers(layer)]
        reported = {
            "policy": self._policy(),
            "layers": sorted({getattr(layer, "compute_dtype", "float32") for layer in inner}),
            "tf32": self.tf32(),
        }
        as_asked = precision.as_expected(self.config, reported)
        return dict(reported, asked=precision.requested_precision(self.config), as_asked=as_asked)

    def layers(self):
        """The layers with weights in order, as arguments of ``canonical_weights.initial``."""
        layers = []
        for layer in self._weighted():
            recurrent, arrays = layer in self.recurrent.layers, self._canonical(layer)
            names = sorted(arrays) if recurrent else arrays
            shapes = [(name, list(arrays[name].shape)) for name in names]
            kind = "embedding" if type(layer).__name__ == "Embedding" else "other"
            facts = {"name": layer.name, "cell": self.recurrent.cell, "shapes": shapes}
            layers.append(dict(facts, kind="recurrent" if recurrent else kind))
        return layers

    def load_weights(self, weights):
        for layer, arrays in zip(self._weighted(), weights):
            if layer in self.recurrent.layers:
                self.recurrent.from_canonical(layer, arrays)
            else:
                layer.set_weights([arrays[name] for name in _names(layer)])
        self._initial = self.read_state()

    def dump_weights(self):
        """The model's weights in canonical form."""
        return [self._canonical(layer) for layer in self._weighted()]

    def reset(self):
        """Restores the state after ``load_weights``: weights, optimizer, random states."""
        self.write_state(self._initial)

    def read_state(self):
        return self.read(self._state())

    def read(self, variables):
        # Copies: torch's are views of the variables' own memory.
        return [numpy.array(variable.numpy()) for variable in variables]

    def write_state(self, values):
        for variable, value in zip(self._state(), values):
            variable.assign(value)

    def train_batch(self, x, y):
        """Takes one training step; returns the loss before it."""
        if hasattr(self.model, "reset_metrics"):
            self.model.reset_metrics()
        loss = self.model.train_on_batch(x, y)
        return float(loss[0] if isinstance(loss, (list, tuple)) else loss)

    def fit_batch(self, x, y):
        """`train_batch` through ``fit``."""
        feed = self.batches(x, y, [numpy.arange(len(x))], len(x))
        history = self.model.fit(feed, steps_per_epoch=1, verbose=0).history
        return float(history["loss"][0])

    def outputs(self, samples=None):
        """The model's outputs for the validation set, or for its first `samples`."""
        feed, steps = self.validation(samples)
        return self.model.predict(feed, steps=steps, verbose=0)

    def layer_shapes(self, layer):
        """The shapes of one sample of the layer's inputs and of its outputs."""
        return tuple(_inputs(layer)[0].shape)[1:], tuple(layer.output.shape)[1:]

    def layer_outputs(self, layer, x):
        """The outputs with ``training=False``, as in ``evaluate`` and ``predict``."""
        ops = self.keras.ops
        outputs = layer(ops.convert_to_tensor(x), training=False)
        return ops.convert_to_numpy(ops.cast(outputs, "float32"))

    def attest(self):
        """``measured.kernel`` of a record, from one training step; None without a recurrent
        layer."""
        if not self.recurrent.layers:
            return None
        time_steps = [self.layer_shapes(layer)[0][0] for layer in self.recurrent.layers]
        kernels = self.kernels(min(time_steps))
        cudnn = any(name.endswith("cudnn") for name in kernels)
        return {
            "found": kernels,
            "expected": attest.expected(self.config),
            "why_not_cudnn": [] if cudnn else self._why_not_cudnn(),
        }

    def kernels(self, steps):
        """The kernels that one training step ran on sequences of at least `steps` time steps."""
        return attest.kernels_in_tensorflow(self.executed_ops(lambda: self.train_steps(1)), steps)

    def _policy(self, new=None):
        """The name of Keras's dtype policy, after it was set to `new` if given."""
        mixed = getattr(self.keras, "mixed_precision", None)
        if not hasattr(mixed, "set_global_policy"):
            if new not in (None, precision.DEFAULT):
                raise ValueError("precision: this Keras has no dtype policy {}".format(new))
            return precision.DEFAULT
        if new:
            mixed.set_global_policy(new)
        return (getattr(mixed, "global_policy", None) or mixed.dtype_policy)().name

    def _weighted(self):
        return [layer for layer in self.model.layers if layer.weights]

    def _canonical(self, layer):
        if layer in self.recurrent.layers:
            return self.recurrent.to_canonical(layer)
        return dict(zip(_names(layer), layer.get_weights()))

    def _state(self):
        return list(self.model.variables) + list(self.model.optimizer.variables)

    def _why_not_cudnn(self):
        reasons = []
        for layer in self.recurrent.layers:
            facts = dict(
                attest.layer_facts(inner_layers(layer)[0]),  # they have the same settings
                cell=self.recurrent.cell,
                device=self.config["device"]["kind"],
                mask=_is_masked(layer),
            )
            reasons += attest.why_not_cudnn(dict(facts, **self.cudnn_facts()))
        return sorted(set(reasons), key=reasons.index)


def _names(layer):
    return [variable.name.split("/")[-1].split(":")[0] for variable in layer.weights]


def _inputs(layer):
    """The layer's inputs: its sequence, and in Keras 3 a mask if there is one."""
    inputs = layer.input
    return list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]


def _is_masked(layer):
    inputs = _inputs(layer)
    masks = [getattr(inputs[0], "_keras_mask", None), getattr(layer, "input_mask", None)]
    return len(inputs) > 1 or any(mask is not None for mask in masks)


def feeds_on_device(config):
    """Whether a run with `config` gathers its batches on the device (``device.feed``). Augmented
    images are made in the host's memory, and a certificate feeds single batches."""
    if config["device"].get("feed") != "device" or config.get("certifying"):
        return False
    return not config["model"]["data"].get("augment")


def without_dropout(layers, stack):
    """Gives Keras's dropout layers that are made in `stack`, and classes derived from them, the
    rate 0. A later change would have no effect in TensorFlow 1: the graph contains the rate with
    which a layer was called."""

    def with_rate_0(original):
        @functools.wraps(original)
        def init(self, *arguments, **settings):
            original(self, *arguments, **settings)
            self.rate = 0.0

        # Keras 3 reads the names of positional arguments from it.
        init.__signature__ = inspect.signature(original)
        return init

    for name in dir(layers):
        if "Dropout" in name:
            layer = getattr(layers, name)
            replacement = with_rate_0(layer.__init__)
            stack.enter_context(mock.patch.object(layer, "__init__", replacement))


def installed():
    """``name==version`` of every installed distribution, sorted."""
    if sys.version_info >= (3, 8):
        from importlib.metadata import distributions

        # Of two distributions with the same name, Python imports the first.
        found = [(d.metadata["Name"] or "", d.version) for d in distributions()]
        versions = {name.lower(): version for name, version in reversed(found)}
    else:
        import pkg_resources

        versions = {d.project_name.lower(): d.version for d in pkg_resources.working_set}
    return sorted("{}=={}".format(name, version) for name, version in versions.items() if name)
