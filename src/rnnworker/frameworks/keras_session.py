"""What every Keras shares: building the model, canonical weights, timing inside ``fit``.

Subclasses import a framework and feed it; see ``keras3_tensorflow``.
"""

import time

import numpy

from rnnworker import data, loading, optimizers, precision
from rnnworker.frameworks.epoch_clock import epoch_clock, short_name, steps_told
from rnnworker.frameworks.keras_probe import KerasProbe
from rnnworker.recurrent import Recurrent
from rnnworker.settled import settle
from rnnworker.step_clock import StepClock


class KerasSession(KerasProbe):
    """One model of one run. Subclasses set ``self.keras`` and provide ``batches``,
    ``environment``, ``device_facts`` and ``finish_device``."""

    keras = None
    lead_in = 5  # untimed steps at the beginning of a training, see `epoch_clock`
    # Whether `reset` brings back the random states that dropout draws from.
    resets_dropout = True

    def __init__(self, config, threads):
        self.config = config
        self.threads = threads
        self.arrays = None
        self.model = None
        self.recurrent = None
        self._initial = None
        self._feeds = {}
        self._on_start = None

    # -- what a framework provides ------------------------------------------------------

    def batches(self, x, y, orders, batch):
        """Something ``fit`` takes, giving ``x[order], y[order]`` of one order after another in
        batches of `batch`, none of them from two orders. It never ends: after the last order
        comes the first one again."""
        raise NotImplementedError

    def finish_device(self):
        """Returns when the device has done everything that was asked of it."""

    def finish_step(self, values):
        """The same in the midst of an epoch; `values`: what its step takes or gives."""
        self.finish_device()

    def set_tf32(self, on):
        """Lets an NVIDIA GPU round the operands of float32 products to TF32, or not."""

    def tf32(self):
        """Whether it may, read back; None where the framework cannot say."""

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
        self.set_tf32(precision.asked(self.config) == "tf32")
        self._set_policy(precision.policy(self.config))
        self.seed(self.config["seed"])
        self.recurrent = Recurrent(self.keras, self.config)
        self.model = self.make_model(loading.function(settings["function"]))
        self.model.compile(
            loss=settings["loss"],
            optimizer=self.optimizer(settings["optimizer"]),
            metrics=list(settings.get("metrics", ["accuracy"])),
            **self.compile_settings(),
        )
        self.prepare_training()
        return {"layers": len(self.model.layers)}

    def make_model(self, function):
        """The model that `function` builds; without dropout where it is certified."""
        model = function(self.keras, self.recurrent, self.config)
        if self.config.get("certifying"):
            _without_dropout(model)
        return model

    def seed(self, seed):
        self.keras.utils.set_random_seed(seed)

    def optimizer(self, stated):
        return optimizers.for_keras_3(self.keras, stated)

    def compile_settings(self):
        return {}

    def prepare_training(self):
        """Makes the optimizer's variables, which are part of what `reset` restores."""
        self.model.optimizer.build(self.model.trainable_variables)

    def model_facts(self):
        return {
            "parameters": int(self.model.count_params()),
            "optimizer": self.model.optimizer.get_config(),
            "recurrent_layers": [layer.name for layer in self.recurrent.layers],
            "precision": self.precision_facts(),
        }

    def precision_facts(self):
        """What was asked and what the layers that were built compute in."""
        inner = [getattr(layer, "forward_layer", layer) for layer in self.recurrent.layers]
        told = {
            "policy": self._policy(),
            "layers": sorted({getattr(one, "compute_dtype", "float32") for one in inner}),
            "tf32": self.tf32(),
        }
        as_asked = precision.as_expected(self.config, told)
        return dict(told, asked=precision.asked(self.config), as_asked=as_asked)

    def layers(self):
        """The weighted layers in order, as ``canonical.initial`` wants them."""
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
        """Back to the state after ``load_weights``: weights, optimizer, random states."""
        self.write_state(self._initial)

    def read_state(self):
        # Copies: torch's are views of the variables' own memory.
        return [numpy.array(variable.numpy()) for variable in self._state()]

    def write_state(self, values):
        for variable, value in zip(self._state(), values):
            variable.assign(value)

    def changing(self, y, orders, batch):
        """A function of (epoch from 0, its images): what ``fit`` takes for this epoch alone, where
        each has images of its own."""
        return lambda epoch, images: self.batches(images, y, [orders[epoch]], batch)

    def train(self, x, y, orders, batch, lead_in=0, feed=None, **settings):
        """One ``fit`` over consecutive epochs, each seeing ``x[order], y[order]``, from `feed`
        where there is one, after `lead_in` steps; to ``fit`` each of these is the first of an
        epoch."""
        steps = -(-len(orders[0]) // batch)
        if feed is None:
            feed = self.batches(x, y, [orders[0][:batch]] * lead_in + list(orders), batch)
        settings["epochs"] += lead_in
        self.model.fit(feed, steps_per_epoch=steps, verbose=0, **settings)

    def train_steps(self, steps):
        """Trains `steps` batches, whatever they do to the weights. The last of several has the
        size of an epoch's last one: XLA compiles for each size, and not in a timed epoch."""
        batch = self.config["model"]["batch"]
        samples = len(self.arrays["x_train"])
        order = data.epoch_order(self.config["seed"], 0, samples)
        last = (samples % batch if steps > 1 else 0) or batch
        order = numpy.resize(order, (steps - 1) * batch + last)
        self.train(self.arrays["x_train"], self.arrays["y_train"], [order], batch, epochs=1)
        self.finish_device()

    def warm_up(self, steps, seconds):
        """Trains `steps` batches and calls everything that will be timed; then goes on until
        `seconds` have passed, which brings up a processor's clocks. Returns the steps trained.

        Where `reset` cannot bring back dropout's random states, it goes on without training: how
        long a machine takes must not decide which masks are drawn."""
        began = time.monotonic()
        if steps:
            self.train_steps(steps)
        trained, took = steps, time.monotonic() - began
        self.evaluate()
        self.predict()
        while time.monotonic() - began < seconds:
            if self.resets_dropout and steps:
                left = seconds - (time.monotonic() - began)
                more, start = max(1, int(trained * left / took)), time.monotonic()
                self.train_steps(more)
                trained, took = trained + more, took + time.monotonic() - start
            else:
                self.evaluate()
        return trained

    def fit(self, on_epoch, on_start, turns):
        """Trains all epochs in one ``fit``, in `turns`; calls ``on_epoch`` with each epoch's facts,
        outside of what is timed, and `on_start` right before the first one. Returns details of
        the phase.

        With ``model.data.augment`` each epoch is a ``fit`` of its own, and its time includes
        making its images in NumPy, as the published times did."""
        settings = self.config["model"]
        x, y = self.arrays["x_train"], self.arrays["y_train"]
        seed, epochs, batch = self.config["seed"], settings["epochs"], settings["batch"]
        steps = -(-len(x) // batch)
        orders = [data.epoch_order(seed, epoch + 1, len(x)) for epoch in range(epochs)]
        augmented = bool(settings["data"].get("augment"))
        lead_in = 0 if augmented else self.lead_in
        steps_clock = StepClock(turns, steps, epochs, self.finish_step)
        clock = epoch_clock(self.keras)(self, on_epoch, len(x), steps, steps_clock, lead_in)
        self._on_start = on_start
        start = time.monotonic()
        if augmented:
            feed_of = self.changing(y, orders, batch)
        if not lead_in:
            self.prepare_epochs()
        # An epoch with new images is a ``fit`` of its own, and making them is timed with it.
        for first in range(0, epochs, 1 if augmented else epochs):
            clock.began = time.monotonic() if augmented else None
            stop = first + 1 if augmented else epochs
            images = data.epoch_images(x, self.config, stop) if augmented else x
            with steps_told(self.model, steps_clock, clock):
                self.train(
                    images,
                    y,
                    orders[first:stop],
                    batch,
                    lead_in=lead_in,
                    feed=feed_of(first, images) if augmented else None,
                    initial_epoch=first,
                    epochs=stop,
                    callbacks=[clock],
                )
            if clock.stopped:
                break
        steps_clock.ends()
        end = time.monotonic()
        return {
            "set_up": clock.first - start - steps_clock.first_wait,
            "tear_down": end - clock.last,
            "stopped": clock.stopped,
        }

    def prepare_epochs(self):
        """What comes right before the first timed epoch: the canonical weights, and a validation,
        as before every other epoch."""
        self.reset()
        if self._on_start is not None:
            self._on_start()
        settle()
        self.evaluate()

    def validation(self, samples=None):
        """What ``evaluate`` and ``predict`` take, made once: (feed, how many batches of it are the
        validation set)."""
        x, y = self.arrays["x_val"][:samples], self.arrays["y_val"][:samples]
        batch = self.config["model"]["batch"]
        if samples not in self._feeds:
            self._feeds[samples] = self.batches(x, y, [numpy.arange(len(x))], batch)
        return self._feeds[samples], -(-len(x) // batch)

    def evaluate(self, samples=None):
        """Loss and accuracy on the validation set (its first `samples`), as {name: value}."""
        feed, steps = self.validation(samples)
        result = self.model.evaluate(feed, steps=steps, verbose=0, return_dict=True)
        self.finish_device()
        return {short_name(name): value for name, value in result.items()}

    def predict(self):
        feed, steps = self.validation()
        self.model.predict(feed, steps=steps, verbose=0)
        self.finish_device()

    # -- inside -------------------------------------------------------------------------

    def _set_policy(self, name):
        mixed = getattr(self.keras, "mixed_precision", None)
        if hasattr(mixed, "set_global_policy"):
            mixed.set_global_policy(name)
        elif name != precision.DEFAULT:
            raise ValueError("this Keras has no dtype policy {}".format(name))

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


def _without_dropout(model):
    """Switches the dropout layers off: two implementations draw different masks."""
    for layer in model.layers:
        if "Dropout" in type(layer).__name__:
            layer.rate = 0.0


def _shapes(layer):
    return [
        (variable.name.split("/")[-1].split(":")[0], [int(size) for size in variable.shape])
        for variable in layer.weights
    ]
