"""Certification: correct implementations pass, and every deliberate fault is detected. A single
process with TensorFlow makes all certificates."""

from __future__ import annotations

import json
import sys

import numpy
import pytest

from rnnworker import certify, events, precision
from tests.worker.building import answer

# Cell → implementations that must compute the same function on this CPU.
GOOD = {
    "lstm": ("keras", "unrolled", "block", "block_cell", "cudnn_compatible"),
    "gru": ("keras", "cudnn_compatible"),
    "gru_reset_before": ("keras", "block_cell"),
    "rnn_relu": ("keras",),
}
BOTH = ("keras", "block_cell")
FAULTS = {
    "swapped_gate": "outputs differ",
    "dropped_bias": "outputs differ",
    "forget_bias": "outputs differ",
    "clip": "outputs differ",
    "registered_gradient": "gradients differ",
    "other_kernel": "it ran while instead of block_cell",
    "warm_start": "did not start from the canonical weights",
    "lossy": "do not survive a round trip",
    "raises": "ValueError: on purpose",
}
RELU = json.dumps({"activation": "relu", "recurrent_activation": "hard_sigmoid"})
NO_BIAS = json.dumps({"use_bias": False})
TYPO = json.dumps({"activaton": "relu"})
WITH_OPTIONS = ["keras", f"keras {RELU}", f"unrolled {RELU}", f"keras {NO_BIAS}", f"keras {TYPO}"]
SCRIPT = '''
import json, os, sys
os.environ.update(TF_CPP_MIN_LOG_LEVEL="3")
import numpy
from rnnworker import certify, recurrent
from rnnworker.turns import Phases
from rnnworker.turns import Turns
from rnnworker.kernels import block, block_cell
from rnnworker.recurrent import cells

requests = json.loads(sys.argv[1])
STREAM = numpy.random.RandomState(0)
DATA = {"x_" + n: STREAM.normal(size=(64, 8, 5)).astype("float32") for n in ("train", "val")}
DATA.update({"y_" + n: STREAM.randint(0, 3, 64) for n in ("train", "val")})
KERNELS = {"unrolled": ["unrolled"], "block": ["block"], "block_cell": ["block_cell"], "auto": None}


class Fault:
    """The module of an implementation with a single fault."""

    def __init__(self, name, module, **wrong):
        self.name = name
        self.make = module.make
        self.__dict__.update(wrong)


def changed(change):
    def from_canonical(layer, arrays):
        cells.from_canonical(layer, change(dict(arrays)))

    return from_canonical


def swapped(arrays):
    for name in ("kernel", "recurrent", "bias"):
        i, f, c, o = numpy.split(arrays[name], 4, axis=-1)
        arrays[name] = numpy.concatenate([i, c, f, o], axis=-1)
    return arrays


def without_bias(arrays):
    arrays["bias"] = 0 * arrays["bias"]
    return arrays


def with_constant(name, value):
    """block_cell with an attribute of its op at TensorFlow's default."""
    def make(*arguments):
        layer = block_cell.make(*arguments)
        right = layer.hidden_states

        def wrong(sequence):
            original = getattr(block_cell, name)
            setattr(block_cell, name, value)
            try:
                return right(sequence)
            finally:
                setattr(block_cell, name, original)

        layer.hidden_states = wrong
        return layer

    return make


def registered(keras, cell, units, options):
    """BlockLSTMV2 with the gradient that TensorFlow registers for it."""
    import tensorflow as tf

    layer = block.make(keras, cell, units, options)

    def hidden_states(sequence):
        shape, peephole = tf.shape(sequence), tf.zeros([units])
        zeros = tf.zeros([shape[1], units])
        return tf.raw_ops.BlockLSTMV2(
            seq_len_max=tf.cast(shape[0], tf.int64), x=sequence, cs_prev=zeros, h_prev=zeros,
            w=tf.convert_to_tensor(layer.matrix), b=tf.convert_to_tensor(layer.bias), wci=peephole,
            wcf=peephole, wco=peephole, cell_clip=0.0, use_peephole=False,
        ).h

    layer.hidden_states = hidden_states
    return layer


def raises(*arguments):
    raise ValueError("on purpose")


def lossy(layer, arrays):
    short = {name: array.astype("float16").astype("float32") for name, array in arrays.items()}
    cells.from_canonical(layer, short)


def warm(layer, arrays):
    """Loads the given arrays, except that the canonical ones are changed as if trained."""
    bias = arrays["bias"]
    if not numpy.any(bias[: len(bias) // 4]):
        arrays = dict(arrays, kernel=arrays["kernel"] + numpy.float32(0.01))
    cells.from_canonical(layer, arrays)


known = recurrent.implementation
generic = known("keras")
FAULTS = {
    "swapped_gate": Fault("keras", generic, from_canonical=changed(swapped)),
    "dropped_bias": Fault("keras", generic, from_canonical=changed(without_bias)),
    "forget_bias": Fault("block_cell", block_cell, make=with_constant("FORGET_BIAS", 1.0)),
    "clip": Fault("block_cell", block_cell, make=with_constant("CELL_CLIP", 3.0)),
    "registered_gradient": Fault("block", block, make=registered),
    "other_kernel": Fault("block_cell", generic),
    "warm_start": Fault("keras", generic, from_canonical=warm),
    "lossy": Fault("keras", generic, from_canonical=lossy),
    "raises": Fault("keras", generic, make=raises),
}
recurrent.implementation = lambda name: FAULTS[name] if name in FAULTS else known(name)


def prepare(source, config):
    return DATA


class Events:
    def __init__(self):
        self.certificate = {}

    def emit(self, event, **fields):
        if event == "facts":
            self.certificate.update(fields["certificate"])

    def handshake(self):
        pass


from rnnworker.models import digits_rnn
digits_rnn.prepare_made_up = prepare


def build(keras, recurrent, config):
    inputs = keras.layers.Input(shape=(8, 5))
    if config["model"]["both"] is None:
        hidden = keras.layers.Dense(8)(keras.layers.Flatten()(inputs))
    elif config["model"]["both"]:
        hidden = recurrent.bidirectional(6, return_sequences=True, dropout=0.5)(inputs)
        hidden = recurrent.bidirectional(4)(hidden)
    else:
        hidden = recurrent(6, return_sequences=False)(inputs)
    hidden = keras.layers.Dropout(0.5)(hidden)
    return keras.models.Model(inputs, keras.layers.Dense(3, activation="softmax")(hidden))


digits_rnn.build_made_up = build
certify.TRAINED_STEPS = 4


def certificate(cell, names, both, only=False):
    if names == ["none"]:
        both = None
    module = "rnnworker.models.digits_rnn:"
    model = {"function": module + "build_made_up", "data": {"prepare": module + "prepare_made_up"}}
    model.update(both=both, batch=16, loss="sparse_categorical_crossentropy")
    model.update(optimizer={"name": "adam", "learning_rate": 0.001})
    config = {"model": model, "cell": {"name": cell}, "device": {"kind": "cpu", "threads": 1}}
    config.update(build={"framework": "keras3_tensorflow"}, seed=0)
    entries = []
    for name in names:
        of = FAULTS[name].name if name in FAULTS else name
        of, _, options = of.partition(" ")
        rnn = {"implementation": name.partition(" ")[0], "kernels": KERNELS.get(of, ["while"])}
        entries.append({"name": name, "rnn": dict(rnn, options=json.loads(options or "{}"))})
    job = {"config": config, "implementations": entries, "threads": 1, "dataset": None}
    job.update(device="cpu_1", further_device=only)
    events = Events()
    certify.certify(job, events, Phases(events, Turns(events)))
    return events.certificate


print(json.dumps([certificate(*request) for request in requests]))
'''


