"""Certifies right and deliberately wrong exports in the Python of the build `serving`, and runs the
lines that serve. ``main(folder, built_in)`` prints the facts as JSON, which `test_serving_faults`
compares. `built_in`: (name, implementation, options) of each runtime of ``conf/runtime``."""

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import keras
import numpy

import rnnserve
from rnnserve import keras_models, onnx_graph, onnxruntime, onnxruntime_operator
from rnnserve.refusals import Refused
from rnnworker.serving import answering, prepare

STEPS, FEATURES = 9, 3
layers = keras.layers


def _model(*parts, batch=None, steps=None):
    inputs = keras.Input((steps, FEATURES), batch_size=batch)
    value = inputs
    for part in parts:
        value = part(value)
    return keras.Model(inputs, value)


def larger():
    return _model(layers.LSTM(32), layers.Dense(2))


def lstm():
    return _model(layers.LSTM(4), layers.Dense(2))


def sequences():
    return _model(layers.LSTM(4, return_sequences=True))


def hard():
    return _model(layers.LSTM(4, recurrent_activation="hard_sigmoid"))


def gru():
    return _model(layers.GRU(4))


def simple():
    return _model(layers.SimpleRNN(4))


def masked():
    return _model(layers.Masking(), layers.GRU(4))


def stateful():
    return _model(layers.LSTM(4, stateful=True), batch=2, steps=STEPS)


def wrapped(change, **options):
    """A runtime that changes what onnxruntime is asked or answers."""

    def export(model, arrays, folder, precision="float32"):
        onnxruntime_operator.export(model, arrays, folder)

    def load(folder, threads):
        answer = onnxruntime.load(folder, threads)
        return lambda arrays: change(answer, arrays)

    module = SimpleNamespace(export=export, load=load, FIXED_SHAPES=False, CODE="")
    module.__name__ = "wrapped"
    return rnnserve.Runtime(module, options)


def last_step_dropped(answer, arrays):
    return answer([arrays[0][:, :-1]])


def first_length_kept(answer, arrays):
    return answer([arrays[0][:, :STEPS]])


def batch_and_time_exchanged(answer, arrays):
    return [output.swapaxes(0, 1) for output in answer([arrays[0].swapaxes(0, 1)])]


class StateKept:
    """A second call that begins where the first one ended."""

    def __init__(self):
        self.before = None

    def __call__(self, answer, arrays):
        asked = arrays[0]
        before, self.before = self.before, asked
        if before is not None and len(before) == len(asked):
            asked = numpy.concatenate([before, asked], axis=1)
        return answer([asked])


def without_mask(graph, layer, value, states):
    return right_recurrent(graph, layer, onnx_graph.Value(value.tensor, value.shape), states)


def without_recurrent_bias(cell, order):
    kernel, recurrent, bias = right_arrays(cell, order)
    bias[1] = 0
    return kernel, recurrent, bias


def reset_before(layer, cell):
    kind, attributes = right_attributes(layer, cell)
    return kind, {**attributes, "linear_before_reset": 0}


