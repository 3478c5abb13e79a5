"""Which cell each cell is compared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rnnbench.tables.frame import CELL
from rnnworker.options import named

if TYPE_CHECKING:
    import pandas as pd

# What a reference may name, beside which everything else of a cell stays as it is.
KEY = [name for name in CELL if name != "implementation"]
Key = tuple[Any, ...]


def key_of(cell: Mapping[Any, Any]) -> Key:
    """The key of one cell, a row of any table of cells."""
    return tuple(cell[name] for name in KEY)


def keys_of(frame: pd.DataFrame) -> list[Key]:
    """The key of each cell in a frame with the columns `KEY`, in their order."""
    return list(frame[KEY].drop_duplicates().itertuples(index=False, name=None))


def references(cells: Iterable[Key], reference: Mapping[str, str]) -> dict[Key, Key]:
    """Key (values of `KEY`) of each of `cells` → the key of the cell that it is compared with,
    which need not be there.

    That one has the same choices but those that `reference` (axis → choice) names, no alias unless
    `reference` names one, and computes the same function. The options of an implementation belong
    to it, so where `reference` names the implementation they may differ: the one without options of
    its own is taken, else the one with the same, else the only one there is. Where it names options
    (``rnn.options.NAME`` → value), the one with these and the cell's others is, else the one with
    these alone.
    """
    keys = list(dict.fromkeys(cells))
    given = named(reference)
    axes = {axis: choice for axis, choice in reference.items() if axis in KEY}
    alike: dict[Key, list[str]] = {}
    for key in keys:
        cell = dict(zip(KEY, key, strict=True))
        alike.setdefault(_without_options(cell), []).append(cell["options"])
    found = {}
    for key in keys:
        cell = dict(zip(KEY, key, strict=True))
        wanted = {**cell, "alias": "", **axes}
        if given:
            wanted["options"] = _named(cell, given, alike.get(_without_options(wanted), []))
        elif "rnn" in reference:
            wanted["options"] = _options(cell, alike.get(_without_options(wanted), []))
        found[key] = key_of(wanted)
    return found


def _options(cell: Mapping[str, Any], there: list[str]) -> str:
    """Which options the reference of `cell` has, of those that are `there`."""
    function = set(str(cell["variant"]).split(", "))
    plain = [options for options in there if not options or set(options.split(", ")) <= function]
    if plain:
        return plain[0]
    if cell["options"] in there or len(there) != 1:
        return str(cell["options"])
    return there[0]


def _named(cell: Mapping[str, Any], given: Mapping[str, str], there: list[str]) -> str:
    """Which options the reference of `cell` has, of those that are `there`, where it has to have
    those that are `given`."""
    alone = {f"{name}={value}" for name, value in given.items()}
    own = set(filter(None, str(cell["options"]).split(", ")))
    others = {word for word in own if word.partition("=")[0] not in given}
    for wanted in (alone | others, alone):
        for options in there:
            if set(options.split(", ")) == wanted:
                return options
    return ", ".join(sorted(alone))


def _without_options(cell: Mapping[str, Any]) -> Key:
    return tuple(cell[name] for name in KEY if name != "options")
