"""Habits of authors that only a certificate meets: it compiles a model anew, loads weights, asks
layer by layer. Each model of `tests/models/in_place/ordinary.py` here is certified, or refused with
its line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy
import pytest

from rnnworker.precision import TOLERANCE
from tests.conftest import ROOT
from tests.worker.building import ALL_CERTIFICATES, answer_of, certificate_job, equal

MODELS = ROOT / "tests" / "models" / "in_place" / "ordinary.py"
OF_KERAS = ("keras", "unrolled")
# Model → what its implementations are asked: all that are not `REFUSED` have to be certified.
ASKED = {
    "own_compile": ("keras", "block"),
    "two_layers_of_one_name": ("keras", "block"),
    "own_call": (*OF_KERAS, "block"),
    "own_cell": (*OF_KERAS, "block"),
    "one_cell_in_two_loops": (*OF_KERAS, "block"),
    "never_called": (*OF_KERAS, "block"),
    "stack_of_cells": (*OF_KERAS, "block"),
    "unrolled_stack_of_cells": ("keras", "block"),
    "hidden_from_keras": ("keras",),
}
REFUSED = {
    ("own_call", "block"): "layer doubled: block cannot stand for Doubled.call",
    ("own_cell", "block"): "layer rnn: block cannot stand for Normalized.call",
    ("stack_of_cells", "block"): "layer rnn: block computes LSTM only, not StackedRNNCells",
    ("unrolled_stack_of_cells", "keras"): "a model cannot set unroll=True: write rnn=unrolled",
    ("unrolled_stack_of_cells", "block"): "a model cannot set unroll=True: write rnn=unrolled",
    ("hidden_from_keras", "keras"): "the layer lstm is not part of the model, and not trained",
}
# Model → why the layers cannot be compared with the reference.
NO_REFERENCE = {
    "own_call": "the float64 reference has no Doubled.call, which is not Keras's",
    "own_cell": "the float64 reference has no Normalized.call, which is not Keras's",
}


def job_of(name: str, folder: Path) -> dict[str, Any]:
    choices = {each: {"implementation": each, "name": each} for each in ASKED[name]}
    job = certificate_job("keras3_tensorflow", "of_model", choices)
    job["config"]["model"] = {
        "function": f"{MODELS}:{name}",
        "data": {"prepare": "rnnworker.readers.given:prepare"},
        "batch": 16,
        "epochs": 1,
    }
    return {**job, "dataset": str(folder / "data.npz")}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("habits")
    stream = numpy.random.RandomState(0)
    x = stream.normal(size=(32, 3, 3)).astype("float32")
    arrays = {"x_train": x, "y_train": x.sum((1, 2))[:, None]}
    arrays |= {"x_val": x, "y_val": arrays["y_train"]}
    numpy.savez(folder / "data.npz", **arrays)
    jobs = json.dumps([job_of(name, folder) for name in ASKED])
    made = answer_of("current", ALL_CERTIFICATES, jobs, temporary=tmp_path_factory)
    return dict(zip(ASKED, made, strict=True))


@pytest.mark.parametrize("name", ASKED)
def test_a_model_is_certified_or_its_line_is_refused(
    name: str, certificates: dict[str, Any]
) -> None:
    for implementation, result in certificates[name]["implementations"].items():
        refused = REFUSED.get((name, implementation))
        if refused is not None:
            assert result["status"] == "refused", result
            assert re.fullmatch(rf"{MODELS}, line \d+: {refused}.*", result["why"]), result["why"]
            continue
        assert result["status"] == "certified", (implementation, result["why"])
        if name in NO_REFERENCE:
            assert result["no_reference"] == NO_REFERENCE[name]
        else:
            assert result["no_reference"] is None
            for part in ("outputs", "gradients"):
                if result["kernel"]:
                    assert result[part] <= TOLERANCE["float32"][part], (implementation, part)
        steps = result["applied"]["cpu_1"]
        assert (steps["off"], steps["why"]) == (0, None), (implementation, steps)
    assert all(map(equal, certificates[name]["pairs"])), certificates[name]["pairs"]