right_recurrent = onnx_graph._Graph.recurrent
right_arrays = onnx_graph.arrays_of
right_attributes = onnx_graph._attributes
GATES_OF_KERAS = {**onnx_graph.NODES, "LSTMCell": ("LSTM", (0, 1, 2, 3))}
SLOPE_OF_KERAS_2 = {
    **onnx_graph.INSIDE_NODES,
    "hard_sigmoid": ("HardSigmoid", {"alpha": 0.2, "beta": 0.5}),
}
# Name → (the model, the runtime, what is wrong in `onnx_graph`).
FAULTS = {
    "gates in another order": (lstm, None, {"NODES": GATES_OF_KERAS}),
    "last step dropped": (lstm, wrapped(last_step_dropped), {}),
    "first length kept": (lstm, wrapped(first_length_kept), {}),
    "states lost": (stateful, rnnserve.runtime("onnxruntime"), {}),
    "states kept": (lstm, wrapped(StateKept()), {}),
    "hard_sigmoid of Keras 2": (hard, None, {"INSIDE_NODES": SLOPE_OF_KERAS_2}),
    "mask ignored": (masked, None, {"_Graph.recurrent": without_mask}),
    "batch and time exchanged": (sequences, wrapped(batch_and_time_exchanged), {}),
    "recurrent bias lost": (gru, None, {"arrays_of": without_recurrent_bias}),
    "reset before the product": (gru, None, {"_attributes": reset_before}),
    "gates in another order, in int8": (
        lstm,
        rnnserve.runtime("onnxruntime_operator", precision="int8"),
        {"NODES": GATES_OF_KERAS},
    ),
    "gates in another order, in float16": (
        lstm,
        rnnserve.runtime("onnxruntime_operator", precision="float16"),
        {"NODES": GATES_OF_KERAS},
    ),
    "last step dropped, in bfloat16": (
        lstm,
        wrapped(last_step_dropped, precision="bfloat16"),
        {},
    ),
    "hard_sigmoid of Keras 2, in float16": (
        hard,
        rnnserve.runtime("onnxruntime_operator", precision="float16"),
        {"INSIDE_NODES": SLOPE_OF_KERAS_2},
    ),
}
# Precisions that a runtime has for a model, and those that it cannot have.
LOWERED = {
    "onnxruntime int8 lstm": lstm,
    "onnxruntime float16 lstm": lstm,
    "onnxruntime float16 gru": gru,
    "onnxruntime_operator int8 lstm": lstm,
    "onnxruntime_operator float16 masked": masked,
    "openvino float16 gru": gru,
    "litert int8 larger": larger,
    "litert float16 lstm": lstm,
    "torch_eager int8 gru": gru,
    "torch_eager bfloat16 lstm": lstm,
    "onnxruntime int8 gru": gru,
    "onnxruntime_operator int8 gru": gru,
    "litert int8 lstm": lstm,
    "torch_eager int8 simple": simple,
    "torch_eager float16 lstm": lstm,
}
RIGHT = {model.__name__: model for model in (lstm, sequences, hard, gru, masked)}


def certified(make, chosen, patches, folder):
    """The wrong answers of an export of a model: {case: how far off or why}."""
    folder.mkdir()
    stream = numpy.random.default_rng(0)
    source = {"x": stream.normal(size=(8, STEPS, FEATURES))}
    chosen = chosen or rnnserve.runtime("onnxruntime_operator")
    tried = {"name": "tried", "implementation": "tried", "options": chosen.options}
    job = {"function": "-", "batches": [1, 5], "runtimes": [tried], "train": False}
    job["config"] = {"model": {"function": "-"}}
    job |= {"threads": 1, "folder": str(folder), "runtime": tried}
    keras.utils.set_random_seed(0)
    with ExitStack() as stack:
        for name, value in patches.items():
            stack.enter_context(mock.patch("rnnserve.onnx_graph." + name, value))
        stack.enter_context(mock.patch.object(prepare, "model_of", lambda _: (make(), source)))
        for user in (prepare, answering):
            stack.enter_context(mock.patch.object(user, "runtime", lambda _, **options: chosen))
        prepared = prepare.prepare(job, folder)
        (folder / "prepared.json").write_text(json.dumps(prepared))
        refused = prepared["runtimes"]["tried"].get("refused")
        if refused:
            return {"refused": refused}
        try:
            said = answering.Server(job).certify(only_timed=False)
        except Refused as error:
            return {"refused": str(error)}
    found = {}
    for fact in said["differences"]:
        if "error" in fact or fact["difference"] > fact["bound"]:
            name = f"{fact['case']}, call {fact['call']}"
            found[name] = fact.get("error") or fact["difference"]
    return found


