"""The overrides of a configuration as the value of a table's column."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rnnworker.options import PREFIX

SEPARATOR = ", "


@dataclass(frozen=True)
class Overrides:
    """Overrides: equal if they have the same `items`, sorted by and shown as their text
    (``batch=64, units=512``), false if there are none. Not iterable: pandas would take it for a
    column.

    - `items`: pairs of a dotted key and its value as text, sorted by key.
    """

    items: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, overrides: Mapping[str, Any]) -> Overrides:
        return cls(tuple(sorted((key, str(value)) for key, value in overrides.items())))

    @property
    def texts(self) -> list[str]:
        """Each override as text, with the key's last component: ``batch=64``."""
        return [
            f"{last_component(key)}={value.replace(SEPARATOR, ',')}" for key, value in self.items
        ]

    def get(self, key: str) -> str | None:
        """The value of a dotted key, or None."""
        return dict(self.items).get(key)

    def those(self, condition: Callable[[str], bool]) -> Overrides:
        """The overrides whose dotted key satisfies `condition`."""
        return Overrides(tuple(item for item in self.items if condition(item[0])))

    def contains(self, other: Overrides) -> bool:
        """Whether it has all items of `other`."""
        return set(other.items) <= set(self.items)

    def __bool__(self) -> bool:
        return bool(self.items)

    def __str__(self) -> str:
        return SEPARATOR.join(self.texts)

    def __lt__(self, other: Overrides) -> bool:
        return str(self) < str(other)


NONE = Overrides()


def last_component(key: str) -> str:
    return key.rpartition(".")[2]


def is_of_section(key: str, section: str) -> bool:
    """Whether a dotted key changes the config's `section`."""
    return key.removeprefix("~").partition(".")[0] == section


def option_of(key: str) -> str:
    """The name of the option that a dotted key sets: ``rnn.options.NAME`` → ``NAME``, or ``""``."""
    return key.removeprefix(PREFIX) if key.startswith(PREFIX) else ""
