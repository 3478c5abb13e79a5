"""Measures the epochs inside ``fit`` with one callback that works in every Keras from 2.0.6 on."""

import contextlib
import time

import numpy

ACCURACIES = ("acc", "accuracy", "sparse_categorical_accuracy", "binary_accuracy")


def short_name(name):
    """The record's name of a metric, ``loss`` or ``acc``: Keras's names differ between versions."""
    return "acc" if name in ACCURACIES else name


def epoch_clock(keras):
    class EpochClock(keras.callbacks.Callback):
        """Reports the epochs of ``fit`` to `clock`, validates between epochs, timed separately,
        and stops a training whose loss is not finite.

        The first `lead_in` epochs have one step each and are not timed: in them ``fit`` makes its
        iterator, fills its prefetch buffers and starts its threads. After the last of them
        ``session.prepare_epochs`` undoes their effect, and the training begins."""

        def __init__(self, session, on_epoch, samples, steps, clock, lead_in):
            super().__init__()
            self.session, self.on_epoch, self.clock = session, on_epoch, clock
            self.samples, self.steps, self.lead_in = samples, steps, lead_in
            self.first = self.last = self.began = None
            self.stopped = None
            self.trains = False  # whether the current epoch belongs to the training

        def on_epoch_begin(self, epoch, logs=None):
            self.trains = epoch >= self.lead_in
            if not self.trains:
                self.model.stop_training = True  # read after each step: this epoch has one step
                return
            self.session.finish_device()
            self.clock.epoch_begins(self.began)
            self.first = self.first if self.first is not None else self.clock.start

        def on_epoch_end(self, epoch, logs=None):
            if not self.trains:
                self.model.stop_training = False
                if epoch + 1 == self.lead_in:
                    self.session.prepare_epochs()
                return
            self.session.finish_device()
            times = self.clock.epoch_ends()
            end = time.monotonic()
            number = epoch + 1 - self.lead_in
            logs = {short_name(name): float(value) for name, value in (logs or {}).items()}
            validated = self.session.evaluate()
            self.on_epoch(
                dict(
                    times,
                    epoch=number,
                    samples=self.samples,
                    steps=self.steps,
                    loss=logs.get("loss"),
                    acc=logs.get("acc"),
                    val_loss=validated.get("loss"),
                    val_acc=validated.get("acc"),
                    val_seconds=time.monotonic() - end,
                )
            )
            if not numpy.isfinite(logs.get("loss", numpy.nan)):
                self.stopped = "loss not finite in epoch {}".format(number)
                self.model.stop_training = True
            self.last = time.monotonic()

    return EpochClock


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
