"""Weights that a model brings stay as they are in every build, NumPy draws the others, each weight
is found once, and what is frozen is not trained: the losses are those of plain Keras with the same
weights."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.worker.building import answer_of, certificate_job, settings_of, write

# Each function builds a model with `recurrent`, which is Keras's LSTM in the plain model.
MODELS = """
import numpy

VECTORS = numpy.arange(24.0).reshape(8, 3) / 10
KERNEL = numpy.arange(48.0).reshape(3, 16) / 50


def prepare(source, config):
    x = numpy.random.RandomState(0).randint(0, 8, (64, 6)).astype("int32")
    y = (x.sum(1) > 20).astype("float32").reshape(-1, 1)
    return {"x_train": x[:48], "y_train": y[:48], "x_val": x[48:], "y_val": y[48:]}


def embedding(keras, **settings):
    return keras.layers.Embedding(8, 3, name="embedding", **settings)


def dense(keras, **settings):
    return keras.layers.Dense(1, activation="sigmoid", name="dense", **settings)


def simple(keras, recurrent, first, last, **settings):
    inputs = keras.layers.Input(shape=(6,), dtype="int32")
    hidden = recurrent(4, **settings)(first(inputs))
    return keras.models.Model(inputs, last(hidden))


def constant_and_frozen(keras, recurrent):
    constant = keras.initializers.Constant(VECTORS)
    first = embedding(keras, embeddings_initializer=constant, trainable=False)
    return simple(keras, recurrent, first, dense(keras))


def set_before_the_call(keras, recurrent):
    first = embedding(keras)
    first.build((None, 6))
    first.set_weights([VECTORS])
    return simple(keras, recurrent, first, dense(keras))


def set_in_the_model(keras, recurrent):
    model = simple(keras, recurrent, embedding(keras), dense(keras))
    model.get_layer("embedding").set_weights([VECTORS])
    kernel, bias = model.get_layer("dense").get_weights()
    model.get_layer("dense").set_weights([0 * kernel + 0.25, bias + 0.5])
    return model


def assigned(keras, recurrent):
    model = simple(keras, recurrent, embedding(keras), dense(keras))
    variable = model.get_layer("embedding").weights[0]
    done = variable.assign(VECTORS.astype("float32"))
    if hasattr(keras.backend, "get_session"):
        keras.backend.get_session().run(done)
    return model


def set_by_the_framework(keras, recurrent):
    model = simple(keras, recurrent, embedding(keras), dense(keras))
    variable = model.get_layer("embedding").weights[0]
    backend = keras.config.backend() if hasattr(keras, "config") else "tensorflow"
    if hasattr(keras.backend, "get_session"):
        variable.load(VECTORS, keras.backend.get_session())
    elif backend == "torch":
        variable.value.data[:] = variable.value.new_tensor(VECTORS)
    elif backend == "jax":
        variable._value = VECTORS.astype("float32")
    else:
        variable = getattr(variable, "_value", variable)
        variable.scatter_nd_update([[row] for row in range(8)], VECTORS)
    return model


def normalized(keras, recurrent):
    inputs = keras.layers.Input(shape=(6,), dtype="int32")
    vectors = embedding(keras)(inputs)
    layer = keras.layers.Normalization()
    layer.adapt(10 * VECTORS)
    return keras.models.Model(inputs, dense(keras)(recurrent(4)(layer(vectors))))


def constants(keras, recurrent):
    constant = keras.initializers.Constant(KERNEL)
    last = dense(keras, kernel_initializer=keras.initializers.Constant(0.3))
    settings = {"kernel_initializer": constant, "bias_initializer": "ones"}
    settings["unit_forget_bias"] = False
    return simple(keras, recurrent, embedding(keras), last, **settings)


def seeded(keras, recurrent):
    uniform = keras.initializers.RandomUniform(-0.3, 0.3, seed=3)
    normal = keras.initializers.RandomNormal(0.0, 0.3, seed=4)
    last = dense(keras, kernel_initializer=normal)
    return simple(keras, recurrent, embedding(keras), last, kernel_initializer=uniform)


def frozen(keras, recurrent):
    model = simple(keras, recurrent, embedding(keras), dense(keras))
    for layer in model.layers[1:3]:
        layer.trainable = False
    return model


def nested(keras, recurrent):
    words = keras.layers.Input(shape=(6,), dtype="int32")
    inner = keras.models.Model(words, recurrent(4)(embedding(keras)(words)))
    inner.get_layer("embedding").set_weights([VECTORS])
    inputs = keras.layers.Input(shape=(6,), dtype="int32")
    return keras.models.Model(inputs, dense(keras)(inner(inputs)))


def wrapped(keras, recurrent):
    inputs = keras.layers.Input(shape=(6,), dtype="int32")
    halves = keras.layers.Reshape((2, 3, 3))(embedding(keras)(inputs))
    hidden = keras.layers.TimeDistributed(recurrent(4))(halves)
    return keras.models.Model(inputs, dense(keras)(keras.layers.Flatten()(hidden)))


def shared(keras, recurrent):
    inputs = keras.layers.Input(shape=(6,), dtype="int32")
    vectors = embedding(keras)(inputs)
    once, twice = recurrent(4), keras.layers.Dense(3, name="twice")
    both = [once(twice(vectors)), once(twice(twice(vectors)))]
    return keras.models.Model(inputs, dense(keras)(keras.layers.Concatenate()(both)))


