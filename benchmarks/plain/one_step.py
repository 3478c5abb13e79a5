"""Counts the training steps in which this Keras does not apply the gradient that it computed.

python one_step.py data/digits.npz [--steps 100] [--threads 1 1] [--ordered] [--only mnist_mlp]
python one_step.py data/digits.npz --small

Uses SGD with learning rate 1, so that the change of the weights in a step is its gradient. Each
step starts from the same weights with another batch; the gradients are computed separately before
it. A step differs if, for some weight array, the change deviates from the gradient by more than a
hundredth of the largest gradient, beyond the rounding of the weights. The models are a recurrent
layer on the digits, the layers of Keras's `mnist_mlp.py` (noise as images) and those of its
`lstm_text_generation.py` (random characters), all without dropout. `--ordered` computes all
gradients before the first update, as the worker does in this build. Prints JSON.
"""

import argparse
import json
import os
import subprocess
import sys

import numpy
import tensorflow

try:
    from tensorflow import keras
except ImportError:  # before TensorFlow 1.4 Keras was a package of its own
    import keras

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../src"))

from rnnworker import machine  # noqa: E402

TOLERANCE = 1e-2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--threads", type=int, nargs=2, default=(1, 1), metavar=("INTRA", "INTER"))
    parser.add_argument("--ordered", action="store_true")
    parser.add_argument("--only", action="append", metavar="MODEL")
    parser.add_argument("--small", action="store_true", help="a few seconds")
    options = parser.parse_args()
    if options.small:
        options.steps, options.only = 2, ["LSTM implementation=1"]
    results = {"tensorflow": tensorflow.__version__, "keras": keras.__version__, **vars(options)}
    results["cpu"] = machine.fingerprint()["cpu"]
    git = ["git", "-C", HERE, "describe", "--always", "--exclude=*", "--dirty=-edited"]
    results["commit"] = subprocess.check_output(git).decode().strip()
    settings = tensorflow.ConfigProto(
        intra_op_parallelism_threads=options.threads[0],
        inter_op_parallelism_threads=options.threads[1],
    )
    keras.backend.set_session(tensorflow.Session(config=settings))
    if options.ordered:
        compute_before_updating()
    for name, (inputs, outputs, x, y, batch) in models(options.data):
        if name in (options.only or [name]):
            results[name] = differing(inputs, outputs, x, y, batch, options.steps)
    print(json.dumps(results))


def compute_before_updating():
    get_gradients = keras.optimizers.Optimizer.get_gradients

    def ordered(self, loss, params):
        gradients = get_gradients(self, loss, params)
        with tensorflow.control_dependencies(gradients):
            return [tensorflow.identity(gradient) for gradient in gradients]

    keras.optimizers.Optimizer.get_gradients = ordered


def models(path):
    """Yields (name, (inputs, outputs, x, y, batch)) of each model."""
    layers, stream = keras.layers, numpy.random.RandomState(0)
    data = numpy.load(path)
    x, y = data["x_train"], data["y_train"].reshape(-1, 1)
    for cell in ("LSTM", "GRU"):
        for implementation in (0, 1, 2) if keras.__version__.startswith("2.0") else (1, 2):
            seeded()
            inputs = layers.Input((8, 8))
            hidden = getattr(layers, cell)(64, implementation=implementation)(inputs)
            outputs = layers.Dense(10, activation="softmax")(hidden)
            name = f"{cell} implementation={implementation}"
            yield name, (inputs, outputs, x, y, 16)
    seeded()
    images, labels = stream.rand(1280, 784).astype("float32"), stream.randint(0, 10, (1280, 1))
    inputs = hidden = layers.Input((784,))
    for _ in range(2):
        hidden = layers.Dense(512, activation="relu")(hidden)
    outputs = layers.Dense(10, activation="softmax")(hidden)
    yield "mnist_mlp", (inputs, outputs, images, labels, 128)
    seeded()
    text = numpy.eye(57, dtype="float32")[stream.randint(0, 57, (1280, 40))]
    inputs = layers.Input((40, 57))
    outputs = layers.Dense(57, activation="softmax")(layers.LSTM(128)(inputs))
    yield "lstm_textgen", (inputs, outputs, text, stream.randint(0, 57, (1280, 1)), 128)


def seeded():
    numpy.random.seed(0)
    tensorflow.set_random_seed(0)


def differing(inputs, outputs, x, y, batch, steps):
    """The number of `steps` steps that differ, and the largest relative difference."""
    model = keras.models.Model(inputs, outputs)
    model.compile(keras.optimizers.SGD(lr=1.0), "sparse_categorical_crossentropy")
    weights = model.trainable_weights
    gradients = keras.backend.gradients(model.total_loss, weights)
    session = keras.backend.get_session()
    before = model.get_weights()
    worst, count = 0.0, 0
    for step in range(steps):
        chosen = numpy.arange(step * batch, (step + 1) * batch) % len(x)
        feed = {
            model.inputs[0]: x[chosen],
            model._feed_targets[0]: y[chosen],
        }
        for weight in model._feed_sample_weights:
            feed[weight] = numpy.ones(batch, "float32")
        model.set_weights(before)
        expected = session.run(gradients, feed_dict=feed)
        model.train_on_batch(x[chosen], y[chosen])
        error = 0.0
        for old, gradient, new in zip(before, expected, model.get_weights()):  # noqa: B905 (Python 3.6)
            size = max(numpy.abs(gradient).max(), 1e-6)
            rounding = numpy.finfo("float32").eps * max(numpy.abs(old).max(), numpy.abs(new).max())
            gap = numpy.abs(old - new - gradient).max() - rounding
            error = max(error, float(gap / size))
        worst, count = max(worst, error), count + int(error > TOLERANCE)
    return {"differ": count, "worst": round(worst, 4)}


if __name__ == "__main__":
    main()
