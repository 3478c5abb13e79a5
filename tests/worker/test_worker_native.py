"""``native``: torch.nn's layers and the scan in jax compute the cells of the reference and train as
Keras's layers do. One process for each of the two builds."""

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
# The certificates of each build: (cell, both directions, precision).
CERTIFIED = {
    "keras3_torch": [
        *((cell, False, "float32") for cell in native_torch.CELLS),
        ("lstm", True, "float32"),
        ("gru", False, "mixed_bfloat16"),
        ("rnn_tanh", False, "mixed_float16"),
    ],
    # Compiling takes seconds, so `scans` tests the other cells.
    "keras3_jax": [
        ("lstm", False, "float32"),
        ("gru", True, "float32"),
        ("lstm", False, "mixed_bfloat16"),
    ],
}
SCRIPT = '''
import json, sys
job = json.loads(sys.argv[1])
sys.path.insert(0, job["source"])
import numpy
from rnnworker import certify, recurrent
from rnnworker.phases import Phases
from rnnworker.turns import Turns
from rnnworker.recurrent import native
import rnnworker.models.digits_rnn as module

STREAM = numpy.random.RandomState(0)
DATA = {"x_" + n: STREAM.normal(size=(32, 7, 5)).astype("float32") for n in ("train", "val")}
DATA.update({"y_" + n: STREAM.randint(0, 3, 32) for n in ("train", "val")})
certify.TRAINED_STEPS = 2


def build(keras, recurrent, config):
    inputs = keras.layers.Input(shape=(7, 5))
    if config["model"]["both"]:
        hidden = recurrent.bidirectional(6, return_sequences=True)(inputs)
        hidden = recurrent.bidirectional(4)(hidden)
    else:
        hidden = recurrent(6)(inputs)
    return keras.models.Model(inputs, keras.layers.Dense(3, activation="softmax")(hidden))


module.build_synthetic, module.prepare_synthetic = build, lambda source, config: DATA


class BothBiasesTrained:
    """An unmodified torch.nn.LSTM."""

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
    prefix = "rnnworker.models.digits_rnn:"
    model = {"function": prefix + "build_synthetic"}
    model["data"] = {"prepare": prefix + "prepare_synthetic"}
    model.update(both=both, batch=16, loss="sparse_categorical_crossentropy")
    model.update(optimizer={"name": "adam", "learning_rate": 0.01})
    config = {"model": model, "cell": {"name": cell}, "device": {"kind": "cpu", "threads": 1}}
    config.update(build={"framework": job["framework"]}, seed=0, precision=precision)
    entries = [{"name": "native", "rnn": job["choice"]}]
    if (cell, precision) == ("lstm", "float32") or job["framework"] == "keras3_torch":
        keras = {"implementation": "keras", "kernels": ["while"]}
        entries.insert(0, {"name": "keras", "rnn": keras})
    if job["framework"] == "keras3_torch" and (cell, both) == ("lstm", False):
        entries.append({"name": "both", "rnn": dict(job["choice"], implementation="both")})
    request = {"config": config, "implementations": entries, "threads": 1, "dataset": None}
    request["device"] = "cpu_1"
    events = Events()
    certify.certify(request, events, Phases(events, Turns(events)))
    return events.certificate


def scans():
    """Cell → errors of the scan against the reference: of the outputs, of the worst gradient."""
    import jax
    from rnnworker import canonical_weights, reference
    from rnnworker.recurrent import native_jax

    errors = {}
    for index, cell in enumerate(native_jax.CELLS):
        columns = canonical_weights.GATES[cell] * 4
        shapes = {"x": (3, 7, 5), "kernel": (5, columns), "recurrent": (4, columns)}
        shapes["bias"] = (2, columns) if cell == "gru" else (columns,)
        arrays = {name: STREAM.normal(size=shape).astype("f4") for name, shape in shapes.items()}
        x, sequences = arrays.pop("x"), bool(index % 2)
        upstream = STREAM.normal(size=(3, 7, 4) if sequences else (3, 4)).astype("f4")
        call = jax.jit(lambda x, arrays: native_jax.scan_cell(cell, x, arrays, sequences))
        outputs, back = jax.vjp(call, x, arrays)
        x_gradient, gradients = back(upstream)
        gradients["x"] = x_gradient
        right_outputs, right = reference.run(cell, x, arrays, upstream)
        worst = max(certify.relative_error(gradients[name], right[name]) for name in right)
        errors[cell] = [certify.relative_error(outputs, right_outputs), worst]
    return errors


def refused():
    """The layer's errors for dropout inside the cell and for a mask."""
    import keras

    options = {"dropout": 0.0, "recurrent_dropout": 0.0}
    messages = []
    for settings, mask in ((dict(options, recurrent_dropout=0.2), None), (options, [[True] * 7])):
        try:
            layer = native.make(keras, "lstm", 4, settings)
            layer(numpy.zeros((1, 7, 5), "float32"), mask=numpy.array(mask))
        except ValueError as error:
            messages.append(str(error))
    return messages


certificates = {"/".join(map(str, case)): certificate(*case) for case in job["certificates"]}
scans = scans() if job["framework"] == "keras3_jax" else {}
print(json.dumps({"certificates": certificates, "refused": refused(), "scans": scans}))
'''


