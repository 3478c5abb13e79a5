"""The common part of all Keras sessions: building the model, canonical weights.

Subclasses import a framework and provide its batches; see ``keras3_tensorflow``.
"""

import numpy

from rnnworker import data, optimizers, precision, user_functions
from rnnworker.frameworks.batches import feeds_on_device
from rnnworker.frameworks.keras_probe import KerasProbe
from rnnworker.frameworks.keras_training import KerasTraining
from rnnworker.recurrent import Recurrent
from rnnworker.recurrent.composed import inner_layers


class KerasSession(KerasTraining, KerasProbe):
    """The model of one run. Subclasses set ``self.keras`` and provide ``batches``,
    ``environment``, ``device_facts`` and ``finish_device``."""

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
        self._feeds = {}
        self._on_start = None

    # -- provided by the framework ------------------------------------------------------

    def batches(self, x, y, orders, batch):
        """An input for ``fit`` that yields ``x[order], y[order]`` of one order after another in
        batches of `batch` samples; no batch spans two orders. It never ends: the last order is
        followed by the first."""
        raise NotImplementedError

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

    # -- the run's steps ----------------------------------------------------------------

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
        self._set_policy(precision.policy(self.config))
        self.seed(self.config["seed"])
        self.recurrent = Recurrent(self.keras, self.config)
        self.model = self.make_model(user_functions.function(settings["function"]))
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
        model = function(self.keras, self.recurrent, self.config)
        if self.config.get("certifying"):
            for layer in model.layers:
                if "Dropout" in type(layer).__name__:
                    layer.rate = 0.0
        return model

    def seed(self, seed):
        self.keras.utils.set_random_seed(seed)

    def optimizer(self, stated):
        return optimizers.for_keras_3(self.keras, stated)

    def compile_settings(self):
        return {}

    def prepare_training(self):
        """Makes the optimizer's variables, which `reset` restores too."""
        self.model.optimizer.build(self.model.trainable_variables)

    def model_facts(self):
        return {
            "parameters": int(self.model.count_params()),
            "optimizer": self.model.optimizer.get_config(),
            "recurrent_layers": [layer.name for layer in self.recurrent.layers],
            "precision": self.precision_facts(),
            "feed": self.feed,
        }

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
        return [self._describe(layer) for layer in self._weighted()]

    def load_weights(self, weights):
        for layer, arrays in zip(self._weighted(), weights):
            if layer in self.recurrent.layers:
                self.recurrent.from_canonical(layer, arrays)
            else:
                layer.set_weights([arrays[name] for name, _ in _shapes(layer)])
        self._initial = self.read_state()

    def dump_weights(self):
        """The model's weights in canonical form."""
        dumped = []
        for layer in self._weighted():
            if layer in self.recurrent.layers:
                dumped.append(self.recurrent.to_canonical(layer))
            else:
                names = [name for name, _ in _shapes(layer)]
                dumped.append(dict(zip(names, layer.get_weights())))
        return dumped

    def reset(self):
        """Restores the state after ``load_weights``: weights, optimizer, random states."""
        self.write_state(self._initial)

    def read_state(self):
        # Copies: torch's are views of the variables' own memory.
        return [numpy.array(variable.numpy()) for variable in self._state()]

    def write_state(self, values):
        for variable, value in zip(self._state(), values):
            variable.assign(value)

    # -- private ------------------------------------------------------------------------

    def _set_policy(self, name):
        mixed = getattr(self.keras, "mixed_precision", None)
        if hasattr(mixed, "set_global_policy"):
            mixed.set_global_policy(name)
        elif name != precision.DEFAULT:
            raise ValueError("precision: this Keras has no dtype policy {}".format(name))

    def _policy(self):
        mixed = getattr(self.keras, "mixed_precision", None)
        if hasattr(mixed, "set_global_policy"):
            read = getattr(mixed, "global_policy", None) or mixed.dtype_policy
            return read().name
        return precision.DEFAULT

    def _weighted(self):
        return [layer for layer in self.model.layers if layer.get_weights()]

    def _state(self):
        return list(self.model.variables) + list(self.model.optimizer.variables)

    def _describe(self, layer):
        if layer in self.recurrent.layers:
            arrays = self.recurrent.to_canonical(layer)
            shapes = [(name, list(arrays[name].shape)) for name in sorted(arrays)]
            return {
                "name": layer.name,
                "kind": "recurrent",
                "cell": self.recurrent.cell,
                "shapes": shapes,
            }
        kind = "embedding" if type(layer).__name__ == "Embedding" else "other"
        return {"name": layer.name, "kind": kind, "shapes": _shapes(layer)}


def _shapes(layer):
    return [
        (variable.name.split("/")[-1].split(":")[0], [int(size) for size in variable.shape])
        for variable in layer.weights
    ]
