from __future__ import annotations

import math
import random

import pytest

from rnnbench.planning.forecast import (
    GUESS_SECONDS,
    GUESS_SPREAD,
    Past,
    forecast,
    repeats_for,
    run_spread,
)
from rnnbench.tables.stats import ratio_interval


def past(cell: str, *walls: float) -> list[Past]:
    return [Past(f"{cell}-s0-r{i}", wall, 1000, wall / 10) for i, wall in enumerate(walls)]


def test_without_a_past_it_is_a_stated_guess() -> None:
    found = forecast(["a-s0-r0", "a-s0-r1"], [])
    assert found.guessed == found.left == 2
    assert found.seconds == pytest.approx(2 * GUESS_SECONDS, rel=0.1)
    assert (found.spread, found.freedom) == (GUESS_SPREAD, 0)


def test_known_cells_count_with_their_own_times() -> None:
    known = [*past("a", 10, 12), *past("b", 100)]
    found = forecast(["a-s0-r7", "b-s1-r0", "c-s0-r0"], known)
    assert found.seconds == pytest.approx(11 + 100 + 55.5 + 3 * 2)
    assert found.guessed == 1
    assert found.bytes == 3000


def test_spread_is_pooled_within_cells() -> None:
    runs = [*past("a", 10, 10 * math.exp(0.02)), *past("b", 90, 90 * math.exp(0.02))]
    spread, freedom = run_spread(runs)
    assert (spread, freedom) == (pytest.approx(0.02 / math.sqrt(2)), 2)


def test_where_these_cells_know_too_little_the_machines_others_are_asked() -> None:
    few = past("a", 10, 11)
    many = [run for cell in "bcdef" for run in past(cell, 10, 10 * math.exp(0.02))]
    found = forecast(["a-s0-r2"], few, lambda: many)
    assert (found.freedom, found.borrowed) == (6, True)
    found = forecast(["b-s0-r2"], many, lambda: pytest.fail("asked though enough is known"))
    assert (found.spread, found.borrowed) == (pytest.approx(0.02 / math.sqrt(2)), False)


@pytest.mark.parametrize("spread", [0.01, 0.03])
@pytest.mark.parametrize("difference", [0.02, 0.05, 0.10])
def test_that_many_repeats_show_it_four_times_in_five(difference: float, spread: float) -> None:
    repeats = repeats_for(difference, spread)
    assert repeats is not None
    generator = random.Random(1)

    def cell(level: float) -> list[float]:
        return [level * math.exp(generator.gauss(0, spread)) for _ in range(repeats)]

    shown = [ratio_interval(cell(1 + difference), cell(1.0)).shown_different for _ in range(400)]
    assert sum(shown) / 400 > 0.74
    if repeats > 5:
        fewer = repeats // 2
        generator = random.Random(2)
        shown = [
            ratio_interval(cell(1 + difference)[:fewer], cell(1.0)[:fewer]).shown_different
            for _ in range(400)
        ]
        assert sum(shown) / 400 < 0.74


def test_no_number_of_repeats_is_enough_for_everything() -> None:
    assert repeats_for(1e-5, 0.3) is None


def test_the_spread_is_of_what_was_compared_alike() -> None:
    """How a cell's steps took against its round's says something beside the same cells only, and
    nothing beside seconds."""
    pair, four = ("a", "b"), ("a", "b", "c", "d")
    values = [(1.01, pair), (1.03, pair), (0.51, four), (0.52, four), (7.0, ()), (9.0, ())]
    runs = [Past(f"a-s0-r{i}", 1.0, 1000, value, by) for i, (value, by) in enumerate(values)]
    spread, freedom = run_spread(runs)
    assert freedom == 2 and 0.01 < spread < 0.02
    alone, freedom = run_spread(runs[4:])
    assert freedom == 1 and alone > 0.1
