from __future__ import annotations

from dataclasses import replace

from rnnbench.grid.order import plan_order
from rnnbench.grid.point import GridPoint

CELLS = [
    GridPoint(f"{letter}-s{seed}-r{repeat}", {}, {}, seed, repeat, None, {}, None)
    for letter in "abcdefgh"
    for seed in (0, 1)
    for repeat in (0, 1, 2)
]


def test_a_block_holds_each_cell_of_one_seed_and_repeat_once() -> None:
    planned = plan_order(CELLS, 0)
    assert [each.order for each in planned] == list(range(len(CELLS)))
    assert [each.block for each in planned] == sorted(each.block for each in planned)
    for block in range(6):
        members = [each.cell for each in planned if each.block == block]
        assert {cell.name[0] for cell in members} == set("abcdefgh")
        assert len(members) == 8
        assert len({(cell.seed, cell.repeat) for cell in members}) == 1


def test_the_order_is_random_but_seeded() -> None:
    assert plan_order(CELLS, 0) == plan_order(list(reversed(CELLS)), 0)
    assert plan_order(CELLS, 0) != plan_order(CELLS, 1)
    planned = plan_order(CELLS, 0)
    orders = [[p.cell.name[0] for p in planned if p.block == block] for block in range(6)]
    assert len({tuple(order) for order in orders}) > 1


def test_a_skipped_cell_is_not_planned() -> None:
    skipped = GridPoint("x-s0-r0", {}, {}, 0, 0, None, {}, "not here")
    assert plan_order([skipped], 0) == ()


def test_by_worth_every_block_of_a_grid_comes_before_the_next_grid() -> None:
    cells = [replace(cell, grid=int(cell.name[0] < "d")) for cell in CELLS]
    planned = plan_order(cells, 0, sequential=True)
    assert [each.cell.grid for each in planned] == [0] * 30 + [1] * 18
    assert [each.block for each in planned] == sorted(each.block for each in planned)
    assert planned[-1].block == 11
