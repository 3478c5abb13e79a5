"""What a model asks of its recurrent layers, its weights and its training is what plain Keras makes
of the same arguments, or it is refused; nothing is ignored."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from rnnworker import arguments, model_keys
from rnnworker.options import IMPLEMENTATIONS, IN_PLACE, WITHOUT_LAYERS
from tests.conftest import ROOT
from tests.worker.building import answer, certificate_job, write

WITH_OWN_WEIGHTS = [name for name in IMPLEMENTATIONS if name not in (*IN_PLACE, *WITHOUT_LAYERS)]

# Every implementation that runs on a CPU in this build, against plain Keras, over the constructor's
# arguments: outputs, the loss with its penalties, and the weights after a training step.
PROPERTY = '''
import json, warnings
import numpy
from hypothesis import HealthCheck, given, settings, strategies as st
import keras
from rnnworker.arguments import Refusal
from rnnworker.recurrent import Recurrent, cells, in_place

LAYERS = {"lstm": "LSTM", "gru": "GRU", "gru_reset_before": "GRU", "rnn_tanh": "SimpleRNN"}
NAMES = ("keras", "unrolled", "cell", "block", "block_cell", "cudnn_compatible")
LOOPS = NAMES[:3]  # they can compute all that Keras can
GATES = {"recurrent_activation": st.sampled_from(["sigmoid", "hard_sigmoid", "tanh"])}
booleans, penalties = st.booleans(), st.sampled_from([None, "l2", keras.regularizers.L1(0.1)])
constraints = st.sampled_from([None, "non_neg", "unit_norm"])
FREE = {
    "activation": st.sampled_from(["tanh", "relu", "elu", None, keras.activations.relu]),
    "use_bias": booleans, "return_sequences": booleans, "go_backwards": booleans,
    "kernel_regularizer": penalties, "recurrent_regularizer": penalties,
    "bias_regularizer": penalties, "activity_regularizer": penalties,
    "kernel_constraint": constraints, "recurrent_constraint": constraints,
    "bias_constraint": constraints, "dropout": st.sampled_from([0.0, 0.3]),
    "recurrent_dropout": st.sampled_from([0.0, 0.3]), "seed": st.sampled_from([None, 3]),
    "kernel_initializer": st.sampled_from(["zeros", "he_normal"]),
    **GATES,
}
# Never accepted with these values, or not at all.
REFUSED = {
    "weights": st.just("mine"), "time_major": st.just(True),
    "activaton": st.just("relu"), "op": st.just("CudnnRNNV3"),
}
x = numpy.random.RandomState(0).normal(size=(4, 3, 2)).astype("float32")
counts = {"agreed": 0, "refused": 0}


def plain(cell, arguments):
    fixed = {"gru": {"reset_after": True}, "gru_reset_before": {"reset_after": False}}
    return getattr(keras.layers, LAYERS[cell])(2, **arguments, **fixed.get(cell, {}))


def result(layer, arrays, stochastic, kernel=None):
    """Outputs, loss, and the weights after a step, of a layer whose weights are `arrays`."""
    inputs = keras.layers.Input(shape=(3, 2))
    model = keras.Model(inputs, layer(inputs))
    if kernel:
        in_place.give(keras, model, kernel, lambda layer: None)
    model.compile(loss="mse", optimizer=keras.optimizers.SGD(0.1), run_eagerly=True)
    cells.from_canonical(layer, arrays)
    outputs = numpy.asarray(model(x))
    if stochastic:
        return [outputs]
    loss = model.train_on_batch(x, numpy.ones_like(outputs))
    after = cells.to_canonical(layer)
    return [outputs, numpy.asarray(loss)] + [after[name] for name in sorted(after)]


@settings(max_examples=60, deadline=None, derandomize=True, database=None,
          suppress_health_check=list(HealthCheck))
@given(st.sampled_from(sorted(LAYERS)), st.fixed_dictionaries({}, optional=FREE),
       st.fixed_dictionaries({}, optional=REFUSED) | st.just({}))
def agrees_or_refuses(cell, free, refused):
    keras.utils.clear_session()
    if cell == "rnn_tanh":
        free.pop("recurrent_activation", None)
        free.pop("activity_regularizer", None)  # Keras's SimpleRNN ignores it
    stochastic = bool(free.get("dropout") or free.get("recurrent_dropout"))
    original = plain(cell, free)
    original.build((None, 3, 2))
    stream = numpy.random.RandomState(1)
    arrays = {}
    for array, values in cells.to_canonical(original).items():
        arrays[array] = stream.normal(0, 0.5, values.shape).astype("float32")
    expected = result(plain(cell, free), arrays, stochastic), arrays
    for name in NAMES:
        rnn = {"implementation": name, "name": name}
        config = {"cell": {"name": cell}, "rnn": rnn, "build": {"framework": "keras3_tensorflow"}}
        try:
            layers = Recurrent(keras, config)
            layer = layers(2, **free, **refused)
            found = result(layer, expected[1], stochastic, layers.kernel)
        except Refusal as error:
            counts["refused"] += 1
            assert name not in LOOPS or refused, (name, cell, free, str(error))
            continue
        assert not refused, (name, refused)
        for ours, theirs in zip(found, expected[0]):
            assert ours.shape == theirs.shape, (name, cell, free)
            assert numpy.allclose(ours, theirs, atol=2e-5), (name, cell, free, ours, theirs)
        counts["agreed"] += 1


agrees_or_refuses()
print(json.dumps(counts))
'''


def test_every_implementation_agrees_with_plain_keras_or_refuses() -> None:
    counts = answer(sys.executable, PROPERTY, timeout=900)
    assert counts["agreed"] > 50 and counts["refused"] > 50, counts


def config(name: str, cell: str = "lstm", **rnn) -> dict:
    rnn = {"implementation": name, "name": name, **rnn}
    return {"cell": {"name": cell}, "rnn": rnn, "build": {"framework": "keras3_tensorflow"}}


@pytest.mark.parametrize(
    ("name", "argument", "value", "said"),
    [
        ("cudnn_raw", "activation", "relu", "rnn=cudnn_raw has weights of its own and does not"),
        ("cudnn_raw", "activation", None, "does not support activation=None; keras can"),
        ("cudnn_raw", "kernel_regularizer", "l2", "support kernel_regularizer='l2'; keras can"),
        ("legacy_cudnn", "use_bias", False, "does not support use_bias=False; keras can"),
        ("keras", "unroll", True, "write rnn=unrolled in the grid"),
        ("block", "reset_after", False, "cell=lstm has no reset_after"),
        ("block", "activaton", "relu", "no argument activaton: did you mean activation"),
        ("contrib", "class", "LSTMCell", "a recurrent layer has no argument class"),
        ("/m/mine.py", "activation", "relu", "list activation in options of its YAML"),
    ],
)
def test_a_refusal_says_what_can(name: str, argument: str, value, said: str) -> None:
    reason = arguments.refusal(config(name), argument, value, name in IN_PLACE)
    assert reason is not None and said in reason


def test_a_kernel_in_place_takes_what_keras_takes() -> None:
    """What it cannot compute, it refuses in the built model."""
    for name in IN_PLACE:
        taken = {"activation": "relu", "use_bias": False, "return_state": True, "stateful": True}
        taken |= {"kernel_regularizer": "l2", "seed": 3, "recurrent_dropout": 0.5}
        for argument, value in taken.items():
            assert arguments.refusal(config(name), argument, value, True) is None, (name, argument)


def test_a_value_that_changes_nothing_is_no_reason_to_refuse() -> None:
    plain = {"activation": "tanh", "recurrent_activation": "sigmoid", "use_bias": True}
    plain |= {"stateful": False, "dropout": 0.0, "kernel_regularizer": None, "unroll": False}
    for name in (*IN_PLACE, *WITH_OWN_WEIGHTS):
        for argument, value in plain.items():
            reason = arguments.refusal(config(name), argument, value, name in IN_PLACE)
            assert reason is None, (name, argument)
    assert arguments.refusal(config("keras", "gru"), "reset_after", True, True) is None
    assert arguments.refusal(config("block", "gru"), "reset_after", False, True) is not None
    assert arguments.refusal(config("mine", "rnn_relu"), "activation", "relu") is None
    assert arguments.refusal(config("mine", "rnn_tanh"), "recurrent_activation", "sigmoid")


def test_a_key_of_the_model_that_no_function_reads_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(model_keys, "_read", {})
    model = {"name": "mine", "function": "mine.py:build", "batch": 8, "units": 4, "shuffle": True}
    settings = {"model": {**model, "dropot": 0.2, "width": 3}}
    model_keys.recorded(settings, "prepare")["model"]["units"]
    model_keys.check(settings)  # build was not called yet
    model_keys.recorded(settings, "build")["model"].get("width")
    with pytest.raises(arguments.Refusal, match="passes no shuffle to Keras's fit: remove it"):
        model_keys.check(settings)
    dict(model_keys.recorded(settings, "augment")["model"])
    del settings["model"]["shuffle"]
    model_keys.check(settings)  # the line above has read all of them
    monkeypatch.setattr(model_keys, "_read", {"prepare": {"units"}, "build": {"width"}})
    with pytest.raises(arguments.Refusal, match="model=mine has the key dropot, which none"):
        model_keys.check(settings)


# A model of rnnbench and the same of plain Keras; what the model itself sets must be equal.
MODELS = {
    "frozen": (
        "recurrent(4)(embedded(keras)(inputs))",
        "keras.layers.LSTM(4)(embedded(keras)(inputs))",
    ),
    "set_weights": (
        "recurrent(4)(set_by_hand(keras)(inputs))",
        "keras.layers.LSTM(4)(set_by_hand(keras)(inputs))",
    ),
    "no_bias": (
        "recurrent(4, use_bias=False)(one(keras)(inputs))",
        "keras.layers.LSTM(4, use_bias=False)(one(keras)(inputs))",
    ),
    "relu": (
        "recurrent(4, activation='relu')(one(keras)(inputs))",
        "keras.layers.LSTM(4, activation='relu')(one(keras)(inputs))",
    ),
    "l2": (
        "recurrent(4, kernel_regularizer='l2')(one(keras)(inputs))",
        "keras.layers.LSTM(4, kernel_regularizer='l2')(one(keras)(inputs))",
    ),
    "own_compile": ("recurrent(4)(one(keras)(inputs))", "keras.layers.LSTM(4)(one(keras)(inputs))"),
}
MODEL = """
import numpy
VECTORS = numpy.arange(24.0).reshape(8, 3) / 10


