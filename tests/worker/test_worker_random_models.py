"""Random ordinary Keras models in every build: each implementation computes what plain Keras
computes and trains each weight alike, or is refused with the line, the layer and what its kernel
lacks. `benchmarks/random_models.py` tries more of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worker import random_models
from tests.worker.checked_models import IMPLEMENTATIONS, checked

# Build → its models: each gets others, which its kernel computes. The small form of
# `benchmarks/random_models.py` tries another one on TensorFlow 2.21. A model takes the longest on
# TensorFlow 1.
SEEDS = {
    "current": (22, 109),  # 109: an unfrozen layer, whose variables TensorFlow does not watch
    "keras3_torch": (1003, 1004),
    "keras3_jax": (2000,),
    "tf_2_15": (3041,),
    "tf_1_15": (4024,),
}


@pytest.mark.parametrize("build", IMPLEMENTATIONS)
def test_random_models_are_certified_or_refused(
    build: str, tmp_path: Path, tmp_path_factory
) -> None:
    found = checked(build, SEEDS[build], tmp_path, tmp_path_factory)
    certified: list[str] = []
    for model in found:
        assert model.faults == [], random_models.model(model.seed)[0]
        certified += model.certified
    assert len(certified) >= len(found)
    assert set(certified) == set(IMPLEMENTATIONS[build])
