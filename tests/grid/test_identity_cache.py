from __future__ import annotations

from rnnbench.grid.identity_cache import IdentityCache


def test_each_object_is_asked_once_and_equal_ones_are_not_taken_for_it() -> None:
    asked = []
    shared = IdentityCache(lambda section: asked.append(section) or len(asked))
    one, equal = {"units": 64}, {"units": 64}
    assert [shared(one), shared(equal), shared(one)] == [1, 2, 1]
    assert asked == [one, equal]


def test_an_object_that_is_gone_does_not_lend_its_identity() -> None:
    shared = IdentityCache(lambda section: section["units"])
    assert [shared({"units": units}) for units in range(100)] == list(range(100))
