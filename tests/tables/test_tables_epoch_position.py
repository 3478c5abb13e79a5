"""``benchmarks/epoch_position.py`` finds an existing effect, and no other."""

from __future__ import annotations

import importlib.util
import math
import random

import pytest

from tests.conftest import ROOT

_spec = importlib.util.spec_from_file_location(
    "epoch_position", ROOT / "benchmarks/epoch_position.py"
)
assert _spec is not None and _spec.loader is not None
epoch_position = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(epoch_position)


def simulated_runs(longer: float) -> list[list[float]]:
    """24 runs of 8 epochs with different levels and 2 % noise, whose first and last epochs are
    longer by the share `longer`."""
    generator = random.Random(0)
    runs = []
    for run in range(24):
        seconds = [0.1 * (1 + run) * math.exp(generator.gauss(0.0, 0.02)) for _ in range(8)]
        runs.append([seconds[0] * (1 + longer), *seconds[1:-1], seconds[-1] * (1 + longer)])
    return runs


def test_a_longer_last_epoch_is_found() -> None:
    last = epoch_position.effects(simulated_runs(0.08))[-1]
    assert math.expm1(sum(last) / len(last)) == pytest.approx(0.08, abs=0.015)
    text = epoch_position.table(simulated_runs(0.08))
    lines = text.splitlines()
    assert lines[2].startswith("| 1 | +") and lines[2].endswith("apart from 0 (does not count) |")
    assert lines[9].startswith("| 8 | +") and lines[9].endswith("apart from 0 |")
    assert float(text.rpartition("p = ")[2].strip(". \n")) < 0.001


def test_without_an_effect_none_is_reported() -> None:
    text = epoch_position.table(simulated_runs(0.0))
    assert text.count("apart from 0") <= 1  # of eight 95 % intervals
    assert float(text.rpartition("p = ")[2].strip(". \n")) > 0.05


def test_effects_by_hand() -> None:
    (first, second, third) = epoch_position.effects([[1.0, math.e, math.e**2]])
    assert [first, second, third] == [
        [pytest.approx(-1.5)],
        [pytest.approx(-1.0)],
        [pytest.approx(1.0)],
    ]
    assert "one run" in epoch_position.table([[1.0, 2.0, 4.0]])
