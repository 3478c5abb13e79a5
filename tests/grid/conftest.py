"""The project's own conf/, and a writable config folder beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rnnbench.grid.experiment import Experiment, load_experiment

CONF = Path(__file__).parents[2] / "conf"


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
def ask(extra: Path, conf: list[Path]) -> Callable[..., Experiment]:
    """An experiment of the given grids, written to a file and read back."""

    def make(*grids: str) -> Experiment:
        lines = "".join(f"  - {grid!r}\n" for grid in grids)
        (extra / "experiment" / "mine_to_ask.yaml").write_text(f"grids:\n{lines}")
        return load_experiment("mine_to_ask", conf)

    return make
