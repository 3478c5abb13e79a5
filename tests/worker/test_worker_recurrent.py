"""Four implementations compute the same LSTM, in one process with TensorFlow."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy
import pytest

from rnnworker.recurrent import IMPLEMENTATIONS, Recurrent, implementation
from tests.worker.building import answer

REAL = ("keras", "cell", "unrolled", "block")
SCRIPT = '''
import json, os, sys
os.environ.update(KERAS_BACKEND="tensorflow", TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
import numpy, tensorflow, keras
from rnnworker import canonical_weights
from rnnworker.recurrent import Recurrent

BATCH, TIME, INPUTS, UNITS = 5, 7, 3, 6
ARRAYS = ("kernel", "recurrent", "bias")
stream = numpy.random.RandomState(0)
x = stream.normal(size=(BATCH, TIME, INPUTS)).astype("float32")
COLUMNS = 4 * UNITS
shapes = [("kernel", (INPUTS, COLUMNS)), ("recurrent", (UNITS, COLUMNS)), ("bias", (COLUMNS,))]
start = canonical_weights.initial([{"kind": "recurrent", "cell": "lstm", "shapes": shapes}], 0)[0]
# Gates that differ in every value, so that a wrong order of gates changes the results.
start["bias"] = start["bias"] + stream.normal(size=4 * UNITS).astype("float32")


def canonical(gradients):
    """The gradients of the layer's own variables → those of the canonical arrays."""
    gradients = [tensorflow.convert_to_tensor(g).numpy() for g in gradients]
    if len(gradients) == 2:
        both, bias = gradients
        gradients = [both[:INPUTS], both[INPUTS:], bias]
    return dict(zip(ARRAYS, gradients))


def measured(name, sequences):
    config = {"cell": {"name": "lstm"}, "rnn": {"implementation": name}}
    recurrent = Recurrent(keras, config)
    inputs = keras.layers.Input(shape=(TIME, INPUTS))
    model = keras.models.Model(inputs, recurrent(UNITS, return_sequences=sequences)(inputs))
    (layer,) = recurrent.layers
    recurrent.module.from_canonical(layer, start)
    arrays = recurrent.module.to_canonical(layer)
    assert set(arrays) == set(ARRAYS)
    exact = all(arrays[n].tobytes() == start[n].tobytes() for n in ARRAYS)
    weight = numpy.random.RandomState(1).normal(size=model.output_shape[1:]).astype("float32")

    @tensorflow.function
    def step(x):
        with tensorflow.GradientTape() as tape:
            tape.watch(x)
            outputs = model(x, training=True)
            loss = tensorflow.reduce_sum(tensorflow.square(outputs + weight))
        variables = [v.value for v in layer.trainable_variables]
        return outputs, tape.gradient(loss, [x, *variables])

    outputs, gradients = step(tensorflow.constant(x))
    values = canonical(gradients[1:])
    values["x"] = gradients[0].numpy()
    values["outputs"] = outputs.numpy()
    return values, exact, list(model.output_shape)


def relative_error(actual, expected):
    return float(abs(actual - expected).max() / abs(expected).max())


def registered():
    """The gradient of the same loss that TensorFlow registers for BlockLSTMV2."""
    both = tensorflow.constant(numpy.concatenate([start["kernel"], start["recurrent"]]))
    bias, zeros = tensorflow.constant(start["bias"]), tensorflow.zeros([BATCH, UNITS])
    peephole = tensorflow.zeros([UNITS])
    weight = numpy.random.RandomState(1).normal(size=(UNITS,)).astype("float32")
    with tensorflow.GradientTape() as tape:
        tape.watch([both, bias])
        hidden = tensorflow.raw_ops.BlockLSTMV2(
            seq_len_max=tensorflow.constant(TIME, tensorflow.int64),
            x=tensorflow.transpose(tensorflow.constant(x), [1, 0, 2]),
            cs_prev=zeros, h_prev=zeros, w=both, wci=peephole, wcf=peephole, wco=peephole, b=bias,
            cell_clip=0.0, use_peephole=False,
        ).h
        loss = tensorflow.reduce_sum(tensorflow.square(hidden[-1] + weight))
    return canonical(tape.gradient(loss, [both, bias]))


def refused():
    config = {"cell": {"name": "gru"}, "rnn": {"implementation": "block"}}
    messages, names = [], ("dropout", "recurrent_dropout")
    for cell, options in [("gru", {}), *(("lstm", {name: 0.5}) for name in names)]:
        try:
            Recurrent(keras, dict(config, cell={"name": cell}))(UNITS, **options)
        except ValueError as error:
            messages.append(str(error))
    return messages


def errors(values, names):
    return {name: relative_error(values[name], reference[name]) for name in names}


