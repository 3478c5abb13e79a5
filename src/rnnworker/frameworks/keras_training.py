"""What every Keras shares of training: the warm-up, ``fit`` with its clocks, validation.

``keras_session`` builds the model that is trained here.
"""

import time

import numpy

from rnnworker import data
from rnnworker.frameworks.epoch_clock import epoch_clock, short_name, steps_told
from rnnworker.garbage import settle
from rnnworker.step_clock import StepClock


class KerasTraining:
    """A part of `KerasSession`."""

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