BUILDERS = (
    *(constant_and_frozen, set_before_the_call, set_in_the_model, assigned, constants, seeded),
    *(frozen, set_by_the_framework, normalized, nested, wrapped, shared),
)
for builder in BUILDERS:
    def build(keras, recurrent, config, builder=builder):
        return builder(keras, recurrent)

    globals()["build_" + builder.__name__] = build
"""
TRAINED = """
import json, sys
import numpy
from rnnworker import certify, frameworks, user_functions

config, file, names = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3:]
if config["build"]["framework"] in ("keras3_tensorflow", "keras2_tensorflow2"):
    import tensorflow

    # A graph for three steps of two models takes a second of a processor.
    tensorflow.config.run_functions_eagerly(True)
results = {}
for builder in user_functions.function(file + ":BUILDERS"):
    if names and builder.__name__ not in names:
        continue
    if builder.__name__ == "normalized" and sys.version_info < (3, 8):
        continue  # TensorFlow 1 has no such layer
    config["model"]["function"] = file + ":build_" + builder.__name__
    session = frameworks.open_session(config, 1)
    session.load_data(None)
    session.build()
    ours = session.dump_weights()
    session.load_weights(ours)
    keras = session.keras

    def lstm(units, **settings):
        return keras.layers.LSTM(units, recurrent_activation="sigmoid", **settings)

    plain = builder(keras, lstm)
    brought, before = plain.get_weights(), session.model.get_weights()
    session.model.set_weights(brought)
    theirs = session.dump_weights()
    session.model.set_weights(before)
    equal = []
    for layer, of_ours, of_theirs in zip(session.layers(), ours, theirs):
        for name in of_ours:
            if numpy.allclose(of_ours[name], of_theirs[name], atol=1e-6):
                equal.append(layer["name"] + "/" + name)
    plain.set_weights(before)
    optimizer = session.optimizer(config["model"]["optimizer"])
    plain.compile(optimizer=optimizer, loss="binary_crossentropy")
    batches = list(certify.first_batches(session.arrays, config, 8))
    losses = [session.train_batch(*batch) for batch in batches]
    of_keras = []
    for batch in batches:
        if hasattr(plain, "reset_metrics"):
            plain.reset_metrics()
        of_keras.append(float(plain.train_on_batch(*batch)))
    pairs = zip(before, session.model.get_weights())
    results[builder.__name__] = {
        "losses": losses,
        "of_keras": of_keras,
        "weights": [len(before), len(brought)],
        "equal": equal,
        "trained": [not numpy.array_equal(*pair) for pair in pairs],
    }
print(json.dumps(results))
"""
EMBEDDING = ["embedding/embeddings"]
DRAWN = {*EMBEDDING, "lstm/kernel", "lstm/recurrent", "dense/kernel", "twice/kernel"}
# Model → the weights that it brings. Those of a recurrent layer have the name of its class.
KEPT = {
    "constant_and_frozen": EMBEDDING,
    "set_before_the_call": EMBEDDING,
    "set_in_the_model": [*EMBEDDING, "dense/kernel"],
    "assigned": EMBEDDING,
    "set_by_the_framework": EMBEDDING,
    "constants": ["lstm/kernel", "dense/kernel"],
    "seeded": ["lstm/kernel", "dense/kernel"],
    "frozen": [],
    "nested": EMBEDDING,
    "wrapped": [],
    "shared": [],
}
# What jax and torch do themselves; all else is Keras 3's, as in the build current. Keras 2 tries
# all in the build tf_2_15, and in TensorFlow 1 those that depend on its graph and session.
OF_BACKENDS = ("assigned", "set_by_the_framework", "normalized", "frozen")
SOME = {
    "keras3_torch": OF_BACKENDS,
    "keras3_jax": OF_BACKENDS,
    "tf_1_15": ("assigned", "set_by_the_framework", "frozen", "wrapped", "shared"),
}
FROZEN = {"constant_and_frozen": 1, "frozen": 4}  # model → number of weights


@pytest.mark.parametrize("build", ["current", "keras3_torch", "keras3_jax", "tf_2_15", "tf_1_15"])
def test_weights_that_a_model_brings_stay_and_the_losses_are_those_of_plain_keras(
    build: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    write(tmp_path, {"mine.py": MODELS})
    config = certificate_job("", "lstm", {})["config"]
    config["model"] = {
        "data": {"prepare": f"{tmp_path}/mine.py:prepare"},
        "batch": 16,
        "optimizer": {"name": "adam", "learning_rate": 0.01},
        "loss": "binary_crossentropy",
    }
    config |= {"rnn": {"implementation": "keras"}, "build": settings_of(build)}
    names = SOME.get(build, ())
    arguments = (TRAINED, json.dumps(config), tmp_path / "mine.py", *names)
    results = answer_of(build, *arguments, temporary=tmp_path_factory)
    if build != "tf_1_15":
        normalized = results.pop("normalized")
        assert {"normalization/mean", "normalization/variance"} <= set(normalized["equal"])
        assert normalized["losses"] == pytest.approx(normalized["of_keras"], rel=1e-5)
    assert set(results) == set(KEPT) & set(names or KEPT)
    for name, result in results.items():
        equal = {re.sub(r"_\d+/", "/", each) for each in result["equal"]}
        assert equal & DRAWN == set(KEPT[name]), name
        assert result["losses"] == pytest.approx(result["of_keras"], rel=1e-5), name
        assert result["trained"].count(False) == FROZEN.get(name, 0), name
        # Embedding, recurrent layer and Dense, and the Dense that is called twice.
        assert result["weights"] == [8 if name == "shared" else 6] * 2, name
