"""A cache for values computed from config sections that thousands of grid points share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


class IdentityCache(Generic[Value]):
    """Calls `function` once per object. The cache keeps a reference to each object, because the
    `id` of a deleted object may be reused."""

    def __init__(self, function: Callable[[Any], Value]):
        self._function = function
        self._cache: dict[int, tuple[Any, Value]] = {}

    def __call__(self, section: Any) -> Value:
        entry = self._cache.get(id(section))
        if entry is None:
            entry = self._cache[id(section)] = (section, self._function(section))
        return entry[1]
