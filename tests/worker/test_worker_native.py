"""``native``: torch.nn's layers and a scan in jax are the cells of the reference, and train as
Keras's do. One process for each of the two builds."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy
import pytest
import yaml

from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import Experiment
from rnnworker import precision
from rnnworker.canonical_weights import GATES
from rnnworker.recurrent import native, native_jax, native_torch
from tests.conftest import ROOT
from tests.worker.building import answer, build_python

CHOICE = yaml.safe_load((ROOT / "conf" / "rnn" / "native.yaml").read_text())
# What is certified in each build: (cell, both directions, precision).
ASKED = {
    "keras3_torch": [
        *((cell, False, "float32") for cell in native_torch.CELLS),
        ("lstm", True, "float32"),
        ("gru", False, "mixed_bfloat16"),
        ("rnn_tanh", False, "mixed_float16"),
    ],
    # It compiles for seconds; see `scans`.
    "keras3_jax": [
        ("lstm", False, "float32"),
        ("gru", True, "float32"),
        ("lstm", False, "mixed_bfloat16"),
    ],
}
SCRIPT = '''
import json, sys
asked = json.loads(sys.argv[1])
sys.path.insert(0, asked["source"])
import numpy
from rnnworker import certify, recurrent
from rnnworker.phases import Phases
from rnnworker.turns import Turns
from rnnworker.recurrent import native
import rnnworker.models.digits_rnn as home

STREAM = numpy.random.RandomState(0)
DATA = {"x_" + n: STREAM.normal(size=(32, 7, 5)).astype("float32") for n in ("train", "val")}
DATA.update({"y_" + n: STREAM.randint(0, 3, 32) for n in ("train", "val")})
certify.TRAINED_STEPS, portable = 2, certify.portable


def build(keras, recurrent, config):
    inputs = keras.layers.Input(shape=(7, 5))
    if config["model"]["both"]:
        hidden = recurrent.bidirectional(6, return_sequences=True)(inputs)
        hidden = recurrent.bidirectional(4)(hidden)
    else:
        hidden = recurrent(6)(inputs)
    return keras.models.Model(inputs, keras.layers.Dense(3, activation="softmax")(hidden))


home.build_made_up, home.prepare_made_up = build, lambda source, config: DATA


class BothBiasesTrained:
    """torch.nn.LSTM as it comes."""

    to_canonical, from_canonical = native.to_canonical, native.from_canonical

    def make(keras, cell, units, options):
        import torch

        layer = native.make(keras, cell, units, options)

        def make_weights(inputs):
            module = torch.nn.LSTM(inputs, units, batch_first=True)
            torch.nn.init.zeros_(module.bias_hh_l0)
            layer.wrapped = module

        layer.make_weights = make_weights
        return layer


known = recurrent.implementation
recurrent.implementation = lambda name: BothBiasesTrained if name == "both" else known(name)


class Events:
    def __init__(self):
        self.certificate = {}

    def emit(self, event, **fields):
        if event == "facts":
            self.certificate.update(fields["certificate"])

    def handshake(self):
        pass


def certificate(cell, both, precision):
    here = "rnnworker.models.digits_rnn:"
    model = {"function": here + "build_made_up", "data": {"prepare": here + "prepare_made_up"}}
    model.update(both=both, batch=16, loss="sparse_categorical_crossentropy")
    model.update(optimizer={"name": "adam", "learning_rate": 0.01})
    config = {"model": model, "cell": {"name": cell}, "device": {"kind": "cpu", "threads": 1}}
    config.update(build={"framework": asked["framework"]}, seed=0, precision=precision)
    entries = [{"name": "native", "rnn": asked["choice"]}]
    if (cell, precision) == ("lstm", "float32") or asked["framework"] == "keras3_torch":
        keras = {"implementation": "keras", "kernels": ["while"]}
        entries.insert(0, {"name": "keras", "rnn": keras})
    if asked["framework"] == "keras3_torch" and (cell, both) == ("lstm", False):
        entries.append({"name": "both", "rnn": dict(asked["choice"], implementation="both")})
    certify.portable = portable if len(entries) > 1 else lambda tried: []
    job = {"config": config, "implementations": entries, "threads": 1, "dataset": None}
    job["device"] = "cpu_1"
    events = Events()
    certify.certify(job, events, Phases(events, Turns(events)))
    return events.certificate


def scans():
    """Cell → the scan's errors against the reference: outputs, and the worst gradient."""
    import jax
    from rnnworker import canonical_weights, reference
    from rnnworker.recurrent import native_jax

    errors = {}
    for index, cell in enumerate(native_jax.CELLS):
        columns = canonical_weights.GATES[cell] * 4
        shapes = {"x": (3, 7, 5), "kernel": (5, columns), "recurrent": (4, columns)}
        shapes["bias"] = (2, columns) if cell == "gru" else (columns,)
        given = {name: STREAM.normal(size=shape).astype("f4") for name, shape in shapes.items()}
        x, sequences = given.pop("x"), bool(index % 2)
        upstream = STREAM.normal(size=(3, 7, 4) if sequences else (3, 4)).astype("f4")
        call = jax.jit(lambda x, arrays: native_jax.scanned(cell, x, arrays, sequences))
        outputs, back = jax.vjp(call, x, given)
        x_gradient, found = back(upstream)
        wanted, gradients = reference.run(cell, x, given, upstream)
        found["x"] = x_gradient
        far = [certify.relative_error(found[name], gradients[name]) for name in gradients]
        errors[cell] = [certify.relative_error(outputs, wanted), max(far)]
    return errors


