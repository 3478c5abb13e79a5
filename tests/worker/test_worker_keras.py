"""What Keras itself does, where the documentation or a comment says so."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy
import pytest

from rnnbench.grid.keras_names import LOSSES, METRICS
from rnnworker.frameworks import keras_checks
from tests.worker.building import answer_of

ACTIVITY = """
import json
import keras
import numpy

found = {}
for name in ("SimpleRNN", "LSTM", "GRU"):
    layer = getattr(keras.layers, name)(4, activity_regularizer="l2")
    layer(numpy.ones((2, 5, 3), "float32"))
    found[name] = len(layer.losses)
try:
    keras.layers.SimpleRNN(4, implementation=1)
    found["implementation"] = None
except ValueError as error:
    found["implementation"] = str(error)
print(json.dumps(found))
"""


def test_what_simple_rnn_of_keras_3_ignores_and_refuses(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """`rnnworker.options` does not offer these; docs/models.md has the exception."""
    found = answer_of("current", ACTIVITY, temporary=tmp_path_factory)
    assert (found["SimpleRNN"], found["LSTM"], found["GRU"]) == (0, 1, 1)
    assert "Unrecognized keyword arguments" in found["implementation"]


BY_NAME = """
import json
from tensorflow import keras

found = {}
for name in ("adam", "adamw", "lion"):
    try:
        found[name] = type(keras.optimizers.get(name)).__module__
    except ValueError:
        found[name] = None
from rnnworker import optimizers
for name in ("adam", "adamw", "lion"):
    optimizer = optimizers.for_keras_3(keras, {"name": name, "learning_rate": 0.5})
    found[name + " by class"] = type(optimizer).__module__
print(json.dumps(found))
"""


def test_keras_2_15_knows_fewer_optimizers_by_name_than_it_has(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    found = answer_of("tf_2_15", BY_NAME, temporary=tmp_path_factory)
    assert found["adam"] == found["adam by class"] == "keras.src.optimizers.adam"
    assert found["adamw"] is None and found["adamw by class"] == "keras.src.optimizers.adamw"
    assert found["lion"] is None and found["lion by class"] == "keras.src.optimizers.lion"


COUNTED = """
import json
import keras
import numpy

calls = []


class Counted(keras.layers.LSTM):
    def inner_loop(self, *arguments, **settings):
        calls.append(1)
        return super().inner_loop(*arguments, **settings)


found = {}
for jit_compile in (True, False):
    model = keras.Sequential([keras.Input((5, 3)), Counted(4), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=jit_compile)
    x, y = numpy.ones((64, 5, 3), "float32"), numpy.ones((64, 1), "float32")
    model.fit(x, y, batch_size=8, epochs=1, verbose=0)
    calls.clear()
    model.fit(x, y, batch_size=8, epochs=2, verbose=0)
    found[str(jit_compile)] = len(calls)
print(json.dumps(found))
"""


def test_keras_on_jax_compiles_a_step_only_if_it_is_told_so(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Why a build of jax needs ``jit_compile: true``: in 16 steps of a model that is traced
    already, Python calls the layer 0 or 16 times."""
    found = answer_of("keras3_jax", COUNTED, temporary=tmp_path_factory)
    assert found == {"True": 0, "False": 16}


STATES = """
import json
import keras
import numpy

units = {"kernel_initializer": "zeros", "recurrent_initializer": "ones", "bias_initializer": "ones"}
counter = keras.layers.SimpleRNN(1, "linear", stateful=True, **units)
model = keras.Sequential([keras.Input(batch_shape=(1, 3, 1)), counter])
model.compile("sgd", "mse")
steps = numpy.zeros((1, 3, 1), "float32")
found = {}
for name, answers in (
    ("predict", [model.predict(steps, verbose=0) for _ in range(2)]),
    ("call", [model(steps) for _ in range(2)]),
):
    found[name] = [float(numpy.asarray(answer).item()) for answer in answers]
print(json.dumps(found))
"""


def test_only_a_direct_call_keeps_states_on_jax(tmp_path_factory: pytest.TempPathFactory) -> None:
    """`findings/stateful_layers_forget_in_predict_on_jax.sh`: each call counts three steps on."""
    found = answer_of("keras3_jax", STATES, temporary=tmp_path_factory)
    assert found == {"predict": [3, 3], "call": [3, 6]}


SIZES = """
import json
import keras
import numpy

sizes = []


class Seen(keras.layers.Layer):
    def call(self, inputs):
        sizes.append(inputs.shape[0])
        return inputs


found = {}
for samples in (64, 60):
    model = keras.Sequential([keras.Input((3,)), Seen(), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x, y = numpy.ones((samples, 3), "float32"), numpy.ones((samples, 1), "float32")
    sizes.clear()
    model.fit(x, y, batch_size=32, epochs=2, verbose=0)
    found[samples] = list(sizes)
from rnnworker.frameworks.keras3_tensorflow import size_of_batches
ours = [size_of_batches((numpy.ones((samples, 3)),), 32) for samples in (64, 60)]
print(json.dumps([found[64], found[60], ours]))
"""


def test_a_fit_with_arrays_knows_the_size_of_whole_batches_only(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """`findings/one_odd_sample_takes_the_batch_size_from_fit.sh`; the worker's pipeline does the
    same."""
    whole, odd, ours = answer_of("current", SIZES, temporary=tmp_path_factory)
    assert whole == [32] and odd == [None] and ours == [32, None]


METRICS_BY_NAME = """
import json, sys
from tensorflow import keras

refused = []
for name in json.loads(sys.argv[1]):
    try:
        keras.metrics.get(name)
    except (TypeError, ValueError):
        refused.append(name)
print(json.dumps(refused))
"""


def test_every_metric_that_a_model_may_name_is_known_to_some_keras(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The names of losses are metrics in Keras 2.15, but not all of them in Keras 3.15."""
    names = json.dumps(METRICS)
    refused = {}
    for build in ("current", "tf_2_15"):
        refused[build] = set(answer_of(build, METRICS_BY_NAME, names, temporary=tmp_path_factory))
    assert refused["tf_2_15"] == {"bce"}
    # `compile` itself understands "acc".
    assert refused["current"] - {"acc"} < set(LOSSES) and "huber" in refused["current"]
    assert refused["current"] & refused["tf_2_15"] == set()


@pytest.mark.parametrize(
    ("stated", "given", "fits"),
    [
        ((10, 4), (10, 4), True),
        ((None, 4), (9, 4), True),
        ((10, 4), (10, 5), False),
        ((10, 4), (10,), False),  # a table in place of sequences
        ((10,), (10, 4), False),
        ((10, 1), (10,), True),  # Keras adds the axis
        ((10,), (10, 1), True),
        ((), (1,), True),
    ],
)
def test_samples_of_another_shape_are_refused(stated, given, fits) -> None:
    session = SimpleNamespace(
        function="mine.py:build",
        model=SimpleNamespace(inputs=[SimpleNamespace(shape=(None, *stated))]),
        arrays={"x_train": numpy.ones((3, *given))},
    )
    if fits:
        return keras_checks._check_shape(session)
    with pytest.raises(keras_checks.Refusal, match="takes samples of the shape"):
        keras_checks._check_shape(session)