def arrays(cell: str, inputs: int = 5, units: int = 4) -> dict[str, numpy.ndarray]:
    columns = GATES[cell] * units
    stream = numpy.random.RandomState(0)
    shapes = {"kernel": (inputs, columns), "recurrent": (units, columns)}
    shapes["bias"] = (2, columns) if cell == "gru" else (columns,)
    return {name: stream.normal(size=shape).astype("float32") for name, shape in shapes.items()}


@pytest.mark.parametrize("cell", native_torch.CELLS)
def test_the_round_trip_of_torchs_weights_is_exact(cell: str) -> None:
    original = arrays(cell)
    values = native_torch.pack(cell, original)
    unpacked = native_torch.unpack(cell, values)
    assert {name: array.tobytes() for name, array in unpacked.items()} == {
        name: array.tobytes() for name, array in original.items()
    }
    trained = values if cell == "gru" else values[:3]
    assert native_torch.unpack(cell, trained)["bias"].tobytes() == original["bias"].tobytes()
    assert cell == "gru" or not values[3].any()


def test_the_reset_gate_of_torchs_gru_is_first() -> None:
    canonical = arrays("gru")
    canonical["bias"] = numpy.repeat([0.0, 1.0, 2.0], 4) + [[0.0], [10.0]]  # z, r, h
    *_, first, second = native_torch.pack("gru", canonical)
    assert first[::4].tolist() == [1.0, 0.0, 2.0]
    assert second[::4].tolist() == [11.0, 10.0, 12.0]


def test_another_framework_is_an_error() -> None:
    keras = SimpleNamespace(backend=SimpleNamespace(backend=lambda: "tensorflow"))
    with pytest.raises(ValueError, match="torch or jax; this Keras is on tensorflow"):
        native.make(keras, "lstm", 4, {})


def test_impossible_grid_points_are_skipped_with_a_reason() -> None:
    grids = (
        "cell=lstm,gru_reset_before build=keras3_torch,keras3_jax,tf_2_21 model=digits_rnn",
        "cell=lstm build=keras3_torch model=imdb_lstm",
        "cell=lstm,gru build=keras3_torch,keras3_jax model=mnist_rnn precision=mixed_float16",
    )
    overrides = tuple((*grid.split(), "rnn=native", "device=cpu_1") for grid in grids)
    points = expand(Experiment("x", "", "", overrides), [ROOT / "conf"])
    skips = {
        (point.choices["model"], point.choices["cell"], point.choices["build"]): point.skip
        for point in points
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


@pytest.fixture(scope="module", params=CERTIFIED)
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict:
    """The results of one build, including its `framework`."""
    framework, python = request.param, build_python(request.param, "3.11", tmp_path_factory)
    job = {"framework": framework, "choice": CHOICE, "certificates": CERTIFIED[framework]}
    job["source"] = str(ROOT / "src")
    return {**answer(python, SCRIPT, json.dumps(job), timeout=900), "framework": framework}


def kernel(framework: str, cell: str) -> str:
    if framework == "keras3_jax":
        return "jax:scan"
    return "torch:onednn" if cell == "lstm" else "torch:native"


def test_each_cell_computes_the_reference_and_trains_as_keras_does(results: dict) -> None:
    compared: set[tuple[str, str]] = set()
    for (cell, both, policy), certificate in zip(
        CERTIFIED[results["framework"]], results["certificates"].values(), strict=True
    ):
        entry, allowed = certificate["implementations"]["native"], precision.TOLERANCE[policy]
        assert (entry["status"], entry["why"]) == ("certified", None), (cell, both, policy)
        assert entry["outputs"] <= allowed["outputs"]
        assert entry["gradients"] <= allowed["gradients"]
        # Half precision rounds to 5e-4 or worse: a smaller error means float32.
        assert (entry["outputs"] > 1e-4) == policy.startswith("mixed"), (cell, both, policy)
        assert entry["round_trip"] is True
        assert entry["kernel"] == [kernel(results["framework"], cell)]
        if len(certificate["implementations"]) > 1:
            pair = certificate["pairs"][0]
            assert (pair["a"], pair["b"], pair["equal"]) == ("keras", "native", True), pair
            compared.add((cell, policy))
    assert ("lstm", "float32") in compared


def test_each_cell_of_the_scan_computes_the_reference(results: dict) -> None:
    cells = native_jax.CELLS if results["framework"] == "keras3_jax" else ()
    assert set(results["scans"]) == set(cells)
    for cell, (outputs, gradients) in results["scans"].items():
        assert outputs <= 1e-5, cell
        assert gradients <= 1e-4, cell


def test_two_trained_biases_would_learn_faster(results: dict) -> None:
    """The reason to freeze the second set of biases; see `native_torch`."""
    certificates = results["certificates"]
    if results["framework"] != "keras3_torch":
        assert all("both" not in each["implementations"] for each in certificates.values())
        return
    (pair,) = (
        pair
        for pair in certificates["lstm/False/float32"]["pairs"]
        if (pair["a"], pair["b"]) == ("keras", "both")
    )
    assert pair["outputs"] > 1e-5, "with the weights that it has trained"
    assert pair["loss_curve"] > 1e-3
    assert pair["equal"] is False


def test_dropout_inside_the_cell_and_a_mask_are_errors(results: dict) -> None:
    dropout, mask = results["refused"]
    assert "has no dropout inside the cell" in dropout
    assert "does not support a mask" in mask
