"""Framework → Keras → framework, in the real frameworks; `benchmarks/round_trips.py` does more."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import round_trips
from tests.conftest import shared_folder


@pytest.mark.slow_tier("environments of frameworks")
@pytest.mark.parametrize(
    ("framework", "layers"),
    [
        ("onnx", {"onnx.LSTM", "onnx.GRU", "onnx.GRU_after", "onnx.RNN"}),
        (
            "torch",
            {f"torch.{name}{cell}" for cell in ("", "Cell") for name in ("LSTM", "GRU", "RNN")},
        ),
    ],
)
def test_a_layer_computes_the_same_after_a_round_trip(
    framework: str, layers: set[str], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    python = round_trips.environment(framework, shared_folder(tmp_path_factory))
    differences = round_trips.round_trips(framework, python, tmp_path)
    assert set(differences) == layers
    for in_keras, back in differences.values():
        assert max(in_keras, back) <= round_trips.LIMIT
