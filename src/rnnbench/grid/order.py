"""The order of measuring: block by block, each block in a seeded random order.

The repeats of a configuration are spread over the whole duration of an experiment, so that drift of
the machine does not affect one implementation more than the others.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from rnnbench.grid.point import GridPoint


@dataclass(frozen=True)
class OrderedPoint:
    """A grid point with its position in the order of measuring. `block`: number of its block, which
    contains all grid points of one seed and repeat; `order`: position over all blocks. Both count
    from 0."""

    point: GridPoint
    block: int
    order: int


def plan_order(
    points: Sequence[GridPoint], order_seed: int, sequential: bool = False
) -> tuple[OrderedPoint, ...]:
    """The grid points that are not skipped, in the order of measuring. The result depends on the
    set of `points`, not on their order. `sequential`: grid by grid, each in separate blocks."""
    runnable = sorted((point for point in points if point.skip is None), key=lambda p: p.name)
    blocks: dict[tuple[int, int, int], list[GridPoint]] = {}
    for point in runnable:
        grid = point.grid if sequential else 0
        blocks.setdefault((grid, point.repeat, point.seed), []).append(point)
    ordered: list[OrderedPoint] = []
    for number, ((_, repeat, seed), block) in enumerate(sorted(blocks.items())):
        random.Random(f"{order_seed}-s{seed}-r{repeat}").shuffle(block)
        ordered += [
            OrderedPoint(point, number, len(ordered) + position)
            for position, point in enumerate(block)
        ]
    return tuple(ordered)
