"""Wrong exports are caught before anything is timed, right ones are not, and the lines that serve
do so."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rnnbench.grid.files import files_of
from rnnbench.grid.runtimes import runtimes_of
from rnnbench.records.predictions import ChosenRuntime
from tests.conftest import ROOT
from tests.worker.building import answer, python_of

SCRIPT = """
import json
import sys
from pathlib import Path
from tests.serving.faulty_exports import main
main(Path(sys.argv[1]), json.loads(sys.argv[2]))
"""
# Fault → what shows it.
FAULTS = {
    "gates in another order": "batch 1, call 0",
    "last step dropped": "batch 1, call 0",
    "first length kept": "longer, call 0",
    "states lost": "batch 2, call 1",
    "states kept": "batch 1, call 1",
    "hard_sigmoid of Keras 2": "batch 1, call 0",
    "mask ignored": "padded behind, call 0",
    "batch and time exchanged": "batch 5, call 0",
    "recurrent bias lost": "batch 1, call 0",
    "reset before the product": "batch 1, call 0",
    "gates in another order, in int8": "batch 1, call 0",
    "gates in another order, in float16": "batch 1, call 0",
    "last step dropped, in bfloat16": "batch 1, call 0",
    "hard_sigmoid of Keras 2, in float16": "batch 1, call 0",
}
LEAST = 1e-6  # a difference below it is of float32
MOST = 0.05  # of 8 bits


def built_in() -> tuple[ChosenRuntime, ...]:
    """The runtimes of ``conf/runtime``."""
    conf = [ROOT / "conf"]
    return runtimes_of(list(files_of(conf, "runtime")), conf)


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Any:
    python, own = python_of("serving", tmp_path_factory)
    own["PYTHONPATH"] = f"{ROOT / 'src'}:{ROOT}"
    folder = tmp_path_factory.mktemp("exports")
    listed = json.dumps([[each.name, each.implementation, each.options] for each in built_in()])
    return answer(python, SCRIPT, folder, listed, timeout=600, KERAS_BACKEND="tensorflow", **own)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_export_is_caught(facts: Any, fault: str) -> None:
    assert FAULTS[fault] in facts["faults"][fault]


def test_every_fault_has_a_test(facts: Any) -> None:
    assert set(facts["faults"]) == set(FAULTS)


def test_what_only_a_further_question_shows_is_right_before(facts: Any) -> None:
    assert set(facts["faults"]["first length kept"]) == {"longer, call 0", "longer, call 1"}
    lost = {"batch 2, call 1", "batch 2 from sample 3, call 0", "batch 2 from sample 3, call 1"}
    assert set(facts["faults"]["states lost"]) == lost
    masked = {name.partition(",")[0] for name in facts["faults"]["mask ignored"]}
    assert masked == {"padded behind", "padded before", "gaps"}


@pytest.mark.parametrize("model", ["lstm", "sequences", "hard", "gru", "masked"])
def test_a_right_export_is_equal(facts: Any, model: str) -> None:
    assert facts["right"][model] == {}


def test_what_cannot_be_carried_is_refused_with_its_layer(facts: Any) -> None:
    assert facts["refused"]["refused"].startswith("layer lstm")
    assert "stateful=True" in facts["refused"]["refused"]


def test_the_lines_that_serve_give_the_model_s_answers(facts: Any) -> None:
    assert list(facts["served"]) == [each.name for each in built_in()]
    for each in built_in():
        apart = facts["served"][each.name]
        if each.precision == "float32":
            assert apart < 1e-5, each.name
        else:
            assert apart < MOST, each.name
        # A processor without bfloat16 computes in float32, which `load` refuses.
        if each.precision != "float32" and each.name != "openvino_bfloat16":
            assert apart > LEAST, each.name


@pytest.mark.parametrize(
    "name",
    [
        "onnxruntime int8 lstm",
        "onnxruntime float16 lstm",
        "onnxruntime float16 gru",
        "onnxruntime_operator int8 lstm",
        "onnxruntime_operator float16 masked",
        "openvino float16 gru",
        "litert int8 larger",
        "litert float16 lstm",
        "torch_eager int8 gru",
        "torch_eager bfloat16 lstm",
    ],
)
def test_rounding_is_no_other_function(facts: Any, name: str) -> None:
    assert facts["lowered"][name] == {}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("onnxruntime int8 gru", "quantization leaves the Loop in float32"),
        ("onnxruntime_operator int8 gru", "quantization leaves the GRU in float32"),
        ("litert int8 lstm", "less than 1024 elements"),
        ("torch_eager int8 simple", "leaves an RNN in float32"),
        ("torch_eager float16 lstm", "no precision float16 here, only float32, bfloat16, int8"),
    ],
)
def test_what_would_stay_in_float32_is_refused(facts: Any, name: str, says: str) -> None:
    assert says in facts["lowered"][name]["refused"]


def test_the_accuracy_is_that_of_keras_on_the_trained_model(facts: Any) -> None:
    trained = facts["trained"]
    assert trained["model"]["name"] == "accuracy" and trained["model"]["samples"] == 80
    assert trained["model"]["value"] == pytest.approx(trained["evaluate"])
    assert 0.65 < trained["model"]["value"] < 1  # a random model has a half
    assert trained["runtime"] == pytest.approx(trained["evaluate"], abs=0.02)
    assert trained["again"] is None and trained["of framework"] is None
