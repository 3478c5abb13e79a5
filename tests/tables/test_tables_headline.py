"""The headline, which chooses the fastest of several, is wrong in at most one report of twenty."""

from __future__ import annotations

import pytest

from benchmarks.headline import share

TRIES = 600


@pytest.mark.parametrize("cells", [8, 12])
@pytest.mark.parametrize(("repeats", "noisy"), [(3, 1.0), (3, 3.0), (5, 1.0)])
def test_of_equal_contestants_a_fastest_is_claimed_in_at_most_5_percent(cells, repeats, noisy):
    assert share(TRIES, cells, repeats, 0.01, 0.03, noisy=noisy) <= 0.05


@pytest.mark.parametrize("cells", [8, 12])
def test_one_by_one_it_would_be_claimed_more_often(cells):
    assert share(TRIES, cells, 3, 0.01, 0.03, together=False) > 0.06


@pytest.mark.parametrize("cells", [8, 12])
def test_a_difference_of_a_tenth_is_still_shown(cells):
    assert share(TRIES, cells, 3, 0.01, 0.03, gain=0.1) >= 0.8