def prepare(source, config):
    x = numpy.random.RandomState(0).randint(0, 8, (64, 5)).astype("int32")
    y = (x.sum(1) > 17).astype("float32").reshape(-1, 1)
    return {"x_train": x[:48], "y_train": y[:48], "x_val": x[48:], "y_val": y[48:]}


def embedded(keras):
    constant = keras.initializers.Constant(VECTORS)
    return keras.layers.Embedding(8, 3, embeddings_initializer=constant, trainable=False)


def one(keras):
    return keras.layers.Embedding(8, 3)


def set_by_hand(keras):
    layer = keras.layers.Embedding(8, 3)
    layer.build((None, 5))
    layer.set_weights([VECTORS])
    return layer


def build(keras, recurrent, config):
    inputs = keras.layers.Input(shape=(5,), dtype="int32")
    model = keras.models.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(RECURRENT))
    COMPILE
    return model


def plain(keras):
    inputs = keras.layers.Input(shape=(5,), dtype="int32")
    return keras.models.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(PLAIN))
"""
OWN_COMPILE = (
    "model.compile(optimizer=keras.optimizers.SGD(0.3), loss=lambda t, p: 10 * (t - p) ** 2)"
)
LOSSES = """
import json, sys
import numpy
from rnnworker import certify, data, frameworks, user_functions

