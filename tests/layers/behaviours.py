"""What a program does with a model after `rnnlayers.use`. Each function gets Keras, the name of a
kernel and a folder, and returns facts, which the tests compare."""

import copy
import pickle
import warnings
from unittest import mock

import numpy

import rnnlayers
from rnnlayers import block, native
from tests.layers import kinds


def model_of(keras, kernel, compiled=True):
    keras.utils.set_random_seed(2)
    layers = keras.layers
    both = layers.Bidirectional(layers.LSTM(3, return_sequences=True), name="both")
    last = layers.LSTM(2, name="last", kernel_regularizer="l2")
    model = kinds.sequential(keras, both, last, layers.Dense(1))
    if compiled:
        model.compile("sgd", "mse")
    if kernel:
        rnnlayers.use(model, kernel)
    return model


def kernels_in(model):
    """The names of the classes that really compute, and of those that Keras sees."""
    found = set()
    for layer in rnnlayers.recurrent_layers(model):
        found.add(f"{rnnlayers.kernel_of(layer)} {layer.__class__.__module__}")
    return sorted(found)


def outputs(model):
    return numpy.asarray(model.predict_on_batch(kinds.data(model)))


def plain(keras, kernel, folder):
    """Which copies of a model compute in its own way and are plain Keras."""
    model = model_of(keras, kernel)
    expected = outputs(model)
    copies = {
        "from_config": type(model).from_config(model.get_config()),
        "clone_model": keras.models.clone_model(model),
        "copy": copy.deepcopy(model),
        "pickle": pickle.loads(pickle.dumps(model)),
    }
    for name in ("whole.keras", "whole.h5"):
        model.save(str(folder / name))
        copies[name] = keras.models.load_model(str(folder / name), compile=False)
    model.save_weights(str(folder / "only.weights.h5"))
    copies["weights"] = model_of(keras, None)
    copies["weights"].load_weights(str(folder / "only.weights.h5"))
    found = {}
    for name, other in copies.items():
        if name in ("from_config", "clone_model"):
            other.set_weights(model.get_weights())
        classes = {type(layer) for layer in rnnlayers.recurrent_layers(other)}
        is_plain = classes == {keras.layers.LSTM}
        found[name] = [is_plain, float(abs(outputs(other) - expected).max()) < 1e-6]
    found["original"] = kernels_in(model)
    found["text of the config"] = "rnnlayers" in str(model.get_config()) + model.to_json()
    return found


def seen_by_the_author(keras, kernel, folder):
    """Names, classes and weights are those of plain Keras."""
    facts = []
    for model in (model_of(keras, None), model_of(keras, kernel)):
        layer = model.get_layer("last")
        names = [getattr(weight, "path", weight.name) for weight in model.trainable_weights]
        classes = [each.__class__.__name__ for each in model.layers]
        is_lstm = isinstance(layer, keras.layers.LSTM) and layer.__class__ is keras.layers.LSTM
        facts.append([len(names), classes, is_lstm, layer.units, len(model.losses)])
        facts[-1] += [name.rpartition("/")[2] for name in names]
    return facts[0] == facts[1]


def calls_of(kernel):
    """The class whose ``inner_loop`` a kernel computes with, and a list that it is counted in."""
    computes = {"block": block.BlockLSTM, "native": native.OfTorch}[kernel]
    method, called = computes.inner_loop, []

    def counting(layer, *values, **named):
        called.append(layer.name)
        return method(layer, *values, **named)

    return mock.patch.object(computes, "inner_loop", counting), called


def before_or_after_compile(keras, kernel, folder):
    """`fit` with callbacks, with the kernel given before `compile`, after it, or after a `fit`: the
    losses. Raises AssertionError unless all three layers then run by the kernel."""
    histories, ended = [], []
    for order in ("before", "after", "later"):
        model = model_of(keras, None, compiled=order != "before")
        x = kinds.data(model)
        y = numpy.ones((len(x), 1), "float32")
        if order == "later":  # with functions of steps that already exist
            start = model.get_weights()
            model.fit(x, y, verbose=0)
            model.set_weights(start)
        rnnlayers.use(model, kernel)
        if order == "before":
            model.compile("sgd", "mse")
        end = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: ended.append(epoch))
        ended.clear()
        kept = keras.callbacks.ModelCheckpoint(str(folder / "kept.keras"))
        counting, called = calls_of(kernel)
        with counting:
            history = model.fit(x, y, epochs=2, shuffle=False, verbose=0, callbacks=[end, kept])
        assert len(set(called)) == 3, called
        histories.append(history.history["loss"])
        assert ended == [0, 1]
    again = keras.models.load_model(str(folder / "kept.keras"))
    histories.append([float(model.evaluate(x, y, verbose=0))] * 2)
    histories.append([float(again.evaluate(x, y, verbose=0))] * 2)
    return histories


def back_again(keras, kernel, folder):
    model = model_of(keras, kernel)
    first = outputs(model)
    rnnlayers.use(model, "keras")
    types = {type(layer) is keras.layers.LSTM for layer in rnnlayers.recurrent_layers(model)}
    return [types == {True}, float(abs(outputs(model) - first).max()) < 1e-6, kernels_in(model)]


def a_refusal_changes_nothing(keras, kernel, folder):
    layers = keras.layers
    model = kinds.sequential(
        keras, layers.LSTM(3, return_sequences=True), layers.LSTM(2, recurrent_dropout=0.5)
    )
    before = kernels_in(model)
    try:
        rnnlayers.use(model, kernel)
    except rnnlayers.CannotCompute as error:
        reason = str(error)
    without = keras.Sequential([kinds.sequence(keras), layers.Dense(1)])
    try:
        rnnlayers.use(without, kernel)
    except rnnlayers.CannotCompute as error:
        reason += "; " + str(error)
    return [before == kernels_in(model), reason]


def mixed_precision(keras, kernel, folder):
    """How far outputs and a step of training in float16 are from those of plain Keras."""
    found = []
    for name in (None, kernel):
        keras.mixed_precision.set_global_policy("mixed_float16")
        try:
            model = model_of(keras, name)
        finally:
            keras.mixed_precision.set_global_policy("float32")
        before = outputs(model).astype("float32")
        x = kinds.data(model)
        model.train_on_batch(x, numpy.ones((len(x), 1), "float32"))
        found.append([before, *model.get_weights()])
    apart = [float(abs(a - b).max()) for a, b in zip(*found, strict=True)]
    return max(apart)


def compiled_by_xla(keras, kernel, folder):
    """What a model says that is to be compiled by XLA, before or after."""
    found = []
    for first in (True, False):
        model = model_of(keras, None, compiled=False)
        try:
            with warnings.catch_warnings(record=True) as shown:
                warnings.simplefilter("always")
                if first:
                    model.compile("sgd", "mse", jit_compile=True)
                rnnlayers.use(model, kernel)
                if not first:
                    model.compile("sgd", "mse", jit_compile=True)
                x = kinds.data(model)
                model.train_on_batch(x, numpy.ones((len(x), 1), "float32"))
                texts = [str(each.message) for each in shown if "jit" in str(each.message)]
                found.append("trained; " + "".join(texts))
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
    return found
