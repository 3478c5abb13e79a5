"""The order of measuring: block by block, each in a seeded random order.

Repeats of a cell are spread over the whole time of an experiment, so that drift of the machine
does not land on one implementation.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from rnnbench.grid.point import GridPoint


@dataclass(frozen=True)
class Planned:
    """A cell and its place. A `block` holds each cell of one seed and repeat once; `order`
    counts over all blocks. Both from 0."""

    cell: GridPoint
    block: int
    order: int


def plan_order(
    cells: Sequence[GridPoint], order_seed: int, sequential: bool = False
) -> tuple[Planned, ...]:
    """The cells that run, in the order of measuring; skipped ones are left out. Depends on
    which cells there are, not on the order they come in. `sequential`: grid by grid, each in
    blocks of its own."""
    runnable = sorted((cell for cell in cells if cell.skip is None), key=lambda cell: cell.name)
    blocks: dict[tuple[int, int, int], list[GridPoint]] = {}
    for cell in runnable:
        blocks.setdefault((cell.grid if sequential else 0, cell.repeat, cell.seed), []).append(cell)
    planned: list[Planned] = []
    for number, (worth, repeat, seed) in enumerate(sorted(blocks)):
        members = blocks[worth, repeat, seed]
        random.Random(f"{order_seed}-s{seed}-r{repeat}").shuffle(members)
        planned += [
            Planned(cell, number, len(planned) + place) for place, cell in enumerate(members)
        ]
    return tuple(planned)
