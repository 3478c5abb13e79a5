"""An experiment, as its file states it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rnnbench.grid.catalogue import display_path
from rnnbench.grid.repeats import Repeats

Lead = Literal["time", "devices", "kernels", "calls"]


@dataclass(frozen=True)
class Experiment:
    """A set of grids to measure, with the settings of the measurement and of its report.

    - `grids`: each a tuple of Hydra overrides.
    - `reference`: axis → the choice that speed-ups are relative to, or ``rnn.options.NAME`` → the
      value.
    - `order_seed`: seed of the order of measuring.
    - `probe`: whether the devices are probed first.
    - `repeats`: the stopping rule; None if the grids set the number of repeats.
    - `sequential` (``grid_order: sequential``): all blocks of the first grid come before those of
      the second.
    - `lead`: what the report leads with: ``time``, ``devices``, ``kernels`` or ``calls``.
    - `file`: the file that the experiment was read from.
    """

    name: str
    title: str
    about: str
    grids: tuple[tuple[str, ...], ...]
    reference: Mapping[str, str] = field(default_factory=dict)
    order_seed: int = 0
    probe: bool = True
    file: Path = Path("experiment.yaml")
    repeats: Repeats | None = None
    sequential: bool = False
    lead: Lead = "time"

    def where(self, grid: int) -> str:
        """The location of grid number `grid`, counted from 0, for errors."""
        return f'{display_path(self.file)}, grid "{" ".join(self.grids[grid])}"'