results = {}
for name, config in json.loads(sys.argv[1]).items():
    session = frameworks.open_session(config, 1)
    session.load_data(None)
    session.build()
    session.load_weights(session.dump_weights())
    keras, function = session.keras, config["model"]["function"].rpartition(":")[0]
    plain = user_functions.function(function + ":plain")(keras)
    if name in ("frozen", "set_weights"):
        ours = numpy.asarray(session.model.layers[1].get_weights()[0])
        assert numpy.array_equal(ours, numpy.asarray(plain.layers[1].get_weights()[0])), name
    plain.set_weights(session.model.get_weights())
    if name == "own_compile":
        sgd = keras.optimizers.SGD(0.3)
        plain.compile(optimizer=sgd, loss=lambda t, p: 10 * (t - p) ** 2)
    else:
        plain.compile(optimizer=keras.optimizers.Adam(0.01), loss="binary_crossentropy")
    batches = list(certify.first_batches(session.arrays, config, 12))
    ours = [session.train_batch(*batch) for batch in batches]
    theirs = []
    for x, y in batches:
        plain.reset_metrics()
        theirs.append(float(plain.train_on_batch(x, y)))
    results[name] = [ours, theirs]
print(json.dumps(results))
"""


def test_rnn_keras_and_plain_keras_reach_the_same_losses(tmp_path: Path) -> None:
    configs = {}
    for name, (recurrent, plain) in MODELS.items():
        text = MODEL.replace("RECURRENT", recurrent).replace("PLAIN", plain)
        text = text.replace("COMPILE", OWN_COMPILE if name == "own_compile" else "")
        write(tmp_path, {f"{name}.py": text})
        (job,) = [certificate_job("keras3_tensorflow", "lstm", {})]
        model = {"function": f"{tmp_path}/{name}.py:build", "batch": 16, "epochs": 1}
        model["data"] = {"prepare": f"{tmp_path}/{name}.py:prepare"}
        if name != "own_compile":
            model["optimizer"] = {"name": "adam", "learning_rate": 0.01}
            model["loss"] = "binary_crossentropy"
        rnn = {"implementation": "keras", "name": "keras"}
        configs[name] = {**job["config"], "model": model, "rnn": rnn}
    results = answer(sys.executable, LOSSES, json.dumps(configs))
    assert set(results) == set(MODELS)
    for name, (ours, theirs) in results.items():
        assert ours == pytest.approx(theirs, rel=1e-5), name
        assert ours[-1] != ours[0], name


def test_the_page_about_models_has_the_table_that_the_refusals_read() -> None:
    page = (ROOT / "docs" / "models.md").read_text()
    implementations, _, page = page.partition("| argument of `recurrent` |")
    for name in IN_PLACE:
        assert re.search(rf"^\| [^|]*`{name}`", implementations, re.M), name
    rows = [line.split("|")[1:3] for line in page.splitlines() if line.startswith("| `")]
    stated = {}
    for names, able in rows:
        for name in names.replace("`", "").split(","):
            stated[name.strip()] = able.replace("`", "").strip()
    for argument in arguments.known_arguments():
        if argument in arguments.DECIDED or argument in arguments.NOWHERE:
            continue
        able = [name for name in WITH_OWN_WEIGHTS if arguments.supports(config(name), argument)]
        expected = ", ".join(able) or "none of them"
        if len(able) == len(WITH_OWN_WEIGHTS):
            expected = "all of them"
        assert stated.pop(argument) == expected, argument
    assert stated == arguments.DECIDED
    assert all(f"`{argument}`" in page for argument in arguments.NOWHERE)
