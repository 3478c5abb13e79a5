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
}


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
    assert set(facts["faults"]["states lost"]) == {"batch 2, call 1"}
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
    wrong = {name: apart for name, apart in facts["served"].items() if not apart < 1e-5}
    assert not wrong
