"""Does a training step of this Keras apply the gradient that it computed? One model, counted.

python one_step.py data/digits.npz [STEPS]

SGD with learning rate 1, so that what a step changed is its gradient. Each step starts from the
same weights with another batch; before it the gradients are fetched alone. It differs where what
it added to some weights is off by more than a hundredth of the largest gradient there. One thread.
Prints JSON.
"""

import json
import sys

import numpy
import tensorflow

try:
    from tensorflow import keras
except ImportError:  # before TensorFlow 1.4 Keras was a package of its own
    import keras

FAR = 1e-2


def main(path, steps):
    data = numpy.load(path)
    x, y = data["x_train"], data["y_train"].reshape(-1, 1)
    found = {"tensorflow": tensorflow.__version__, "keras": keras.__version__, "steps": steps}
    settings = tensorflow.ConfigProto(
        intra_op_parallelism_threads=1, inter_op_parallelism_threads=1
    )
    keras.backend.set_session(tensorflow.Session(config=settings))
    for cell in ("LSTM", "GRU"):
        for implementation in (0, 1, 2) if keras.__version__.startswith("2.0") else (1, 2):
            layer = getattr(keras.layers, cell)(64, implementation=implementation)
            found[f"{cell} implementation={implementation}"] = differing(layer, x, y, steps)
    print(json.dumps(found))


def differing(layer, x, y, steps):
    """How many of `steps` steps applied something else, and the largest difference."""
    numpy.random.seed(0)
    tensorflow.set_random_seed(0)
    inputs = keras.layers.Input((8, 8))
    outputs = keras.layers.Dense(10, activation="softmax")(layer(inputs))
    model = keras.models.Model(inputs, outputs)
    model.compile(keras.optimizers.SGD(lr=1.0), "sparse_categorical_crossentropy")
    weights = model.trainable_weights
    gradients = keras.backend.gradients(model.total_loss, weights)
    session = keras.backend.get_session()
    before = model.get_weights()
    worst, count = 0.0, 0
    for step in range(steps):
        chosen = numpy.arange(step * 16, step * 16 + 16) % len(x)
        feed = {
            model.inputs[0]: x[chosen],
            model._feed_targets[0]: y[chosen],
        }
        for weight in model._feed_sample_weights:
            feed[weight] = numpy.ones(16, "float32")
        model.set_weights(before)
        wanted = session.run(gradients, feed_dict=feed)
        model.train_on_batch(x[chosen], y[chosen])
        off = 0.0
        for old, gradient, new in zip(before, wanted, model.get_weights()):  # noqa: B905 (Python 3.6)
            size = max(numpy.abs(gradient).max(), 1e-6)
            off = max(off, float(numpy.abs(old - new - gradient).max() / size))
        worst, count = max(worst, off), count + int(off > FAR)
    return {"differ": count, "worst": round(worst, 4)}


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200)