class Trial:
    """An implementation of `function` that has trained this number of arrays, and computes these
    `outputs` with the weights of another one."""

    def __init__(self, function: dict, arrays: int, outputs: float = 1.0):
        self.function, self.arrays, self.served = function, arrays, numpy.array([outputs, 1.0])
        self.saved = {"trained": [1.0] * arrays, "trained_outputs": numpy.ones(2)}
        self.saved.update(outputs=[], gradients=[], loss_curve=[1.0])
        self.session = self

    def load_weights(self, weights: list) -> None:
        assert len(weights) == self.arrays, "a layer without a bias has fewer"

    def outputs(self, samples: int) -> numpy.ndarray:
        return self.served

    error_of = certify.Trial.error_of


def test_weights_are_exchanged_between_implementations_of_one_function() -> None:
    with_bias, without = ({"use_bias": True}, {"use_bias": False})
    trials = {"a": Trial(with_bias, 3), "b": Trial(with_bias, 3), "c": Trial(without, 2)}
    trials["d"] = Trial(with_bias, 3, outputs=1.5)
    results = {
        name: {"status": "certified", "function": trial.function} for name, trial in trials.items()
    }
    pairs = certify.compare_pairs(trials, results, precision.TOLERANCE["float32"])
    found = {pair["a"] + pair["b"]: (pair["outputs"], pair["equal"]) for pair in pairs}
    assert found == {
        "ab": (0.0, True), "ac": (None, False), "ad": (0.5, False),
        "bc": (None, False), "bd": (0.5, False), "cd": (None, False),
    }  # fmt: skip


