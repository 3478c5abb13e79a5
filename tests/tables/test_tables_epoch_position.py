"""``benchmarks/epoch_position.py`` finds an effect that is there, and none that is not."""

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


def made_up(longer: float) -> list[list[float]]:
    """24 runs of 8 epochs of different lengths, 2 % noise, the first and the last epoch longer by
    `longer`."""
    stream = random.Random(0)
    runs = []
    for run in range(24):
        seconds = [0.1 * (1 + run) * math.exp(stream.gauss(0.0, 0.02)) for _ in range(8)]
        runs.append([seconds[0] * (1 + longer), *seconds[1:-1], seconds[-1] * (1 + longer)])
    return runs


def test_a_longer_last_epoch_is_found() -> None:
    last = epoch_position.effects(made_up(0.08))[-1]
    assert math.expm1(sum(last) / len(last)) == pytest.approx(0.08, abs=0.015)
    told = epoch_position.table(made_up(0.08))
    lines = told.splitlines()
    assert lines[2].startswith("| 1 | +") and lines[2].endswith("apart from 0 (does not count) |")
    assert lines[9].startswith("| 8 | +") and lines[9].endswith("apart from 0 |")
    assert float(told.rpartition("p = ")[2].strip(". \n")) < 0.001


def test_without_an_effect_none_is_told() -> None:
    told = epoch_position.table(made_up(0.0))
    assert told.count("apart from 0") <= 1  # of eight 95 % intervals
    assert float(told.rpartition("p = ")[2].strip(". \n")) > 0.05


def test_by_hand() -> None:
    (one, two, three) = epoch_position.effects([[1.0, math.e, math.e**2]])
    assert [one, two, three] == [
        [pytest.approx(-1.5)],
        [pytest.approx(-1.0)],
        [pytest.approx(1.0)],
    ]
    assert "one run" in epoch_position.table([[1.0, 2.0, 4.0]])
