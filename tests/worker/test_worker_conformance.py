"""Every implementation, cell and framework that runs on a CPU, in one process per build.

What distinguishes kernels is tested of each kernel and cell, as a certificate does: outputs and
gradients against the float64 reference, with ``training`` on and off, weights converted in both
directions, and which kernel runs. What distinguishes frameworks is tested once in each: whole
certificates, also of a kernel of a user, with smaller last batches, the steps that are applied, and
the training of a pair."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import yaml

from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import Experiment
from rnnworker import attest, precision
from rnnworker.kernels import contrib
from tests.conftest import ROOT
from tests.worker.building import (
    CERTIFY,
    LAST,
    answer_of,
    certificate_job,
    equal,
    settings_of,
    write,
)


class Case(NamedTuple):
    """`names`: implementations, with their class in tf.contrib; without Keras's they are compared
    with the reference only. `is_whole`: a whole certificate, not the layers alone."""

    cell: str
    names: str
    model: Mapping[str, Any] = MappingProxyType({})
    precision: str = "float32"
    is_whole: bool = True


def layers(cell: str, names: str, model: Mapping[str, Any] = MappingProxyType({})) -> Case:
    return Case(cell, names, model, is_whole=False)


STACK = {"layers": 2, "bidirectional": True}
BOTH = {"bidirectional": True}
# Two layers of a model, between which TensorFlow 1.2 loses the number of time steps; with dropout.
TWO_LAYERS = {
    **{"function": "rnnworker.models.mnist_rnn:build", "sequence": 28, "features": 28},
    **{"dropout": [0.2, 0.1, 0.2], "dense": 4},
}
# Build, and whether it trains on replicas → its cases. torch neither traces nor compiles, so all of
# its cases are whole.
CASES = {
    "current": [
        Case("lstm", "keras block scan_lstm", LAST),
        layers("lstm", "unrolled block_cell cudnn_compatible"),
        layers("gru", "keras cell unrolled cudnn_compatible"),
        layers("gru_reset_before", "keras cell block_cell"),
        layers("rnn_tanh", "keras cell"),
        layers("rnn_relu", "keras unrolled"),
        # In both directions and two layers, whose products outside the loops are not unrolled ones.
        layers("lstm", "unrolled block scan_lstm joint_lstm", {**STACK, "sequence": 3}),
        Case("lstm", "cell", {**TWO_LAYERS, "recurrent_dropout": 0.5}),
    ],
    "keras3_torch": [
        Case("lstm", "keras native", LAST),
        *(Case(cell, "keras native") for cell in ("gru", "rnn_tanh", "rnn_relu")),
        Case("lstm", "keras native", BOTH),
        Case("gru", "keras native", STACK),
        Case("gru", "keras native", {}, "mixed_bfloat16"),
        Case("rnn_tanh", "keras native", {}, "mixed_float16"),
    ],
    "keras3_jax": [
        Case("lstm", "keras native", LAST),
        Case("lstm", "native", {}, "mixed_bfloat16"),
        layers("gru", "native", BOTH),
        *(layers(cell, "native") for cell in ("gru_reset_before", "rnn_tanh", "rnn_relu")),
        layers("lstm", "native", STACK),
    ],
    "tf_2_15": [
        Case("lstm", "keras unrolled", LAST),
        layers("lstm", "cell"),
        layers("gru", "keras", STACK),
    ],
    # Two logical devices of the CPU, each of which trains one half of each batch.
    "current replicas": [Case("lstm", "keras", LAST)],
    "tf_1_15": [
        Case("lstm", "keras contrib", LAST),
        layers("lstm", "contrib:LSTMBlockCell contrib:CudnnCompatibleLSTMCell contrib:LSTMCell"),
        layers("lstm", "contrib:BasicLSTMCell"),
        layers("gru", "keras contrib"),
        layers("gru_reset_before", "keras contrib contrib:GRUCell"),
        layers("rnn_tanh", "keras contrib"),
        layers("rnn_relu", "contrib unrolled"),
        layers("lstm", "contrib", STACK),
    ],
    "tf_1_2": [
        Case("lstm", "keras unrolled", LAST),
        layers("gru_reset_before", "keras", BOTH),
        Case("lstm", "keras", TWO_LAYERS),
    ],
}
# Takes jobs, and says which of them are whole.
SCRIPT = (
    CERTIFY
    + """

