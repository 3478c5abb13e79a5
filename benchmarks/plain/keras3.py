"""A training as one writes it by hand in Keras 3, with the seconds of each epoch.

python keras3.py data/digits.npz UNITS BATCH EPOCHS SEED THREADS
"""

import json
import sys
import time

import keras
import numpy
import tensorflow


class Seconds(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.seconds = []

    def on_epoch_begin(self, epoch, logs=None):
        self.start = time.monotonic()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds.append(time.monotonic() - self.start)


data = numpy.load(sys.argv[1])
units, batch, epochs, seed, threads = map(int, sys.argv[2:])
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
clock = Seconds()
model.fit(
    data["x_train"], data["y_train"], batch_size=batch, epochs=epochs, verbose=0, callbacks=[clock]
)
print(json.dumps(clock.seconds))