@pytest.fixture(scope="module")
def certificates() -> dict:
    requests = [(cell, names, False) for cell, names in GOOD.items()]
    requests += [("lstm", BOTH, True), ("lstm", ["keras", *FAULTS], False)]
    requests += [("lstm", ["none"], False), ("lstm", WITH_OPTIONS, False)]
    requests += [("gru", ["keras"], False, True)]
    made = answer(sys.executable, SCRIPT, json.dumps(requests), timeout=600)
    names = [*GOOD, "both", "faults", "none", "options", "further"]
    return dict(zip(names, made, strict=True))


@pytest.mark.parametrize("cell", [*GOOD, "both"])
def test_correct_implementations_are_certified_and_equal(certificates: dict, cell: str) -> None:
    certificate = certificates[cell]
    names = GOOD.get(cell, BOTH)
    assert set(certificate["implementations"]) == set(names)
    for name, result in certificate["implementations"].items():
        assert (result["status"], result["why"]) == ("certified", None), name
        assert result["outputs"] <= 1e-5
        assert result["gradients"] <= 1e-4
        assert result["round_trip"] is True
        assert len(result["loss_curve"]) == 20
    assert len(certificate["pairs"]) == len(names) * (len(names) - 1) // 2
    assert all(pair["equal"] for pair in certificate["pairs"]), certificate["pairs"]


@pytest.mark.parametrize("cell", [*GOOD, "both", "none", "options"])
def test_every_step_applies_its_gradient(certificates: dict, cell: str) -> None:
    for name, result in certificates[cell]["implementations"].items():
        if result["status"] == "certified":
            steps = dict(result["applied"]["cpu_1"])
            assert steps.pop("worst") <= 1e-4
            assert steps == {"threads": 1, "steps": 30, "off": 0, "why": None}, name


def test_a_further_device_compares_no_implementations(certificates: dict) -> None:
    certificate = certificates["further"]
    entry = certificate["implementations"]["keras"]
    assert set(entry) == {"outputs", "gradients", "function", "probed", "applied"}
    assert entry["applied"]["cpu_1"]["off"] == 0
    assert entry["probed"]["cpu_1"]["wrong"] is None
    assert "pairs" not in certificate


def test_every_size_of_a_batch_is_tested_in_training_and_evaluation(certificates: dict) -> None:
    layers = certificates["lstm"]["implementations"]["keras"]["probed"]["cpu_1"]
    assert [(each["rows"], each["training"]) for each in layers["batches"]] == [
        (16, True), (16, False),
    ]  # fmt: skip
    assert all(each["outputs"] <= 1e-5 for each in layers["batches"])
    assert layers["batches"][0]["gradients"] <= 1e-4
    assert layers["batches"][1]["gradients"] is None


