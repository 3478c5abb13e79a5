"""The overrides of a configuration as the value of a table's column, and the labels of choices with
overrides of their own section, which match grid points, implementations of certificates and rows
of tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from rnnworker.options import PREFIX

SEPARATOR = ", "
Settings = Mapping[str, object]  # dotted key → its value, of any type, as a user sets it


@dataclass(frozen=True)
class Overrides:
    """Overrides: equal if they have the same `items`, sorted by and shown as their text
    (``batch=64, units=512``), false if there are none. Not iterable: pandas would take it for a
    column.

    - `items`: pairs of a dotted key and its value as text, sorted by key.
    """

    items: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, overrides: Settings) -> Overrides:
        return cls(tuple(sorted((key, str(value)) for key, value in overrides.items())))

    @property
    def texts(self) -> list[str]:
        """Each override as text, with the key's last component: ``batch=64``."""
        return [
            f"{last_component(key)}={value.replace(SEPARATOR, ',')}" for key, value in self.items
        ]

    @property
    def complete(self) -> str:
        """All dotted keys and values, which differs for different overrides:
        ``model.batch="64"``."""
        return SEPARATOR.join(f"{key}={json.dumps(value)}" for key, value in self.items)

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
        return (str(self), self.items) < (str(other), other.items)


NONE = Overrides()


def flat(data: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yields the values of nested mappings with their dotted keys."""
    for key, value in data.items():
        dotted = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{dotted}.")
        else:
            yield dotted, value


def last_component(key: str) -> str:
    return key.rpartition(".")[2]


def section_of(key: str) -> str:
    """The section of the config that a dotted key changes."""
    return key.removeprefix("~").partition(".")[0]


def is_model_key(key: str) -> bool:
    """Whether a dotted key sets a key of the model, such as ``model.dropout``."""
    return section_of(key) == "model" and "." in key


def option_of(key: str) -> str:
    """The name of the option that a dotted key sets: ``rnn.options.NAME`` → ``NAME``, or ``""``."""
    return key.removeprefix(PREFIX) if key.startswith(PREFIX) else ""


def reference_label(reference: Mapping[str, str]) -> str:
    """Label of a reference: ``keras``, ``keras implementation=1``, ``keras, cpu_1``."""
    overrides = {key: choice for key, choice in reference.items() if "." in key}
    labels = {axis: choice for axis, choice in reference.items() if axis not in overrides}
    if overrides:
        labels["rnn"] = labelled(labels.get("rnn", ""), Overrides.of(overrides))
    return ", ".join(labels.values())


def label(choice: str, overrides: Settings, section: str) -> str:
    """``keras``, or ``cudnn_raw op=CudnnRNNV3`` if `overrides` change the choice's `section`."""
    return labelled(choice, Overrides.of(overrides).those(lambda key: section_of(key) == section))


def labelled(choice: str, overrides: Overrides) -> str:
    """The label of a choice whose section has these `overrides`."""
    return f"{choice} {overrides}".strip()
