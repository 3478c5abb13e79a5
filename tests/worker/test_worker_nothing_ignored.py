"""What a model's `prepare`, `build` and YAML hold is trained exactly as plain Keras trains it, or
it is refused in one sentence that names the file and the key."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.worker.building import answer, certificate_job, write

# The functions of a model, which the properties below choose for each example.
MODEL = """
prepared, built = {}, None


def prepare(source, config):
    for key in read_by_prepare:
        config["model"].get(key)
    return prepared


def build(keras, recurrent, config):
    return built(keras, recurrent)


read_by_prepare = ()
"""
PROPERTY = '''
import json, sys
import numpy
from hypothesis import HealthCheck, given, settings, strategies as st
import keras
from rnnworker import certify, frameworks, model_keys, user_functions

config, file = json.loads(sys.argv[1]), sys.argv[2]
mine = user_functions.from_file(file)
from_file = user_functions.from_file
user_functions.from_file = lambda path, *more: mine if path == file else from_file(path, *more)
stream = numpy.random.RandomState(0)
x = stream.normal(size=(40, 4, 3)).astype("float32")
y = (x.sum((1, 2)) > 0).astype("float32")
PLAIN = {"x_train": x[:32], "y_train": y[:32], "x_val": x[32:], "y_val": y[32:]}


def changed(name, change):
    def change_arrays(arrays):
        return dict(arrays, **{name: change(arrays[name])})

    return name, change_arrays


def trained(change):
    return None, change[1]


def renamed(name, other):
    def rename(arrays):
        return {other if key == name else key: arrays[key] for key in arrays}

    return other, rename


def with_nan(array):
    array = array.copy()
    array.ravel()[0] = numpy.nan
    return array


# What `prepare` returns: (a word that a refusal must have, change of the right arrays).
CHANGES = {
    "as it should be": (None, dict),
    "an array by another name": renamed("x_train", "x_trian"),
    "no validation": ("y_val", lambda arrays: {k: arrays[k] for k in arrays if k != "y_val"}),
    "x_test too": ("x_test", lambda arrays: dict(arrays, x_test=x)),
    "sample_weight": ("sample_weight", lambda arrays: dict(arrays, sample_weight=y[:32] + 1)),
    "nothing": ("x_train", lambda arrays: None),
    "a tuple of arrays": ("x_train", lambda arrays: tuple(arrays.values())),
    "a dict of inputs": changed("x_train", lambda array: {"inputs": array}),
    "a list of numbers": changed("y_train", lambda array: array.tolist()),
    "a tuple": changed("x_val", lambda array: (array, array)),
    "None": changed("y_val", lambda array: None),
    "a number": changed("y_train", lambda array: 1.0),
    "NaN in the inputs": changed("x_train", with_nan),
    "NaN in the validation targets": changed("y_val", with_nan),
    "infinity": changed("x_val", lambda array: array / 0.0),
    "fewer targets": changed("y_train", lambda array: array[:-3]),
    "more targets": changed("y_train", lambda array: numpy.resize(array, 40)),
    "fewer validation inputs": changed("x_val", lambda array: array[:-3]),
    "no samples": changed("x_train", lambda array: array[:0]),
    "no validation samples": ("val", lambda arrays: dict(arrays, x_val=x[:0], y_val=y[:0])),
    "no training samples": ("train", lambda arrays: dict(arrays, x_train=x[:0], y_train=y[:0])),
    "objects": changed("x_train", lambda array: array.astype(object)),
    "texts": changed("y_train", lambda array: array.astype(str)),
    "objects as targets": changed("y_val", lambda array: array.astype(object)),
    "complex numbers": changed("x_train", lambda array: array.astype("complex64")),
    "doubles": trained(changed("x_train", lambda array: array.astype("float64"))),
    "halves": trained(changed("x_train", lambda array: array.astype("float16"))),
    "whole numbers": trained(changed("y_train", lambda array: array.astype("int64"))),
    "booleans": trained(changed("y_train", lambda array: array.astype(bool))),
    "a column": trained(changed("y_train", lambda array: array.reshape(-1, 1))),
    "two columns": trained(changed("y_train", lambda array: array.reshape(-1, 1).repeat(2, 1))),
    "a scalar array": changed("x_train", lambda array: numpy.float32(0)),
}
LOSS, OPTIMIZER = {"loss": "mse"}, {"optimizer": {"name": "sgd", "learning_rate": 0.1}}
STATED = {
    "both": dict(LOSS, **OPTIMIZER),
    "loss": LOSS,
    "optimizer": OPTIMIZER,
    "neither": {},
}


def functional(keras, recurrent, **options):
    inputs = keras.layers.Input(shape=(4, 3))
    return keras.Model(inputs, keras.layers.Dense(1)(recurrent(2, **options)(inputs)))


def sequential(keras, recurrent):
    dense = keras.layers.Dense(1)
    return keras.Sequential([keras.layers.Input(shape=(4, 3)), recurrent(2), dense])


def compiled(keras, recurrent):
    model = functional(keras, recurrent)
    model.compile(loss="mae", optimizer=keras.optimizers.SGD(0.2))
    return model


def subclassed(keras, recurrent):
    class Mine(keras.Model):
        def __init__(self):
            super().__init__()
            self.hidden, self.dense = recurrent(2), keras.layers.Dense(1)

        def call(self, inputs):
            return self.dense(self.hidden(inputs))

    return Mine()


def own_step(keras, recurrent):
    class Mine(keras.Model):
        def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
            return 3 * super().compute_loss(x, y, y_pred, sample_weight, training)

    inputs = keras.layers.Input(shape=(4, 3))
    return Mine(inputs, keras.layers.Dense(1)(recurrent(2)(inputs)))


def penalized(keras, recurrent):
    inputs = keras.layers.Input(shape=(4, 3))
    dense = keras.layers.Dense(1, kernel_regularizer="l2", activity_regularizer="l1")
    return keras.Model(inputs, dense(recurrent(2)(inputs)))


def two_outputs(keras, recurrent):
    inputs = keras.layers.Input(shape=(4, 3))
    hidden = recurrent(2)(inputs)
    return keras.Model(inputs, [keras.layers.Dense(1)(hidden), keras.layers.Dense(1)(hidden)])


def uncalled(keras, recurrent):
    recurrent(2)
    inputs = keras.layers.Input(shape=(4, 3))
    return keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Flatten()(inputs)))


def without(keras, recurrent):
    inputs = keras.layers.Input(shape=(4, 3))
    return keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Flatten()(inputs)))


def misspelt(keras, recurrent):
    return functional(keras, recurrent, go_backward=True)


# What `build` returns: (a word that a refusal must have, function).
BUILDS = {
    "functional": (None, functional),
    "sequential": (None, sequential),
    "compiled": (None, compiled),
    "subclassed": (None, subclassed),
    "own step": (None, own_step),
    "penalized": (None, penalized),
    "two outputs": ("outputs", two_outputs),
    "nothing": ("NoneType", lambda keras, recurrent: None),
    "a text": ("str", lambda keras, recurrent: "model"),
    "a layer": ("Dense", lambda keras, recurrent: keras.layers.Dense(1)),
    "a layer that is never called": ("recurrent", uncalled),
    "no recurrent layer": ("recurrent", without),
    "a misspelt argument": ("go_backward", misspelt),
}
KEYS = {key: None for key in model_keys.FIT + model_keys.COMPILE}
KEYS.update(dropot=0.2, optimiser="adam", metric=["mae"], batchsize=4, units=3, Loss="mse")


def checked(model):
    """The job of a certificate of `model`, and its arrays; raises what a certificate raises."""
    job = {"config": dict(config, model=model), "dataset": None, "threads": 1, "device": "cpu_1"}
    arrays, _ = certify.samples_of(job)
    fault = certify.not_finite(arrays, model["data"]["prepare"])
    if fault:
        raise ValueError(fault)
    return job, arrays


def losses(model, stated):
    """The losses of our training steps, and those of plain Keras."""
    job, arrays = checked(model)
    session = certify.Trial(job, config["rnn"], arrays).session
    session.load_weights(session.dump_weights())
    plain = mine.built(keras, keras.layers.LSTM)
    plain(arrays["x_train"][:1])
    plain.set_weights(session.model.get_weights())
    if stated:
        plain.compile(loss=stated["loss"], optimizer=keras.optimizers.SGD(0.1))
    batches = list(certify.first_batches(arrays, job["config"], 3))
    ours = [session.train_batch(*batch) for batch in batches]
    of_keras = []
    for batch in batches:
        plain.reset_metrics()
        of_keras.append(float(plain.train_on_batch(*batch)))
    return ours, of_keras


def assert_names(error, words):
    message = user_functions.one_line(error, config["model"]["function"])
    assert file in message and any(word in message for word in words), (message, words)
    assert len(message) < 400, message


for name, (word, change) in CHANGES.items():
    mine.prepared = change(PLAIN)
    try:
        checked(config["model"])
    except Exception as error:
        assert word, (name, str(error))
        assert_names(error, [word])
    else:
        assert not word, name

counts = {"trained": 0, "refused": 0}


@settings(max_examples=40, deadline=None, derandomize=True, database=None,
          suppress_health_check=list(HealthCheck))
@given(
    st.just("as it should be") | st.sampled_from(sorted(CHANGES)),
    st.sampled_from(sorted(BUILDS)),
    st.just("both") | st.sampled_from(sorted(STATED)),
    st.none() | st.sampled_from(sorted(KEYS)),
    st.booleans(),
)
def is_trained_or_refused(prepare, build, states, key, is_read):
    keras.utils.clear_session()
    model_keys._read.clear()
    (of_prepare, change), (of_build, mine.built) = CHANGES[prepare], BUILDS[build]
    mine.prepared, stated = change(PLAIN), STATED[states]
    mine.read_by_prepare = (key,) if is_read else ()
    words = [word for word in (of_prepare, of_build) if word]
    if build == "compiled":
        words += stated
    elif states != "both":
        words += ["loss", "optimizer"]
    keys = {} if key is None else {key: KEYS[key]}
    if keys and not is_read:
        words.append(key)
    try:
        ours, of_keras = losses(dict(config["model"], **keys, **stated), stated)
    except Exception as error:
        assert words, (prepare, build, states, key, str(error))
        assert_names(error, words)
        counts["refused"] += 1
    else:
        assert not words, (prepare, build, states, key, "is ignored")
        assert numpy.allclose(ours, of_keras, rtol=1e-5), (prepare, build, ours, of_keras)
        counts["trained"] += 1


is_trained_or_refused()
print(json.dumps(counts))
'''


def test_a_model_is_trained_as_plain_keras_trains_it_or_refused(tmp_path: Path) -> None:
    write(tmp_path, {"mine.py": MODEL})
    config = certificate_job("keras3_tensorflow", "lstm", {})["config"]
    config["model"] = {
        "function": f"{tmp_path}/mine.py:build",
        "data": {"prepare": f"{tmp_path}/mine.py:prepare"},
        "batch": 8,
    }
    config["rnn"] = {"implementation": "keras", "name": "keras"}
    arguments = (PROPERTY, json.dumps(config), tmp_path / "mine.py")
    counts = answer(sys.executable, *arguments, timeout=900)
    assert counts["trained"] >= 5 and counts["refused"] >= 15, counts