def test_a_model_without_a_recurrent_layer_is_judged_by_its_steps(certificates: dict) -> None:
    result = certificates["none"]["implementations"]["none"]
    assert (result["status"], result["why"]) == ("certified", None)
    for name in ("outputs", "gradients", "round_trip", "function"):
        assert result[name] is None
    assert len(result["loss_curve"]) == 20


def test_options_change_the_certified_function(certificates: dict) -> None:
    results = certificates["options"]["implementations"]
    plain, *others, typo = WITH_OPTIONS
    assert {name: result["status"] for name, result in results.items()} == {
        **dict.fromkeys([plain, *others], "certified"), typo: "failed",
    }  # fmt: skip
    assert results[plain]["function"]["activation"] == "tanh"
    assert results[others[0]]["function"] == {
        "activation": "relu",
        "recurrent_activation": "hard_sigmoid of Keras 3",
        "use_bias": True,
    }
    equal = {(pair["a"], pair["b"]): pair["equal"] for pair in certificates["options"]["pairs"]}
    assert equal[others[0], others[1]] is True
    assert equal[plain, others[0]] is equal[plain, others[1]] is equal[plain, others[2]] is False


def test_kernels_are_attested(certificates: dict) -> None:
    results = certificates["lstm"]["implementations"]
    assert {name: result["kernel"] for name, result in results.items()} == {
        "keras": ["while"],
        "unrolled": ["unrolled"],
        "block": ["block"],
        "block_cell": ["block_cell"],
        "cudnn_compatible": ["while"],
    }


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_detected_and_named(certificates: dict, fault: str) -> None:
    result = certificates["faults"]["implementations"][fault]
    wrong = result.get("probed", {}).get("cpu_1", {}).get("wrong")
    assert FAULTS[fault] in f"{result['why']}; {wrong}"
    assert (result["status"] == "failed") is (result["why"] is not None)
    for pair in certificates["faults"]["pairs"]:
        if fault in (pair["a"], pair["b"]):
            assert pair["equal"] is False


def test_a_fault_does_not_affect_others(certificates: dict) -> None:
    assert certificates["faults"]["implementations"]["keras"]["status"] == "certified"


def test_relative_error_is_on_the_scale_of_the_array() -> None:
    assert certify.relative_error([1e-9, 2.0], [0.0, 2.0]) == pytest.approx(5e-10)
    assert certify.relative_error([1.0, 3.0], [1.0, 2.0]) == 0.5
    assert certify.relative_error([0.0], [0.0]) == 0.0


@pytest.mark.parametrize(
    ("values", "expected"),
    [([1.0], [0.0]), ([float("nan")], [1.0]), ([float("inf")], [1.0]), ([1.0, 1.0], [1.0])],
)
def test_what_cannot_be_compared_fails_after_the_way_to_the_controller(
    values: list[float], expected: list[float]
) -> None:
    error = events.to_json_data(certify.relative_error(values, expected))
    batch = {"rows": 1, "training": True, "outputs": None, "gradients": error}
    assert precision.wrong([batch], precision.TOLERANCE["float32"], "cpu")


def test_probe_weights_reveal_a_clip_and_leave_their_input_unchanged() -> None:
    from rnnworker import reference

    stream = numpy.random.RandomState(0)
    arrays = {"kernel": stream.normal(size=(5, 24)), "recurrent": stream.normal(size=(6, 24))}
    arrays["bias"] = numpy.zeros(24)
    probe = certify.probe_weights("lstm", arrays, 0)
    assert not arrays["bias"].any()
    assert len(set(probe["bias"].tolist())) == 24
    state = (numpy.zeros((16, 6)), numpy.zeros((16, 6)))
    for _ in range(8):
        state, _ = reference._lstm(stream.normal(size=(16, 5)), state, probe)
    assert abs(state[1]).max() > 3.0
