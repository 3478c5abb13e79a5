"""A training as one wrote it by hand for TensorFlow 1, with the seconds of each epoch.

python tensorflow1.py data/digits.npz UNITS BATCH EPOCHS SEED THREADS
"""

import json
import sys
import time

import numpy
import tensorflow

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


data = numpy.load(sys.argv[1])
units, batch, epochs, seed, threads = map(int, sys.argv[2:])
numpy.random.seed(seed)
tensorflow.set_random_seed(seed)
settings = tensorflow.ConfigProto(
    intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads
)
keras.backend.set_session(tensorflow.Session(config=settings))
model = keras.models.Sequential()
model.add(keras.layers.LSTM(units, input_shape=(8, 8)))
model.add(keras.layers.Dense(10, activation="softmax"))
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
clock = Seconds()
model.fit(
    data["x_train"], data["y_train"], batch_size=batch, epochs=epochs, verbose=0, callbacks=[clock]
)
print(json.dumps(clock.seconds))
