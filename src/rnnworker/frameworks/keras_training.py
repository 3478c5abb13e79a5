"""Training in every Keras: the warm-up, ``fit`` with its clocks, validation."""

import contextlib
import time

import numpy

from rnnworker import data, trees
from rnnworker.frameworks import keras_checks
from rnnworker.turns import StepClock, collect_and_freeze

ACCURACIES = ("acc", "accuracy", "sparse_categorical_accuracy", "binary_accuracy")
COLUMNS = ("loss", "acc", "val_loss", "val_acc")  # of every record


class KerasTraining:
    """A mix-in of `KerasSession`."""

    def augmented_feed(self, samples, orders, batch):
        """A function of (epoch from 0, its images) that returns the input of ``fit`` for this
        epoch, for a training with other images in each epoch."""

        def feed_of(epoch, images):
            return self.batches((images,) + samples[1:], [orders[epoch]], batch)

        return feed_of

    def train(self, samples, orders, batch, lead_in=0, feed=None, **settings):
        """Calls ``fit`` once over consecutive epochs, each on the `samples` in one of the `orders`,
        from `feed` if given, after `lead_in` steps; ``fit`` takes each of these for an epoch of one
        step. Returns Keras's ``History``."""
        steps = -(-len(orders[0]) // batch)
        if feed is None:
            feed = self.batches(samples, [orders[0][:batch]] * lead_in + list(orders), batch)
        settings["epochs"] += lead_in
        return self.model.fit(feed, steps_per_epoch=steps, verbose=0, **settings)

    def loss_curve(self, batches):
        """Takes a training step with each of the `batches` (numbers of samples). All are epochs of
        one ``fit``, so that no other step is compiled than that of a training. Returns the loss
        before each step."""
        samples = data.samples(self.arrays, "train")
        batch = self.config["model"]["batch"]
        history = self.train(samples, batches, batch, epochs=len(batches)).history
        keras_checks.check_stop(self)
        curve = []
        for epoch in range(len(batches)):
            logs = {name: values[epoch] for name, values in history.items()}
            curve.append(keras_checks.loss_in(logs, self))
        return curve

    def train_steps(self, steps, last=True):
        """Trains `steps` batches, which changes the weights. With `last`, the last of several has
        the size of an epoch's last batch: XLA compiles for each size, and must not do so in a timed
        epoch."""
        batch = self.config["model"]["batch"]
        samples = data.samples(self.arrays, "train")
        rows = trees.rows(samples)
        order = data.epoch_order(self.config["seed"], 0, rows)
        count = steps * batch
        if last and steps > 1 and rows % batch:
            count += rows % batch - batch
        order = numpy.resize(order, count)
        self.train(samples, [order], batch, epochs=1)
        self.finish_device()

    def warm_up(self, steps, seconds):
        """Trains `steps` batches and calls everything that will be timed, then continues until
        `seconds` have passed, which raises the processor's clock rate. Returns the number of
        steps trained.

        If `reset` cannot restore dropout's random states, it continues without training: the speed
        of the machine must not decide which masks are drawn."""
        start = time.monotonic()
        if steps:
            self.train_steps(steps)
        took = time.monotonic() - start
        trained = steps
        self.evaluate()
        self.predict()
        end = start + seconds
        while time.monotonic() < end:
            if not steps or not self.resets_dropout:
                self.evaluate()
                continue
            begin = time.monotonic()
            more = max(1, int(trained * (end - begin) / took))
            self.train_steps(more)
            took += time.monotonic() - begin
            trained += more
        return trained

    def fit(self, on_epoch, on_start, turns, again=0):
        """Trains all epochs in one ``fit``, in `turns`. Calls ``on_epoch`` with the facts of each
        epoch, outside the timed parts, and `on_start` right before the first epoch. Returns the
        details of the phase.

        With `again`, it trains so many times, each from the same weights. Only the turns of these
        trainings are of interest: there is no validation, and ``on_epoch`` is not called.

        With ``model.data.augment`` each epoch is a separate ``fit``, whose time includes making
        the images in NumPy, as the published times did."""
        settings = self.config["model"]
        seed = self.config["seed"]
        planned = settings["epochs"]
        batch = settings["batch"]
        samples = data.samples(self.arrays, "train")
        rows = trees.rows(samples)
        steps = -(-rows // batch)
        orders = [data.epoch_order(seed, epoch + 1, rows) for epoch in range(planned)]
        orders *= max(1, again)
        epochs = len(orders)
        augmented = settings["data"].get("augment")
        lead_in = self.lead_in
        per_fit = epochs  # the number of epochs of each ``fit``
        if augmented:
            lead_in = 0
            per_fit = 1
        steps_clock = StepClock(turns, steps, epochs, self.finish_step)
        sizes = {"samples": rows, "steps": steps}
        length = planned if again else None
        clock = epoch_clock(self, on_epoch, steps_clock, sizes, lead_in, length)
        self._on_start = on_start
        start = time.monotonic()
        if augmented:
            feed_of = self.augmented_feed(samples, orders, batch)
        if not lead_in:
            self.prepare_epochs(validates=not again)
        feed = None
        for first in range(0, epochs, per_fit):
            stop = first + per_fit
            shown = samples
            if augmented:
                clock.began = time.monotonic()
                images = data.epoch_images(samples[0], self.config, 1 + first % planned)
                shown = (images,) + samples[1:]
                feed = feed_of(first, images)
            with clocked_steps(self.model, steps_clock, clock):
                self.train(
                    shown,
                    orders[first:stop],
                    batch,
                    lead_in=lead_in,
                    feed=feed,
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

    def prepare_epochs(self, validates):
        """Prepares the first timed epoch: restores the canonical weights, and `validates` if that
        precedes every other epoch, too."""
        self.reset()
        self._on_start()
        collect_and_freeze()
        if validates:
            self.evaluate()

    def validation(self, samples=None):
        """The input of ``evaluate`` and ``predict``, made once: (feed, number of batches in the
        validation set, or in its first `samples`)."""
        first = trees.taken(data.samples(self.arrays, "val"), slice(samples))
        rows = trees.rows(first)
        batch = self.config["model"]["batch"]
        if samples not in self._validation_feeds:
            self._validation_feeds[samples] = self.batches(first, [numpy.arange(rows)], batch)
        return self._validation_feeds[samples], -(-rows // batch)

    def evaluate(self):
        """Loss and accuracy on the validation set, as {name: value}."""
        feed, steps = self.validation()
        result = self.model.evaluate(feed, steps=steps, verbose=0, return_dict=True)
        self.finish_device()
        return renamed(result)

    def predict(self):
        self.outputs()
        self.finish_device()


def bounds(orders, batch):
    """(starts, stops) of all batches in the concatenated `orders`; no batch spans two epochs."""
    parts = []
    end = 0
    for order in orders:
        begin = end
        end += len(order)
        parts.append(numpy.arange(begin, end, batch))
    starts = numpy.concatenate(parts)
    return starts, numpy.append(starts[1:], end)


def renamed(results):
    """The results of an epoch, with the name ``acc`` for the first accuracy: Keras's names differ
    between versions. A metric of several numbers, such as one for each class, is ``NAME_0``, ..."""
    found = {}
    for name, value in results.items():
        if name in ACCURACIES and "acc" not in found:
            name = "acc"
        numbers = numpy.ravel(value)
        if len(numbers) == 1:
            found[name] = float(numbers[0])
            continue
        for place, number in enumerate(numbers):
            found["{}_{}".format(name, place)] = float(number)
    return found


def further_metrics(logs, validated):
    """All metrics but loss and accuracy, named as in Keras's ``History``: ``mae``, ``val_mae``."""
    history = dict(logs)
    for name, value in validated.items():
        history["val_" + name] = value
    return {name: value for name, value in history.items() if name not in COLUMNS}


def epoch_clock(session, on_epoch, clock, sizes, lead_in, again=None):
    """A callback that reports the epochs of ``fit`` to `clock`, validates between epochs, timed
    separately, and stops a training whose loss is not finite.

    **Arguments:**

    - `on_epoch`: is called with the facts of each epoch, a dict; times in seconds.
    - `clock`: a `StepClock`.
    - `sizes`: further facts of every epoch, its numbers of ``samples`` and ``steps``.
    - `lead_in`: the number of untimed steps.
    - `again`: the epochs of each training, if only turns are of interest.

    The first `lead_in` epochs have one step each and are not timed: in them ``fit`` makes its
    iterator, fills its prefetch buffers and starts its threads. After the last of them
    ``session.prepare_epochs`` undoes their effect, and the training begins."""

    class EpochClock(session.keras.callbacks.Callback):
        first = last = began = stopped = None
        trains = False  # whether the current epoch belongs to the training

        def on_epoch_begin(self, epoch, logs=None):
            self.trains = epoch >= lead_in
            if not self.trains:
                self.model.stop_training = True  # read after each step: this epoch has one step
                return
            if again and self.first is not None and (epoch - lead_in) % again == 0:
                session.reset()
            session.finish_device()
            clock.epoch_begins(self.began)
            if self.first is None:
                self.first = clock.start

        def on_epoch_end(self, epoch, logs=None):
            if not self.trains:
                self.model.stop_training = False
                if epoch + 1 == lead_in:
                    session.prepare_epochs(validates=not again)
                return
            keras_checks.check_stop(session)
            session.finish_device()
            times = clock.epoch_ends()
            end = time.monotonic()
            if again:
                self.last = end
                return
            logs = renamed(logs or {})
            validated = session.evaluate()
            val_seconds = time.monotonic() - end
            number = epoch + 1 - lead_in
            facts = dict(times, val_seconds=val_seconds, epoch=number)
            for name in ("loss", "acc"):
                facts[name] = logs.get(name)
            for name in ("loss", "acc"):
                facts["val_" + name] = validated.get(name)
            facts["metrics"] = further_metrics(logs, validated)
            facts.update(sizes)
            on_epoch(facts)
            if not numpy.isfinite(logs.get("loss", numpy.nan)):
                self.stopped = "loss not finite in epoch {}".format(number)
                self.model.stop_training = True
            self.last = time.monotonic()

    return EpochClock()


@contextlib.contextmanager
def clocked_steps(model, clock, callback):
    """Reports to `clock` each step that ``model.fit`` takes in the block in an epoch of the
    training. Keras's batch callbacks would compute logs in each step; this costs one call."""
    step = model.train_function

    def clocked(*values):
        if not callback.trains:
            return step(*values)
        clock.before(values)
        result = step(*values)
        clock.after(result)
        return result

    model.train_function = clocked
    try:
        yield
    finally:
        model.train_function = step
