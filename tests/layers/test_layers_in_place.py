"""Each kernel of `rnnlayers` against plain Keras: the same outputs, losses and, after three steps
of training, weights; or a refusal that names the layer and the cause. One process per build."""

from __future__ import annotations

import json
import os
import re
from typing import Any
from unittest import mock

import pytest

import rnnlayers
from tests.conftest import ROOT
from tests.layers import kinds
from tests.worker.building import answer_of

SCRIPT = """
import importlib, json, pathlib, sys, warnings

warnings.simplefilter("ignore")
job = json.loads(sys.argv[1])
sys.path.insert(0, job["root"])
keras = importlib.import_module(job["package"])
if job["package"] == "tensorflow":
    keras.config.run_functions_eagerly(True)
    keras = keras.keras
from tests.layers import behaviours, kinds

found = {}
for kernel, names in job["kinds"].items():
    for name, values in kinds.compared(keras, names, [kernel]).items():
        found.setdefault(name, {}).update(values)
facts = {}
for name in job["behaviours"]:
    folder = pathlib.Path(job["folder"], name)
    folder.mkdir()
    facts[name] = getattr(behaviours, name)(keras, job["kernel"], folder)
print(json.dumps({"kinds": found, "facts": facts}))
"""
# Kind → why a kernel refuses it.
OF_LSTM = "computes LSTM only, not GRUCell"
BY_ALL = {
    "recurrent_dropout": "has no recurrent_dropout",
    "a_mask": "layer reader: {} has no masks",
    "own_cell": "{} cannot stand for Scaled.call, which is not Keras's",
}
REFUSED = {
    "block": {
        **BY_ALL,
        "states_of_gru": OF_LSTM,
        "gru_without_bias": OF_LSTM,
        "gru_that_resets_before": OF_LSTM,
        "activations_by_function": "computes LSTM only, not SimpleRNNCell",
        "own_activation": "computes activation=tanh only, not <lambda>",
        "doubles": "computes in float32 and float16 only, not in float64",
    },
    "block_cell": {"gru_without_bias": "computes reset_after=False only"},
    "native on torch": {
        **BY_ALL,
        "gru_that_resets_before": "computes reset_after=True only",
        "own_activation": "computes activation=tanh only, not <lambda>",
    },
    "native on jax": {},
}
OWN_CODE = ["positional_states", "gru_without_bias", "gru_that_resets_before"]
# Build → package, kernel → kinds (all, if empty), kernel of the behaviours and these.
BEHAVIOURS = ["plain", "seen_by_the_author", "a_refusal_changes_nothing", "compiled_by_xla"]
MORE = ["before_or_after_compile", "back_again", "mixed_precision"]
BUILDS: dict[str, tuple[str, dict[str, list[str]], str, list[str]]] = {
    "current": (
        "keras",
        {
            "block": [],
            "block_cell": ["gru_without_bias", "gru_that_resets_before", "positional_states"],
            "unrolled": ["bidirectional_mean"],
            "cell": ["recurrent_dropout"],
        },
        "block",
        BEHAVIOURS + MORE,
    ),
    "keras3_torch": ("keras", {"native": [], "keras": ["nested"]}, "native", BEHAVIOURS + MORE),
    "keras3_jax": ("keras", {"native": OWN_CODE}, "native", ["a_refusal_changes_nothing"]),
    "tf_2_15": (
        "tensorflow",
        {
            "block": [
                "merge_modes", "positional_states", "stateful", "time_major", "dropout", "a_mask",
                "subclassed", "cells_in_rnn", "own_cell", "doubles", "time_distributed",
            ],
            "block_cell": ["gru_that_resets_before"],
        },
        "block",
        BEHAVIOURS[:3],
    ),
}  # fmt: skip
OUTPUTS, LOSSES, WEIGHTS = 3e-7, 5e-6, 1e-5
NAMES = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
ONE_THREAD = dict.fromkeys(NAMES, "1")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Build → what the script finds, computed once."""
    remembered: dict[str, Any] = {}

    def of(build: str) -> Any:
        if build not in remembered:
            package, asked, kernel, behaviours = BUILDS[build]
            job = {
                "root": str(ROOT),
                "package": package,
                "kinds": asked,
                "kernel": kernel,
                "behaviours": behaviours,
                "folder": str(tmp_path_factory.mktemp(build)),
            }
            with mock.patch.dict(os.environ, ONE_THREAD):
                remembered[build] = answer_of(
                    build, SCRIPT, json.dumps(job), temporary=tmp_path_factory
                )
        return remembered[build]

    return of


def asked() -> list[tuple[str, str, str]]:
    cases = []
    for build, (package, names, _, _) in BUILDS.items():
        for kernel, some in names.items():
            for kind in some or kinds.KINDS:
                if package == "tensorflow" or kind not in kinds.KERAS2_ONLY:
                    cases.append((build, kernel, kind))
    return cases


@pytest.mark.parametrize(("build", "kernel", "kind"), asked())
def test_it_trains_as_plain_keras_or_refuses(
    build: str, kernel: str, kind: str, found: Any
) -> None:
    result = found(build)["kinds"][kind][kernel]
    name = f"native on {build.removeprefix('keras3_')}" if kernel == "native" else kernel
    reason = REFUSED.get(name, {}).get(kind)
    if reason is not None:
        assert isinstance(result, str), result
        assert re.search(r"layer \w+: ", result) and reason.format(kernel) in result
        return
    assert not isinstance(result, str), result
    outputs, losses, weights = result
    assert outputs < OUTPUTS
    assert losses < LOSSES
    assert weights < WEIGHTS


@pytest.mark.parametrize("build", ["current", "keras3_torch", "tf_2_15"])
def test_what_is_saved_or_copied_is_plain_keras(build: str, found: Any) -> None:
    facts = found(build)["facts"]["plain"]
    kernel = BUILDS[build][2]
    assert facts.pop("text of the config") is False
    assert [text.split()[0] for text in facts.pop("original")] == [kernel]
    assert len(facts) == 7
    for copied, (is_plain, computes_the_same) in facts.items():
        assert is_plain and computes_the_same, copied


@pytest.mark.parametrize("build", ["current", "keras3_torch", "tf_2_15"])
def test_an_author_sees_the_same_names_classes_and_weights(build: str, found: Any) -> None:
    assert found(build)["facts"]["seen_by_the_author"] is True


@pytest.mark.parametrize("build", ["current", "keras3_torch"])
def test_before_or_after_compile_or_a_first_fit(build: str, found: Any) -> None:
    before, after, later, evaluated, loaded = found(build)["facts"]["before_or_after_compile"]
    assert before == pytest.approx(after, rel=LOSSES)
    assert before == pytest.approx(later, rel=LOSSES)
    assert evaluated == pytest.approx(loaded, rel=LOSSES)
    assert before[0] > before[1] > evaluated[0]


@pytest.mark.parametrize("build", ["current", "keras3_torch"])
def test_a_layer_gets_its_class_back(build: str, found: Any) -> None:
    is_keras, computes_the_same, kernels = found(build)["facts"]["back_again"]
    assert is_keras and computes_the_same
    assert kernels == ["keras keras.src.layers.rnn.lstm"]


@pytest.mark.parametrize("build", list(BUILDS))
def test_a_refusal_changes_nothing_in_the_model(build: str, found: Any) -> None:
    is_unchanged, reasons = found(build)["facts"]["a_refusal_changes_nothing"]
    assert is_unchanged
    first, second = reasons.split("; ", 1)
    assert re.fullmatch(rf"layer lstm\w*: {BUILDS[build][2]} has no recurrent_dropout", first)
    assert "has no LSTM, GRU or SimpleRNN" in second


@pytest.mark.parametrize("build", ["current", "keras3_torch"])
def test_half_precision(build: str, found: Any) -> None:
    assert found(build)["facts"]["mixed_precision"] < 2e-3


@pytest.mark.parametrize("build", ["current", "keras3_torch"])
def test_keras_leaves_out_xla_and_says_so(build: str, found: Any) -> None:
    for text in found(build)["facts"]["compiled_by_xla"]:
        assert text.startswith("trained; Model doesn't support `jit_compile=True`"), text


def test_an_unknown_kernel_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="no kernel 'blok': one of keras, cell, unrolled"):
        rnnlayers.use(None, "blok")
    with pytest.raises(rnnlayers.CannotCompute, match="dict is no model of Keras"):
        rnnlayers.use({}, "block")
