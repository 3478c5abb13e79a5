"""The headline, which picks the fastest of several, is wrong in at most 5 % of the reports."""

from __future__ import annotations

import pytest

from benchmarks.headline import share

TRIES = 600


@pytest.mark.parametrize("count", [8, 12])
@pytest.mark.parametrize(("repeats", "noisy"), [(3, 1.0), (3, 3.0), (5, 1.0)])
def test_a_fastest_of_equal_contestants_is_claimed_in_at_most_5_percent(count, repeats, noisy):
    assert share(TRIES, count, repeats, 0.01, 0.03, noisy=noisy) <= 0.05


@pytest.mark.parametrize("count", [8, 12])
def test_separate_intervals_would_claim_it_more_often(count):
    assert share(TRIES, count, 3, 0.01, 0.03, together=False) > 0.06


@pytest.mark.parametrize("count", [8, 12])
def test_a_difference_of_10_percent_is_still_shown(count):
    assert share(TRIES, count, 3, 0.01, 0.03, gain=0.1) >= 0.8