def of_layers(job):
    arrays, sizes = certify.samples_of(job)
    found = {}
    for entry in job["implementations"]:
        trial = certify.Trial(job, entry["rnn"], arrays)
        batches = trial.probe(sizes)
        session = trial.session
        found[entry["name"]] = {
            "round_trip": trial.round_trip,
            "outputs": max(batch["outputs"] for batch in batches),
            "gradients": max(batch["gradients"] for batch in batches if batch["training"]),
            "kernel": session.kernels(session._short_layers, min(session.lengths())),
            "probed": {"cpu_1": {"batches": batches}},
        }
    return {"implementations": found}


jobs, whole = json.loads(sys.argv[1])
print(json.dumps([certificate(job) if full else of_layers(job) for job, full in zip(jobs, whole)]))
"""
)
KERNELS_OF_OWN = {
    "scan_lstm": ["while"],
    "joint_lstm": ["unrolled"],
    "both_biases": ["torch:onednn"],
}
# torch.nn.LSTM with both biases trained.
BOTH_BIASES = """
import numpy
import torch
from rnnworker.recurrent.layer import layer_settings, recurrent_layer


def make(keras, cell, units, options):
    class BothBiases(recurrent_layer(keras)):
        def make_weights(self, inputs):
            module = torch.nn.LSTM(inputs, units, batch_first=True)
            torch.nn.init.zeros_(module.bias_hh_l0)
            self.wrapped = module  # Keras wraps it and adds its parameters to the layer's weights

        def outputs(self, x):
            hidden = self.wrapped.module(x)[0]
            return hidden if self.return_sequences else hidden[:, -1]

    return BothBiases(units, **layer_settings(options))


def to_canonical(layer, values=None):
    kernel, recurrent, bias, _ = layer.get_weights() if values is None else values
    return {"kernel": kernel.T, "recurrent": recurrent.T, "bias": bias}


def from_canonical(layer, arrays):
    weights = [arrays["kernel"].T, arrays["recurrent"].T, arrays["bias"]]
    layer.set_weights([*weights, numpy.zeros_like(arrays["bias"])])
"""


def choice_of(name: str, own: Path) -> dict[str, Any]:
    """The choice of an implementation: what its file in ``conf/rnn`` says, and its class; or that
    of a user's kernel."""
    if (own / f"{name}.py").exists():
        return {"implementation": f"{own}/{name}.py", "kernels": KERNELS_OF_OWN[name]}
    implementation, _, its_class = name.partition(":")
    choice = yaml.safe_load((ROOT / "conf" / "rnn" / f"{implementation}.yaml").read_text())
    options = {**choice.get("options", {}), **({"class": its_class} if its_class else {})}
    kernels = choice["kernels"]
    return {"implementation": implementation, "options": options, "kernels": kernels}


