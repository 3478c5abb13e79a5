"""A second config folder next to the project's conf/, the expansion of grids, and their errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rnnbench.errors import ConfigError
from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import load_experiment
from rnnbench.grid.point import GridPoint
from tests.conftest import ROOT

Expand = Callable[..., tuple[GridPoint, ...]]
CONF = ROOT / "conf"


# A user-supplied model.
MINE = """
def prepare(source, config):
    return source

def build(keras, recurrent, config):
    inputs = keras.layers.Input(shape=(8, 8))
    return keras.models.Model(inputs, keras.layers.Dense(10)(recurrent(32)(inputs)))
"""
MINE_YAML = """
function: mine.py:build
data: {prepare: mine.py:prepare}
batch: 32
epochs: 5
optimizer: {name: adam, learning_rate: 0.001}
loss: sparse_categorical_crossentropy
recurrent: true
"""


@pytest.fixture
def extra(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    for group in ("experiment", "model", "rnn"):
        (folder / group).mkdir(parents=True)
    return folder


@pytest.fixture
def conf(extra: Path) -> list[Path]:
    return [CONF, extra]


@pytest.fixture
def expanded(extra: Path, conf: list[Path]) -> Expand:
    """A function that writes grids to an experiment's file and expands the experiment. Keyword
    arguments are those of `expand`."""

    def expand_grids(*grids: str, **options) -> tuple[GridPoint, ...]:
        lines = "".join(f"  - {grid!r}\n" for grid in grids)
        (extra / "experiment" / "from_grids.yaml").write_text(f"grids:\n{lines}")
        return expand(load_experiment("from_grids", conf), conf, **options)

    return expand_grids


def assert_error(message: str, function: Callable[..., Any], *arguments: Any) -> None:
    """The call raises an error with `message`, its place and a fix."""
    with pytest.raises(ConfigError, match=message) as caught:
        function(*arguments)
    assert caught.value.where and caught.value.remedy
