"""What is worked out once for a section of a config that thousands of cells share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


class IdentityCache(Generic[Value]):
    """`function` of a section, called once for each object that it is given. Keeps them: an
    object that is gone could lend its identity to another one."""

    def __init__(self, function: Callable[[Any], Value]):
        self._function = function
        self._known: dict[int, tuple[Any, Value]] = {}

    def __call__(self, section: Any) -> Value:
        kept = self._known.get(id(section))
        if kept is None:
            kept = self._known[id(section)] = (section, self._function(section))
        return kept[1]
