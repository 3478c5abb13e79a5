"""The clock inside ``fit``: one callback for every Keras from 2.0.6 on."""

import time

import numpy

ACCURACIES = ("acc", "accuracy", "sparse_categorical_accuracy", "binary_accuracy")


def short_name(name):
    """Keras's metric names differ between generations; ours are ``loss`` and ``acc``."""
    return "acc" if name in ACCURACIES else name


def epoch_clock(keras):
    class EpochClock(keras.callbacks.Callback):
        """Reads the clock at epoch boundaries inside ``fit``, after the device has finished;
        validates between epochs, timed apart; ends a training whose loss is not finite.

        The first `lead_in` epochs have one step each and are not timed: ``fit`` makes its iterator
        in them, fills its look-ahead and starts its threads. After the last of them it calls
        ``session.prepare_epochs``, which undoes them, and the training begins."""

        def __init__(self, session, on_epoch, samples, steps, lead_in):
            super().__init__()
            self.session, self.on_epoch = session, on_epoch
            self.samples, self.steps, self.lead_in = samples, steps, lead_in
            self.first = self.last = self.start = self.began = None
            self.stopped = None

        def on_epoch_begin(self, epoch, logs=None):
            if epoch < self.lead_in:
                self.model.stop_training = True  # asked after each step: this epoch has one
                return
            self.session.finish_device()
            self.start = self.began or time.monotonic()
            self.first = self.first if self.first is not None else self.start

        def on_epoch_end(self, epoch, logs=None):
            if epoch < self.lead_in:
                self.model.stop_training = False
                if epoch + 1 == self.lead_in:
                    self.session.prepare_epochs()
                return
            self.session.finish_device()
            end = time.monotonic()
            number = epoch + 1 - self.lead_in
            logs = {short_name(name): float(value) for name, value in (logs or {}).items()}
            validated = self.session.evaluate()
            self.on_epoch(
                {
                    "epoch": number,
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
                self.stopped = "loss not finite in epoch {}".format(number)
                self.model.stop_training = True
            self.last = time.monotonic()

    return EpochClock
