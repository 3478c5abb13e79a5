from __future__ import annotations

from rnnbench.grid.identity_cache import IdentityCache


def test_the_function_is_called_once_per_object_and_equal_objects_are_distinct() -> None:
    calls = []
    cached = IdentityCache(lambda section: calls.append(section) or len(calls))
    section, equal = {"units": 64}, {"units": 64}
    assert [cached(section), cached(equal), cached(section)] == [1, 2, 1]
    assert calls == [section, equal]


def test_the_identity_of_a_deleted_object_is_not_reused() -> None:
    cached = IdentityCache(lambda section: section["units"])
    assert [cached({"units": units}) for units in range(100)] == list(range(100))
