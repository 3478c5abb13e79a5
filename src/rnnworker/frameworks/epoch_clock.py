"""The clock inside ``fit``: one callback for every Keras from 2.0.6 on."""

import contextlib
import time

import numpy

ACCURACIES = ("acc", "accuracy", "sparse_categorical_accuracy", "binary_accuracy")


def short_name(name):
    """Keras's metric names differ between generations; ours are ``loss`` and ``acc``."""
    return "acc" if name in ACCURACIES else name


def epoch_clock(keras):
    class EpochClock(keras.callbacks.Callback):
        """Tells `clock` of the epochs of ``fit``; validates between epochs, timed apart; ends a
        training whose loss is not finite.

        The first `lead_in` epochs have one step each and are not timed: ``fit`` makes its iterator
        in them, fills its look-ahead and starts its threads. After the last of them it calls
        ``session.prepare_epochs``, which undoes them, and the training begins."""

        def __init__(self, session, on_epoch, samples, steps, clock, lead_in):
            super().__init__()
            self.session, self.on_epoch, self.clock = session, on_epoch, clock
            self.samples, self.steps, self.lead_in = samples, steps, lead_in
            self.first = self.last = self.began = None
            self.stopped = None
            self.trains = False  # whether the present epoch is one of the training's

        def on_epoch_begin(self, epoch, logs=None):
            self.trains = epoch >= self.lead_in
            if not self.trains:
                self.model.stop_training = True  # asked after each step: this epoch has one
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
def steps_told(model, clock, callback):
    """In the block `clock` is told of each step that ``model.fit`` makes in an epoch of the
    training. Keras's callbacks of batches would cost each step its logs; this costs a call."""
    step = model.train_function

    def told(*values):
        if not callback.trains:
            return step(*values)
        clock.before(values)
        result = step(*values)
        clock.after(result)
        return result

    model.train_function = told
    try:
        yield
    finally:
        model.train_function = step