def trained(folder):
    """What is known of a model that was trained, and what Keras says of the exported file."""
    folder.mkdir()
    stream = numpy.random.default_rng(0)
    labels = stream.integers(0, 2, 400)
    samples = stream.normal(size=(400, 8, 8)) + labels[:, None, None] / 4
    samples = samples.astype("float32")
    arrays = {"x_train": samples[:320], "y_train": labels[:320]}
    arrays |= {"x_val": samples[320:], "y_val": labels[320:]}
    numpy.savez(folder / "digits.npz", **arrays)
    model = {
        "function": "rnnworker.models.digits_rnn:build",
        "data": {"prepare": "rnnworker.models.digits_rnn:prepare"},
        "units": 16,
        "batch": 16,
        "epochs": 2,
        "optimizer": {"name": "adam", "learning_rate": 0.01},
        "loss": "sparse_categorical_crossentropy",
        "metrics": ["accuracy"],
    }
    config = {
        "model": model,
        "cell": {"name": "lstm"},
        "rnn": {"name": "keras", "implementation": "keras", "options": {}},
        "dataset": {"name": "digits", "path": "digits.npz"},
        "device": {"kind": "cpu", "threads": 1},
        "build": {"framework": "keras3_tensorflow"},
        "precision": "float32",
        "seed": 0,
    }
    runtimes = []
    for name, options in (("framework", {}), ("openvino", {"precision": "float16"})):
        runtimes.append({"name": name, "implementation": name, "options": options})
    job = {"config": config, "data": str(folder / "digits.npz"), "batches": [1, 16], "train": True}
    job |= {"runtimes": runtimes, "threads": 1, "folder": str(folder), "function": "-"}
    prepared = prepare.prepare(job, folder)
    (folder / "prepared.json").write_text(json.dumps(prepared))
    said = answering.Server(dict(job, runtime=runtimes[1])).certify(only_timed=False)
    of_file = keras.saving.load_model(folder / "framework/0/model.keras")
    of_file.compile(loss=model["loss"], metrics=["accuracy"])
    with numpy.load(folder / "validation.npz") as arrays:
        result = of_file.evaluate(arrays["inputs.0"], arrays["labels"], verbose=0, return_dict=True)
    return {
        "model": prepared["validation"],
        "evaluate": result["accuracy"],
        "runtime": said["validation"],
        "again": answering.Server(dict(job, runtime=runtimes[1])).certify(True)["validation"],
        "of framework": answering.Server(dict(job, runtime=runtimes[0])).certify(False)[
            "validation"
        ],
    }


def served(folder, built_in):
    """How far the answers of the lines that serve are from Keras's, for each runtime."""
    import contextlib

    import tensorflow

    model = larger()
    x = numpy.random.default_rng(0).normal(size=(2, STEPS, FEATURES)).astype("float32")
    expected = model.predict_on_batch(x)
    found = {}
    for name, implementation, options in built_in:
        chosen = rnnserve.runtime(implementation, **options)
        place = folder / name
        place.mkdir(parents=True)
        chosen.export(model, [x], place)
        given = {"x": x, "arrays": [x]}
        if name.startswith("tf_function") or name == "saved_model":
            given["x"] = tensorflow.constant(x)
        with contextlib.chdir(place):
            exec(chosen.code(1), given)
        outputs = given.get("y", given.get("outputs"))
        if implementation == "openvino":
            outputs = outputs[0]
        elif "outputs" in given:
            (outputs,) = outputs.values() if isinstance(outputs, dict) else outputs
        found[name] = float(numpy.abs(numpy.asarray(outputs) - expected).max())
    return found


def main(folder, built_in):
    keras_models.set_threads(1)
    faults = {}
    for name, (make, module, patches) in FAULTS.items():
        faults[name] = certified(make, module, patches, folder / name)
    right = {}
    for name, make in RIGHT.items():
        right[name] = certified(make, None, {}, folder / name)
    lowered = {}
    for name, make in LOWERED.items():
        implementation, precision, _ = name.split()
        chosen = rnnserve.runtime(implementation, precision=precision)
        lowered[name] = certified(make, chosen, {}, folder / name)
    refused = certified(stateful, None, {}, folder / "refused")
    facts = {"faults": faults, "right": right, "refused": refused, "lowered": lowered}
    facts["trained"] = trained(folder / "trained")
    facts["served"] = served(folder / "served", built_in)
    print(json.dumps(facts))


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
