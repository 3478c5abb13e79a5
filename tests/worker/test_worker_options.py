"""``rnn.options``: each honoured option changes the layer that is built; others are rejected."""

from __future__ import annotations

import json
import sys

import pytest

from rnnbench.grid.keras_names import COMMON_SETTINGS, LOSSES, OPTIMIZERS
from rnnworker import options
from rnnworker.options import IMPLEMENTATIONS
from rnnworker.recurrent import Recurrent
from tests.worker.building import answer, answer_of, settings_of

# Other arguments of Keras's layers, options of other implementations, and a misspelt one.
OTHERS = (
    *("dropout", "kernel_initializer", "unit_forget_bias", "unroll", "use_cudnn"),
    *("reset_after", "stateful", "go_backwards", "activaton", "op", "class", "implementation"),
    *options.OF_THE_FUNCTION,
)
# Build → the implementations whose layers it can make on a CPU.
BUILDS = {
    "current": ("keras", "auto", "cudnn", "cell", "unrolled"),
    "tf_1_15": ("keras", "auto", "cell", "legacy_cudnn"),
    "tf_1_2": ("keras", "auto", "unrolled"),
}
SCRIPT = '''
import json, sys
framework, requests = sys.argv[1], json.loads(sys.argv[2])
if framework == "keras2_tensorflow1":
    import tensorflow
    keras = tensorflow.keras
else:
    import keras
from rnnworker.recurrent import Recurrent

VALUES = {"activation": "relu", "recurrent_activation": "hard_sigmoid", "implementation": 1}
VALUES["use_bias"] = False
if framework == "keras2_tensorflow1":
    VALUES["implementation"] = 2  # the default is 1; it is 2 in Keras 3 and 0 in Keras 2.0.6


def values_in(layer, option):
    """The values of an option in the layer and in the cell inside it; names of functions."""
    holders = [part for part in (layer, getattr(layer, "cell", None)) if hasattr(part, option)]
    values = [getattr(holder, option) for holder in holders]
    return [getattr(value, "__name__", repr(value).partition(" object")[0]) for value in values]


def value_of(option):
    if option.endswith("regularizer"):
        return "l2"
    return "non_neg" if option.endswith("constraint") else VALUES[option]


def layer_of(name, cell, **given):
    rnn = {"implementation": name, "options": given}
    config = {"cell": {"name": cell}, "rnn": rnn, "build": {"framework": framework}}
    return Recurrent(keras, config)(4)


print(json.dumps([
    [
        values_in(layer_of(name, cell, **given), option)
        for given in ({}, {option: value_of(option)})
    ]
    for name, cell, option in requests
]))
'''


def config(name: str, cell: str, framework: str | None, given: tuple[str, ...]) -> dict:
    rnn = {"implementation": name, "options": dict.fromkeys(given)}
    return {"cell": {"name": cell}, "rnn": rnn, "build": {"framework": framework}}


@pytest.mark.parametrize("build", BUILDS)
def test_an_honoured_option_changes_the_layer(
    build: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    framework = settings_of(build)["framework"]
    requests = [
        (name, cell, option)
        for name in BUILDS[build]
        for cell in ("lstm", "rnn_tanh")
        if not (name.endswith("cudnn") and cell == "rnn_tanh")
        for option in options.honoured(config(name, cell, framework, ())) or ()
        if option != options.LONGEST  # it only refuses, see test_worker_unrolled
    ]
    arguments = (SCRIPT, framework, json.dumps(requests))
    results = answer_of(build, *arguments, temporary=tmp_path_factory)
    found = dict(zip(requests, results, strict=True))
    assert {request for request, (plain, other) in found.items() if plain == other} == set()
    activation = [values[0] for values in found["keras", "lstm", "activation"]]
    assert activation == ["tanh", "relu"]


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn_relu"])
def test_the_worker_rejects_every_other_option(name: str, cell: str) -> None:
    for framework in (None, "keras3_torch", "keras2_tensorflow1", "keras206_tensorflow1"):
        known = options.honoured(config(name, cell, framework, ()))
        for option in OTHERS:
            requested = config(name, cell, framework, (option,))
            if option in known:
                Recurrent(None, requested)
                continue
            honoured = ", ".join(known) or "no options"
            message = f"{name} does not honour rnn.options.{option}: it honours {honoured}"
            with pytest.raises(ValueError, match=message):
                Recurrent(None, requested)


def test_implementation_is_an_option_only_if_it_has_an_effect() -> None:
    def has(name: str, cell: str, framework: str) -> bool:
        return "implementation" in options.honoured(config(name, cell, framework, ()))

    assert has("keras", "lstm", "keras3_jax")
    assert not has("keras", "rnn_tanh", "keras2_tensorflow2")
    assert has("keras", "rnn_tanh", "keras206_tensorflow1")
    assert has("auto", "lstm", "keras2_tensorflow1")
    assert not has("auto", "lstm", "keras2_tensorflow2"), "the cuDNN-compatible layer has no modes"


# In a separate process: TensorFlow 2 sets TF2_BEHAVIOR, which TensorFlow 1.15 would inherit.
KERAS = """
import json
from keras import optimizers
classes = {name.lower(): getattr(optimizers, name) for name in dir(optimizers) if name[0].isupper()}
names = %s
from keras.src.losses import ALL_OBJECTS_DICT
of_keras_2 = {"logcosh", "kullback_leibler_divergence", "cosine_proximity", "cosine"}
losses = set(%s)
missing = losses - set(ALL_OBJECTS_DICT) - of_keras_2
assert not missing, missing
functions = {name for name, found in ALL_OBJECTS_DICT.items() if not isinstance(found, type)}
print(json.dumps({
    "settings": {name: sorted(classes[name]().get_config()) for name in names},
    "classes": sorted(classes),
    "losses": sorted(functions - losses),
}))
"""
# Not optimizers of their own; Muon's steps would be read as a kernel.
NO_OPTIMIZERS = {"optimizer", "optimizermap", "multioptimizer", "lossscaleoptimizer", "muon"}


def test_keras_has_every_loss_and_every_optimizer_with_its_settings() -> None:
    known = answer(sys.executable, KERAS % (list(OPTIMIZERS), LOSSES))
    common = set(COMMON_SETTINGS) - {"decay"}
    for name, settings in OPTIMIZERS.items():
        assert set(settings) | common <= set(known["settings"][name]), name
    assert set(known["classes"]) - NO_OPTIMIZERS == set(OPTIMIZERS)
    assert {name for name in known["losses"] if name.islower()} == set()
