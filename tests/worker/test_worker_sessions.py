"""What sessions of real frameworks report and set: the kernel of a small model after any number of
training steps, the products of a model, and memory of a card that is allocated as needed.

TensorFlow considers its ops cheap after a while, and on a GPU from the beginning, and then reports
them only at the profiler's level 3. It accepts memory growth only before it opens the card
(``Physical devices cannot be modified after being initialized``,
tensorflow/python/eager/context.py, ``set_memory_growth``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rnnworker import frameworks
from rnnworker.arguments import Refusal
from tests.worker.building import answer_of, certificate_job, settings_of, write

ATTESTED = """
import json, sys
from rnnworker import frameworks

session = frameworks.open_session(json.loads(sys.argv[1]), 1)
session.load_data(None)
session.build()
session.load_weights(session.dump_weights())
kernels = []
for steps in (1, 60):
    session.train_steps(steps)
    kernels.append(session.attest())
shapes = session.layer_shapes(session.recurrent.layers[0])
print(json.dumps([kernels, [[int(size) for size in shape] for shape in shapes]]))
"""
PADDED = {
    "function": "rnnworker.models.padded:build",
    "data": {"prepare": "rnnworker.models.padded:prepare"},
    **{"padding": "right", "words": 50, "embedding": 4, "loss": "binary_crossentropy"},
}


@pytest.mark.parametrize("build", ["current", "tf_1_15"])
def test_the_kernel_of_a_small_model_is_found_and_its_mask_is_a_reason_against_cudnn(
    build: str, tmp_path_factory
) -> None:
    config = certificate_job("", "lstm", {}, sequence=20, units=16, **PADDED)["config"]
    config.update(rnn={"implementation": "auto"}, build=settings_of(build))
    del config["model"]["features"]  # of MODEL; no function of this model reads it
    arguments = (ATTESTED, json.dumps(config))
    kernels, shapes = answer_of(build, *arguments, temporary=tmp_path_factory)
    assert [each["found"] for each in kernels] == [["while"], ["while"]]
    assert shapes == [[20, 4], [16]], "the mask is not an input"
    assert "the inputs are masked and may not be right-padded" in kernels[0]["why_not_cudnn"]


MASKS = """
import json
import keras
from rnnworker.frameworks.keras_facts import is_masked

layers = keras.layers
masked = layers.Embedding(9, 3, mask_zero=True)(layers.Input((None,), dtype="int32"))
plain = layers.Input((None, 3))
mask = layers.Input((None,), dtype="bool")
states = [layers.Input((4,)), layers.Input((4,))]
calls = [
    (masked, {}),
    (plain, {"mask": mask}),
    (plain, {"initial_state": states}),
    (masked, {"initial_state": states}),
]
found = []
for inputs, settings in calls:
    layer = layers.LSTM(4)
    layer(inputs, **settings)
    found.append(is_masked(layer))
print(json.dumps(found))
"""


def test_initial_states_are_no_mask(tmp_path_factory) -> None:
    found = answer_of("current", MASKS, temporary=tmp_path_factory)
    # Keras 3 passes no mask to a layer that is called with initial states.
    assert found == [True, True, False, False]


def test_tensorflow_1_is_refused_with_the_behavior_of_tensorflow_2(monkeypatch) -> None:
    monkeypatch.setenv("TF2_BEHAVIOR", "1")
    config = {"build": settings_of("tf_1_15"), "device": {"kind": "cpu"}}
    with pytest.raises(Refusal, match=r"TF2_BEHAVIOR is set, .*: unset"):
        frameworks.open_session(config, 1)


MEMORY_IN_TENSORFLOW = """
import json, sys
import tensorflow
from tensorflow.python.eager import context

config, calls = tensorflow.config, []
cards = config.list_physical_devices
config.list_physical_devices = lambda kind=None: ["card"] if kind == "GPU" else cards(kind)
config.experimental.get_device_details = lambda card: {"device_name": card}
config.experimental.set_memory_growth = lambda card, on: calls.append(
    [card, on, context.context()._initialized]
)
from rnnworker import frameworks

