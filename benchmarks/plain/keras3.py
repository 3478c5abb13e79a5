"""A hand-written training script for Keras 3 that prints the seconds of each epoch.

python keras3.py data/digits.npz SAMPLES UNITS BATCH EPOCHS SEED THREADS TURNS FEED

FEED is ``pipeline`` (tf.data, as in the worker) or ``arrays`` (``fit(x, y)``).
"""

import json
import sys
import time

import keras
import numpy
import tensorflow
from turns import turns


class Seconds(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.seconds = []

    def on_epoch_begin(self, epoch, logs=None):
        self.start = time.monotonic()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds.append(time.monotonic() - self.start)
        # The worker validates here as well, which changes the caches in the same way.
        self.model.evaluate(*few, batch_size=16, verbose=0)


data = numpy.load(sys.argv[1])
few = data["x_val"][:16], data["y_val"][:16]
samples, units, batch, epochs, seed, threads = map(int, sys.argv[2:8])
tensorflow.config.threading.set_intra_op_parallelism_threads(threads)
tensorflow.config.threading.set_inter_op_parallelism_threads(threads)
keras.utils.set_random_seed(seed)
model = keras.Sequential(
    [
        keras.layers.Input((8, 8)),
        keras.layers.LSTM(units),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
x, y = data["x_train"][:samples], data["y_train"][:samples]
clock = Seconds()
callbacks = [turns(keras, sys.argv[8]), clock]
if sys.argv[9] == "arrays":
    model.fit(x, y, batch_size=batch, epochs=epochs, verbose=0, callbacks=callbacks)
else:
    steps = -(-samples // batch)
    order = tensorflow.constant(
        numpy.concatenate([numpy.random.permutation(samples) for _ in range(epochs)])
    )
    x, y = tensorflow.constant(x), tensorflow.constant(y)
    starts = numpy.concatenate([e * samples + batch * numpy.arange(steps) for e in range(epochs)])
    ends = numpy.minimum(starts + batch, samples * numpy.repeat(numpy.arange(epochs) + 1, steps))

    def take(start, end):
        chosen = order[start:end]
        return tensorflow.gather(x, chosen), tensorflow.gather(y, chosen)

    feed = tensorflow.data.Dataset.from_tensor_slices((starts, ends)).map(take)
    options = tensorflow.data.Options()
    options.autotune.enabled = False
    model.fit(
        feed.with_options(options),
        steps_per_epoch=steps, epochs=epochs, verbose=0, callbacks=callbacks,
    )  # fmt: skip
print(json.dumps(clock.seconds))
