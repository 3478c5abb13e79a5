"""A hand-written training script for TensorFlow 1 that prints the seconds of each epoch.

python tensorflow1.py data/digits.npz SAMPLES UNITS BATCH EPOCHS SEED THREADS TURNS FEED

FEED is ``arrays`` (``fit(x, y)``), as was usual then.
"""

import json
import sys
import time

import numpy
import tensorflow
from turns import turns

try:
    from tensorflow import keras
except ImportError:  # before TensorFlow 1.4 Keras was a package of its own
    import keras


class Seconds(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.seconds = []

    def on_epoch_begin(self, epoch, logs=None):
        self.start = time.time()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds.append(time.time() - self.start)
        # The worker validates here as well, which changes the caches in the same way.
        self.model.evaluate(*few, batch_size=16, verbose=0)


data = numpy.load(sys.argv[1])
few = data["x_val"][:16], data["y_val"][:16]
samples, units, batch, epochs, seed, threads = map(int, sys.argv[2:8])
numpy.random.seed(seed)
tensorflow.set_random_seed(seed)
settings = tensorflow.ConfigProto(
    intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads
)
keras.backend.set_session(tensorflow.Session(config=settings))
model = keras.models.Sequential()
# The default in this version is hard_sigmoid, which is another network, and slower.
model.add(keras.layers.LSTM(units, recurrent_activation="sigmoid", input_shape=(8, 8)))
model.add(keras.layers.Dense(10, activation="softmax"))
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
clock = Seconds()
x, y = data["x_train"][:samples], data["y_train"][:samples]
callbacks = [turns(keras, sys.argv[8]), clock]
model.fit(x, y, batch_size=batch, epochs=epochs, verbose=0, callbacks=callbacks)
print(json.dumps(clock.seconds))