session = frameworks.open_session(json.loads(sys.argv[1]), 1)
print(json.dumps({"calls": calls, "cards": session.device_facts()["framework_cards"]}))
"""
MEMORY_IN_JAX = """
import json, os, sys
from rnnworker import frameworks

session = frameworks.open_session(json.loads(sys.argv[1]), 1)
print(json.dumps(os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"]))
"""


def test_the_memory_of_a_card_grows_in_tensorflow(tmp_path_factory) -> None:
    arguments = (MEMORY_IN_TENSORFLOW, json.dumps(on_gpu("current")))
    result = answer_of("current", *arguments, temporary=tmp_path_factory)
    assert result == {"calls": [["card", True, False]], "cards": ["card"]}


def test_the_memory_of_a_card_grows_in_jax(tmp_path_factory, monkeypatch) -> None:
    monkeypatch.delenv("XLA_PYTHON_CLIENT_PREALLOCATE", raising=False)
    arguments = (MEMORY_IN_JAX, json.dumps(on_gpu("keras3_jax")))
    assert answer_of("keras3_jax", *arguments, temporary=tmp_path_factory) == "false"


def on_gpu(build: str) -> dict[str, Any]:
    return {"device": {"kind": "gpu"}, "build": settings_of(build)}


PRODUCTS = """
import json, sys
from rnnworker import frameworks, products

facts = []
for feed in ("host", "device"):
    settings = json.loads(sys.argv[1])
    settings["device"]["feed"] = feed
    session = frameworks.open_session(settings, 1)
    session.build()
    facts.append(products.facts_of(session, session.layers()))
print(json.dumps(facts))
"""


def test_the_products_of_a_real_model(tmp_path_factory) -> None:
    settings = certificate_job("keras3_tensorflow", "lstm", {}, sequence=8, features=8, units=64)
    config = {**settings["config"], "rnn": {"implementation": "keras"}}
    counted = answer_of("current", PRODUCTS, json.dumps(config), temporary=tmp_path_factory)
    forward = 2 * (8 * (8 * 256 + 64 * 256) + 64 * 10)
    assert counted == [{"flops_per_sample": 3 * forward, "timesteps": 8}] * 2


STOPPING = """
def build(keras):
    class Stopping(keras.models.Model):
        taken = 0

        def make_train_function(self, force=False):
            if self.train_function is not None and not force:
                return
            super().make_train_function(force)
            step = self.train_function

            def counted(*values):
                self.taken += 1
                if self.taken == STEP:
                    self.stop_training = True
                return step(*values)

            self.train_function = counted

    inputs = keras.layers.Input((5, 3))
    model = Stopping(inputs, keras.layers.Dense(10)(keras.layers.LSTM(4)(inputs)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss)
    return model
"""
TRAINED_TO_THE_END = """
import json, sys
from rnnworker import frameworks
from rnnworker.arguments import Refusal
from rnnworker.events import Events
from rnnworker.turns import Turns

session = frameworks.open_session(json.loads(sys.argv[1]), 1)
session.load_data(None)
session.build()
session.load_weights(session.dump_weights())
session.train_steps(1)
epochs, why = [], None
with open(sys.argv[2], "wb") as file:
    try:
        session.fit(epochs.append, lambda: None, Turns(Events(file.fileno())))
    except Refusal as error:
        why = str(error)
print(json.dumps([len(epochs), why]))
"""


@pytest.mark.parametrize("step", [9, 10, None])
def test_a_training_that_the_model_ends_is_refused(
    step: int | None, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """After 6 untimed steps, within the first of two epochs of 4 steps, at its end, and never."""
    write(tmp_path, {"mine.py": STOPPING.replace("STEP", str(step))})
    config = certificate_job("", "of_model", {})["config"]
    config |= {"rnn": {"implementation": "keras"}, "build": settings_of("current")}
    model = {key: config["model"][key] for key in ("batch", "sequence", "features", "data")}
    model |= {"train_samples": 64, "val_samples": 32, "data_seed": 0, "epochs": 2}
    config["model"] = model | {"function": f"{tmp_path}/mine.py:build"}
    arguments = (TRAINED_TO_THE_END, json.dumps(config), tmp_path / "events")

    trained, why = answer_of("current", *arguments, temporary=tmp_path_factory)

    assert trained == (0 if step else 2)
    assert (why is None) == (step is None)
    assert why is None or why.startswith(f"{tmp_path}/mine.py:build: the model sets stop_training")


LOOPS = """
def build(keras):
    layers = keras.layers
    inputs = layers.Input(batch_shape=(16, 5, 3))
    loop = layers.RNN(layers.LSTMCell(4), stateful=True, return_sequences=True)(inputs)
    cells = [layers.LSTMCell(4), layers.GRUCell(2)]
    stacked = keras.Sequential([layers.RNN(cells, stateful=True)])(loop)
    return keras.Model(inputs, layers.Dense(10, activation="softmax")(stacked))
"""
LARGEST_STATES = """
import json, sys
import numpy
from rnnworker import frameworks
from rnnworker.recurrent.composed import flat

session = frameworks.open_session(json.loads(sys.argv[1]), 1)
session.load_data(None)
session.build()
session.load_weights(session.dump_weights())


def largest():
    layers = [each for each in flat(session.model.layers) if getattr(each, "stateful", False)]
    states = [session.keras.tree.flatten(layer.states) for layer in layers]
    return [max(float(abs(session.as_numpy(each)).max()) for each in held) for held in states]


session.train_steps(2)
trained = largest()
session.reset()
print(json.dumps([trained, largest()]))
"""


@pytest.mark.parametrize("build", ["current", "keras3_torch"])
def test_states_of_a_loop_of_the_model_s_own_are_zero_before_a_training(
    build: str, tmp_path: Path, tmp_path_factory
) -> None:
    """Those of a stack of cells too, for which Keras 3.15's reset_state raises AttributeError."""
    write(tmp_path, {"loops.py": LOOPS})
    config = certificate_job("", "of_model", {}, function=f"{tmp_path}/loops.py:build")["config"]
    config.update(rnn={"implementation": "keras"}, build=settings_of(build))
    for key in ("units", "recurrent_dropout"):  # of MODEL; no function of this model reads them
        del config["model"][key]
    arguments = (LARGEST_STATES, json.dumps(config))
    trained, reset = answer_of(build, *arguments, temporary=tmp_path_factory)
    assert len(trained) == 2 and min(trained) > 1e-3
    assert reset == [0.0, 0.0]


AGAIN = """
import json, sys
import numpy
from rnnworker import frameworks
from rnnworker.events import Events
from rnnworker.turns import Turns

session = frameworks.open_session(json.loads(sys.argv[1]), 1)
session.load_data(None)
session.build()
session.load_weights(session.dump_weights())
session.train_steps(1)
epochs, validations, after = [], [], []
evaluate = session.evaluate
session.evaluate = lambda: validations.append(1) or evaluate()
with open(sys.argv[2], "wb") as file:
    turns = Turns(Events(file.fileno()))
    for again in (0, 1, 3):
        session.fit(epochs.append, lambda: None, turns, again=again)
        after.append(numpy.concatenate([
            value.ravel() for layer in session.dump_weights() for value in layer.values()
        ]))
apart = [float(abs(after[0] - other).max()) for other in after[1:]]
print(json.dumps([len(epochs), len(validations), apart]))
"""


@pytest.mark.parametrize("build", ["current", "keras3_jax", "keras3_torch", "tf_1_15"])
def test_further_trainings_begin_with_the_same_weights(
    build: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Three of them end where the first one did: each has the same steps, and Adam's moments are
    those of a new optimizer."""
    config = certificate_job(settings_of(build)["framework"], "lstm", {})["config"]
    config |= {"rnn": {"implementation": "keras"}, "build": settings_of(build)}
    config["model"] |= {"train_samples": 64, "val_samples": 32, "epochs": 2}
    arguments = (AGAIN, json.dumps(config), tmp_path / "events")

    epochs, validations, apart = answer_of(build, *arguments, temporary=tmp_path_factory)

    assert epochs == 2, "of the first training"
    assert validations == 3, "before and after each epoch of the first training"
    assert max(apart) < 1e-6
