"""What every Keras shares: building the model, canonical weights, timing inside ``fit``.

Subclasses import a framework and feed it; see ``keras3_tensorflow``.
"""

import time

import numpy

from rnnworker import data, loading
from rnnworker.recurrent import Recurrent


class KerasSession:
    """One model of one run. Subclasses set ``self.keras`` and provide ``batches``,
    ``environment``, ``device_facts`` and ``finish_device``."""

    keras = None

    def __init__(self, config, threads):
        self.config = config
        self.threads = threads
        self.arrays = None
        self.model = None
        self.recurrent = None
        self._initial = None

    # -- what a framework provides ------------------------------------------------------

    def batches(self, x, y, order, batch):
        """Something ``fit`` takes, giving ``x[order], y[order]`` in batches of `batch`."""
        raise NotImplementedError

    def finish_device(self):
        """Returns when the device has done everything that was asked of it."""

    # -- the run's steps ----------------------------------------------------------------

    def load_data(self, path):
        self.arrays = data.arrays(self.config, path)
        return {
            "sizes": {name: len(self.arrays["x_" + name]) for name in ("train", "val")},
            "sample_shape": list(self.arrays["x_train"].shape[1:]),
        }

    @property
    def validation_samples(self):
        return len(self.arrays["x_val"])

    def build(self):
        settings = self.config["model"]
        self.keras.utils.set_random_seed(self.config["seed"])
        self.recurrent = Recurrent(self.keras, self.config)
        self.model = loading.function(settings["function"])(self.keras, self.recurrent, self.config)
        optimizer = dict(settings["optimizer"])
        self.model.compile(
            loss=settings["loss"],
            optimizer=self.keras.optimizers.get(
                {"class_name": optimizer.pop("name"), "config": optimizer}
            ),
            metrics=list(settings.get("metrics", ["accuracy"])),
            **self.compile_settings(),
        )
        self.model.optimizer.build(self.model.trainable_variables)
        return {"layers": len(self.model.layers)}

    def compile_settings(self):
        return {}

    def model_facts(self):
        return {
            "parameters": int(self.model.count_params()),
            "optimizer": self.model.optimizer.get_config(),
            "recurrent_layers": [layer.name for layer in self.recurrent.layers],
        }

    def layers(self):
        """The weighted layers in order, as ``canonical.initial`` wants them."""
        return [self._describe(layer) for layer in self._weighted()]

    def load_weights(self, weights):
        for layer, arrays in zip(self._weighted(), weights):
            if layer in self.recurrent.layers:
                self.recurrent.module.from_canonical(layer, arrays)
            else:
                layer.set_weights([arrays[name] for name, _ in _shapes(layer)])
        self._initial = [variable.numpy() for variable in self._state()]

    def dump_weights(self):
        """The model's weights in canonical form."""
        dumped = []
        for layer in self._weighted():
            if layer in self.recurrent.layers:
                dumped.append(self.recurrent.module.to_canonical(layer))
            else:
                names = [name for name, _ in _shapes(layer)]
                dumped.append(dict(zip(names, layer.get_weights())))
        return dumped

    def reset(self):
        """Back to the state after ``load_weights``: weights, optimizer, random states."""
        for variable, value in zip(self._state(), self._initial):
            variable.assign(value)

    def train_steps(self, steps):
        """Trains `steps` batches, whatever they do to the weights."""
        batch = self.config["model"]["batch"]
        samples = len(self.arrays["x_train"])
        order = data.epoch_order(self.config["seed"], 0, samples)
        order = numpy.resize(order, steps * batch)
        feed = self.batches(self.arrays["x_train"], self.arrays["y_train"], [order], batch)
        self.model.fit(feed, epochs=1, steps_per_epoch=steps, verbose=0)
        self.finish_device()

    def fit(self, on_epoch):
        """Trains all epochs in one ``fit``; calls ``on_epoch`` with each epoch's facts,
        outside of what is timed. Returns details of the phase."""
        settings = self.config["model"]
        x, y = self.arrays["x_train"], self.arrays["y_train"]
        seed, epochs, batch = self.config["seed"], settings["epochs"], settings["batch"]
        steps = -(-len(x) // batch)
        orders = [data.epoch_order(seed, epoch + 1, len(x)) for epoch in range(epochs)]
        feed = self.batches(x, y, orders, batch)
        clock = _epoch_clock(self.keras)(self, on_epoch, samples=len(x), steps=steps)
        start = time.monotonic()
        self.model.fit(feed, epochs=epochs, steps_per_epoch=steps, verbose=0, callbacks=[clock])
        end = time.monotonic()
        return {
            "set_up": clock.first - start,
            "tear_down": end - clock.last,
            "stopped": clock.stopped,
        }

    def evaluate(self):
        """Loss and accuracy on the validation set, as {name: value}."""
        x, y = self.arrays["x_val"], self.arrays["y_val"]
        feed = self.batches(x, y, [numpy.arange(len(x))], self.config["model"]["batch"])
        result = self.model.evaluate(feed, verbose=0, return_dict=True)
        self.finish_device()
        return {short_name(name): value for name, value in result.items()}

    def predict(self):
        x, y = self.arrays["x_val"], self.arrays["y_val"]
        feed = self.batches(x, y, [numpy.arange(len(x))], self.config["model"]["batch"])
        self.model.predict(feed, verbose=0)
        self.finish_device()

    # -- inside -------------------------------------------------------------------------

    def _weighted(self):
        return [layer for layer in self.model.layers if layer.get_weights()]

    def _state(self):
        return list(self.model.variables) + list(self.model.optimizer.variables)

    def _describe(self, layer):
        if layer in self.recurrent.layers:
            arrays = self.recurrent.module.to_canonical(layer)
            shapes = [(name, list(arrays[name].shape)) for name in sorted(arrays)]
            return {
                "name": layer.name,
                "kind": "recurrent",
                "cell": self.recurrent.cell,
                "shapes": shapes,
            }
        kind = "embedding" if type(layer).__name__ == "Embedding" else "other"
        return {"name": layer.name, "kind": kind, "shapes": _shapes(layer)}


def short_name(name):
    """Keras's metric names differ between generations; ours are ``loss`` and ``acc``."""
    return "acc" if name in ("acc", "accuracy", "sparse_categorical_accuracy") else name


def _shapes(layer):
    return [
        (variable.name.split("/")[-1].split(":")[0], list(variable.shape))
        for variable in layer.weights
    ]


def _epoch_clock(keras):
    class EpochClock(keras.callbacks.Callback):
        """Reads the clock at epoch boundaries inside ``fit``, after the device has finished;
        validates between epochs, timed apart; ends a training whose loss is not finite."""

        def __init__(self, session, on_epoch, samples, steps):
            super().__init__()
            self.session, self.on_epoch = session, on_epoch
            self.samples, self.steps = samples, steps
            self.first = self.last = self.start = None
            self.stopped = None

        def on_epoch_begin(self, epoch, logs=None):
            self.session.finish_device()
            self.start = time.monotonic()
            self.first = self.first if self.first is not None else self.start

        def on_epoch_end(self, epoch, logs=None):
            self.session.finish_device()
            end = time.monotonic()
            logs = {short_name(name): float(value) for name, value in (logs or {}).items()}
            validated = self.session.evaluate()
            self.on_epoch(
                {
                    "epoch": epoch + 1,
                    "start": self.start,
                    "seconds": end - self.start,
                    "samples": self.samples,
                    "steps": self.steps,
                    "loss": logs.get("loss"),
                    "acc": logs.get("acc"),
                    "val_loss": validated.get("loss"),
                    "val_acc": validated.get("acc"),
                    "val_seconds": time.monotonic() - end,
                }
            )
            if not numpy.isfinite(logs.get("loss", numpy.nan)):
                self.stopped = "loss not finite in epoch {}".format(epoch + 1)
                self.model.stop_training = True
            self.last = time.monotonic()

    return EpochClock