def job_of(build: str, case: Case, own: Path) -> dict[str, Any]:
    rnn = {name: choice_of(name, own) for name in case.names.split()}
    build, _, replicas = build.partition(" ")
    framework = settings_of(build)["framework"]
    job = certificate_job(framework, case.cell, rnn, case.precision, **case.model)
    job["config"]["device"]["replicas"] = 2 if replicas else None
    return job


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with kernels of users: those of docs/own_kernel.md, and `BOTH_BIASES`."""
    folder = tmp_path_factory.mktemp("own")
    page = (ROOT / "docs" / "own_kernel.md").read_text()
    files = {"both_biases.py": BOTH_BIASES}
    for name in ("scan_lstm.py", "joint_lstm.py"):
        files[name] = page.partition(f"`{name}`:\n\n```python\n")[2].partition("```")[0]
    write(folder, files)
    return folder


@pytest.fixture(scope="module")
def certificates(own: Path, tmp_path_factory: pytest.TempPathFactory):
    """A function of the build that returns the certificates of its cases."""

    @cache
    def made(build: str) -> list[dict[str, Any]]:
        cases = list(CASES[build])
        if build == "keras3_torch":
            cases.append(Case("lstm", "keras both_biases"))
        jobs = [job_of(build, case, own) for case in cases]
        argument = json.dumps([jobs, [case.is_whole for case in cases]])
        return answer_of(build.split()[0], SCRIPT, argument, temporary=tmp_path_factory)

    return made


@pytest.mark.parametrize(
    ("build", "number"),
    [(build, number) for build, cases in CASES.items() for number in range(len(cases))],
    ids=lambda value: str(value),
)
def test_each_computes_the_reference_and_trains_as_the_others_do(
    certificates, own: Path, build: str, number: int
) -> None:
    case, certificate = CASES[build][number], certificates(build)[number]
    assert set(certificate["implementations"]) == set(case.names.split())
    allowed = precision.TOLERANCE[case.precision]
    job = job_of(build, case, own)
    for name, entry in certificate["implementations"].items():
        assert entry["round_trip"] is True
        assert entry["outputs"] <= allowed["outputs"]
        assert entry["gradients"] <= allowed["gradients"]
        # Half precision rounds to 5e-4 or worse: a smaller error means float32.
        assert (entry["outputs"] > 1e-4) == case.precision.startswith("mixed")
        assert entry["kernel"] == attest.expected({**job["config"], "rnn": choice_of(name, own)})
        sizes = [(each["rows"], each["training"]) for each in entry["probed"]["cpu_1"]["batches"]]
        last = [(8, True), (4, False)] if LAST.items() <= case.model.items() else []
        assert sorted(sizes) == sorted([(16, True), (16, False), *last])
        if not case.is_whole:
            continue
        assert (entry["status"], entry["why"]) == ("certified", None)
        assert len(entry["loss_curve"]) == 5
        applied = entry["applied"]["cpu_1"]
        assert applied.pop("worst") <= allowed["gradients"]
        assert applied == {"threads": 1, "steps": 5, "off": 0, "why": None}, name
    if not case.is_whole:
        return
    pairs = certificate["pairs"]
    assert len(pairs) == len(list(itertools.combinations(case.names.split(), 2)))
    assert all(equal(pair, case.precision) for pair in pairs), pairs


def test_two_trained_biases_would_learn_faster(certificates) -> None:
    """The reason to freeze the second set of biases; see `recurrent.cudnn_layout`."""
    (pair,) = certificates("keras3_torch")[-1]["pairs"]
    assert (pair["a"], pair["b"], equal(pair)) == ("keras", "both_biases", False)
    assert pair["weights"] > 1e-2 and pair["first_loss"] == 0
    assert pair["loss_curve"] > 1e-3


def test_a_class_of_tf_contrib_belongs_to_its_cell_and_has_a_kernel() -> None:
    assert contrib.class_name("lstm", None) == "LSTMBlockFusedCell"
    assert contrib.class_name("gru_reset_before", "GRUCell") == "GRUCell"
    with pytest.raises(ValueError, match="'GRUCell' must be one of CudnnCompatibleGRUCell for gru"):
        contrib.class_name("gru", "GRUCell")
    kernels = choice_of("contrib", Path())["kernels"]
    classes = {name for names in contrib.CLASSES.values() for name in names}
    assert set(kernels) == classes | set(contrib.CLASSES)
    assert all(kernels[cell] == kernels[names[0]] for cell, names in contrib.CLASSES.items())


def test_impossible_grid_points_are_skipped_with_a_reason() -> None:
    grids = (
        "cell=lstm,gru_reset_before build=keras3_torch,keras3_jax,tf_2_21 model=digits_rnn",
        "cell=lstm build=keras3_torch model=imdb_lstm",
        "cell=lstm,gru build=keras3_torch,keras3_jax model=mnist_rnn precision=mixed_float16",
    )
    overrides = tuple((*grid.split(), "rnn=native", "device=cpu_1") for grid in grids)
    points = expand(Experiment(name="x", grids=overrides), [ROOT / "conf"])
    skips = {
        (point.choices["model"], point.choices["cell"], point.choices["build"]): point.skip
        for point in points
    }
    expected = {
        ("digits_rnn", "gru_reset_before", "keras3_torch"): "resets after the product",
        ("digits_rnn", "lstm", "tf_2_21"): "torch",
        ("digits_rnn", "gru_reset_before", "tf_2_21"): "torch",
        ("imdb_lstm", "lstm", "keras3_torch"): "dropout",
        ("mnist_rnn", "lstm", "keras3_torch"): "an LSTM in halves",
    }
    assert len(skips) == 11 and {key for key, why in skips.items() if why} == set(expected)
    assert all(why in skips[key] for key, why in expected.items())