results = {"tensorflow": tensorflow.__version__, "refused": refused(), "runs": {}}
for sequences in (False, True):
    reference, _, _ = measured("keras", sequences)
    for name in sys.argv[1:]:
        values, exact, shape = measured(name, sequences)
        results["runs"]["{}-{}".format(name, sequences)] = {
            "exact": exact,
            "shape": shape,
            "errors": errors(values, reference),
        }
    if not sequences:
        results["registered"] = errors(registered(), ARRAYS)
        results["outputs"] = reference["outputs"].tolist()
        results["x"] = x.tolist()
        results["start"] = {name: start[name].tolist() for name in ARRAYS}
print(json.dumps(results))
'''


@pytest.fixture(scope="module")
def results() -> dict:
    return answer(sys.executable, SCRIPT, *REAL)


@pytest.mark.parametrize("sequences", [False, True])
@pytest.mark.parametrize("name", REAL)
def test_outputs_and_gradients_agree(results: dict, name: str, sequences: bool) -> None:
    run = results["runs"][f"{name}-{sequences}"]
    assert run["shape"] == ([None, 7, 6] if sequences else [None, 6])
    errors = dict(run["errors"])
    assert errors.pop("outputs") <= 1e-5
    assert set(errors) == {"x", "kernel", "recurrent", "bias"}
    assert max(errors.values()) <= 1e-4, errors


@pytest.mark.parametrize("name", REAL)
def test_the_round_trip_of_weights_is_exact(results: dict, name: str) -> None:
    assert results["runs"][f"{name}-False"]["exact"]


def test_the_outputs_are_those_of_the_published_lstm(results: dict) -> None:
    """Hochreiter & Schmidhuber 1997 with forget gates, in float64, gates i, f, c, o."""
    kernel, recurrent, bias = (
        numpy.array(results["start"][name]) for name in ("kernel", "recurrent", "bias")
    )
    x = numpy.array(results["x"])
    hidden = cell = numpy.zeros((x.shape[0], recurrent.shape[0]))
    for step in range(x.shape[1]):
        i, f, c, o = numpy.split(x[:, step] @ kernel + hidden @ recurrent + bias, 4, axis=1)
        i, f, o = (1 / (1 + numpy.exp(-gate)) for gate in (i, f, o))
        cell = f * cell + i * numpy.tanh(c)
        hidden = o * numpy.tanh(cell)
    assert numpy.abs(hidden - numpy.array(results["outputs"])).max() < 1e-5


def test_tensorflows_own_gradient_of_the_fused_op_is_still_wrong(results: dict) -> None:
    """The reason for the custom gradient in `block.py`; see its docstring."""
    assert max(results["registered"].values()) > 1e-2, (
        f"TensorFlow {results['tensorflow']} registers a correct gradient for BlockLSTMV2: "
        "remove the workaround in rnnworker/recurrent/block.py."
    )


def test_the_fused_op_refuses_other_cells_and_dropout(results: dict) -> None:
    gru, *dropouts = results["refused"]
    assert "supports lstm, not gru" in gru
    assert len(dropouts) == 2
    assert all("no dropout" in message for message in dropouts)


def test_an_unknown_implementation_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'cudnn9' must be one of keras, auto, cudnn, cell"):
        implementation("cudnn9")


def test_every_implementation_is_a_module_with_three_functions() -> None:
    for name in IMPLEMENTATIONS:
        module = implementation(name)
        for function in ("make", "to_canonical", "from_canonical"):
            assert callable(getattr(module, function)), (name, function)
    folder = Path(implementation("keras").__file__).parent
    shared = {"__init__", "cells", "layer", "both_directions", "stacked", "cudnn_layout"}
    shared |= {"native_torch", "native_jax", "own_file", "torch_cudnn"}
    assert {path.stem for path in folder.glob("*.py")} - shared == set(IMPLEMENTATIONS)


def test_recurrent_lists_its_layers_and_completes_options(monkeypatch) -> None:
    calls = []

    def make(keras, cell, units, options):
        calls.append((keras, cell, units, options))
        return object()

    recurrent = Recurrent("keras", {"cell": {"name": "lstm"}, "rnn": {"implementation": "keras"}})
    monkeypatch.setattr(recurrent.module, "make", make)
    first, second = recurrent(8), recurrent(4, return_sequences=True, name="top")
    assert recurrent.layers == [first, second]
    defaults = {"return_sequences": False, "dropout": 0.0, "recurrent_dropout": 0.0}
    assert calls == [
        ("keras", "lstm", 8, defaults),
        ("keras", "lstm", 4, {**defaults, "return_sequences": True, "name": "top"}),
    ]