def refused():
    """What the layer says to a mask and to dropout inside the cell."""
    import keras

    options = {"dropout": 0.0, "recurrent_dropout": 0.0}
    told = []
    for given, mask in ((dict(options, recurrent_dropout=0.2), None), (options, [[True] * 7])):
        try:
            layer = native.make(keras, "lstm", 4, given)
            layer(numpy.zeros((1, 7, 5), "float32"), mask=numpy.array(mask))
        except ValueError as error:
            told.append(str(error))
    return told


found = {"/".join(map(str, one)): certificate(*one) for one in asked["certificates"]}
scans = scans() if asked["framework"] == "keras3_jax" else {}
print(json.dumps({"certificates": found, "refused": refused(), "scans": scans}))
'''


def arrays(cell: str, inputs: int = 5, units: int = 4) -> dict[str, numpy.ndarray]:
    columns = GATES[cell] * units
    stream = numpy.random.RandomState(0)
    shapes = {"kernel": (inputs, columns), "recurrent": (units, columns)}
    shapes["bias"] = (2, columns) if cell == "gru" else (columns,)
    return {name: stream.normal(size=shape).astype("float32") for name, shape in shapes.items()}


@pytest.mark.parametrize("cell", native_torch.CELLS)
def test_torchs_weights_come_back_bit_by_bit(cell: str) -> None:
    given = arrays(cell)
    values = native_torch.pack(cell, given)
    back = native_torch.unpack(cell, values)
    assert {name: array.tobytes() for name, array in back.items()} == {
        name: array.tobytes() for name, array in given.items()
    }
    trained = values if cell == "gru" else values[:3]
    assert native_torch.unpack(cell, trained)["bias"].tobytes() == given["bias"].tobytes()
    assert cell == "gru" or not values[3].any()


def test_torchs_gru_has_its_reset_gate_first() -> None:
    given = arrays("gru")
    given["bias"] = numpy.repeat([0.0, 1.0, 2.0], 4) + [[0.0], [10.0]]  # z, r, h
    *_, first, second = native_torch.pack("gru", given)
    assert first[::4].tolist() == [1.0, 0.0, 2.0]
    assert second[::4].tolist() == [11.0, 10.0, 12.0]


def test_another_framework_is_told() -> None:
    keras = SimpleNamespace(backend=SimpleNamespace(backend=lambda: "tensorflow"))
    with pytest.raises(ValueError, match="on torch or jax, this one is on tensorflow"):
        native.make(keras, "lstm", 4, {})


def test_what_cannot_be_is_skipped_in_words() -> None:
    grids = (
        "cell=lstm,gru_reset_before build=keras3_torch,keras3_jax,tf_2_21 model=digits_rnn",
        "cell=lstm build=keras3_torch model=imdb_lstm",
        "cell=lstm,gru build=keras3_torch,keras3_jax model=mnist_rnn precision=mixed_float16",
    )
    asked = tuple((*grid.split(), "rnn=native", "device=cpu_1") for grid in grids)
    cells = expand(Experiment("x", "", "", asked), [ROOT / "conf"])
    skips = {
        (cell.choices["model"], cell.choices["cell"], cell.choices["build"]): cell.skip
        for cell in cells
    }
    digits = "digits_rnn"
    assert skips.pop((digits, "gru_reset_before", "keras3_torch")) == (
        "torch.nn.GRU resets after the product"
    )
    assert "torch" in skips.pop((digits, "lstm", "tf_2_21"))
    assert "torch" in skips.pop((digits, "gru_reset_before", "tf_2_21"))
    assert "dropout" in skips.pop(("imdb_lstm", "lstm", "keras3_torch"))
    assert "an LSTM in halves" in skips.pop(("mnist_rnn", "lstm", "keras3_torch"))
    assert set(skips.values()) == {None}
    assert len(skips) == 6


@pytest.fixture(scope="module", params=ASKED)
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict:
    """What one build says, its `framework` among it."""
    framework, python = request.param, build_python(request.param, "3.11", tmp_path_factory)
    asked = {"framework": framework, "choice": CHOICE, "certificates": ASKED[framework]}
    asked["source"] = str(ROOT / "src")
    return {**answer(python, SCRIPT, json.dumps(asked), timeout=900), "framework": framework}


def kernel(framework: str, cell: str) -> str:
    if framework == "keras3_jax":
        return "jax:scan"
    return "torch:onednn" if cell == "lstm" else "torch:native"


def test_each_cell_is_the_references_and_trains_as_keras_does(found: dict) -> None:
    compared: set[tuple[str, str]] = set()
    for (cell, both, asked), one in zip(
        ASKED[found["framework"]], found["certificates"].values(), strict=True
    ):
        told, allowed = one["implementations"]["native"], precision.TOLERANCE[asked]
        assert (told["status"], told["why"]) == ("certified", None), (cell, both, asked)
        assert told["outputs"] <= allowed["outputs"]
        assert told["gradients"] <= allowed["gradients"]
        # Halves round to 5e-4 or worse: what is nearer was computed in float32.
        assert (told["outputs"] > 1e-4) == asked.startswith("mixed"), (cell, both, asked)
        assert told["round_trip"] is True
        assert told["kernel"] == [kernel(found["framework"], cell)]
        if len(one["implementations"]) > 1:
            pair = one["pairs"][0]
            assert (pair["a"], pair["b"], pair["equal"]) == ("keras", "native", True), pair
            assert one["portability"]
            compared.add((cell, asked))
        for served in one["portability"]:
            if "both" not in served.values():
                assert served["difference"] <= allowed["outputs"], served
    assert ("lstm", "float32") in compared


def test_each_cell_of_the_scan_is_the_references(found: dict) -> None:
    scanned = native_jax.CELLS if found["framework"] == "keras3_jax" else ()
    assert set(found["scans"]) == set(scanned)
    for cell, (outputs, gradients) in found["scans"].items():
        assert outputs <= 1e-5, cell
        assert gradients <= 1e-4, cell


def test_two_trained_biases_would_learn_faster(found: dict) -> None:
    """Why the second set is frozen; see `native_torch`."""
    if found["framework"] != "keras3_torch":
        assert all("both" not in one["implementations"] for one in found["certificates"].values())
        return
    (pair,) = (
        pair
        for pair in found["certificates"]["lstm/False/float32"]["pairs"]
        if (pair["a"], pair["b"]) == ("keras", "both")
    )
    assert pair["outputs"] <= 1e-5
    assert pair["loss_curve"] > 1e-3
    assert pair["equal"] is False


def test_dropout_inside_the_cell_and_a_mask_are_refused(found: dict) -> None:
    dropout, mask = found["refused"]
    assert "has no dropout inside the cell" in dropout
    assert "takes no mask" in mask
