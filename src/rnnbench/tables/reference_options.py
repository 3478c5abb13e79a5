"""Options of an implementation that the reference names, as an axis of every table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rnnbench.tables.frame import implementation_of
from rnnworker.options import OF_THE_FUNCTION, named

if TYPE_CHECKING:
    import pandas as pd

PARTS = ["variant", "rnn", "options", "alias", "implementation"]


def with_named_options(table: pd.DataFrame, reference: Mapping[str, str]) -> pd.DataFrame:
    """`table` (any with the columns of a cell) with the options of the function that `reference`
    names moved from `variant` into `implementation`: cells that differ in them alone stand side by
    side and have one reference."""
    if not _of_the_function(reference) or table.empty:
        return table
    cells = table[PARTS].drop_duplicates().to_dict("records")
    moved = {tuple(cell.values()): move(cell, reference) for cell in cells}
    keys = list(table[PARTS].itertuples(index=False, name=None))
    return table.assign(
        **{name: [moved[key][name] for key in keys] for name in ("variant", "implementation")}
    )


def move(cell: Mapping[Any, Any], reference: Mapping[str, str]) -> dict[str, Any]:
    """The same of one cell."""
    found = {str(key): value for key, value in cell.items()}
    names = _of_the_function(reference)
    options = _words(found["options"])
    own = [word for word in options if word.partition("=")[0] in names]
    if not own:
        return found
    shown = [w for w in options if w in own or w.partition("=")[0] not in OF_THE_FUNCTION]
    rest = [word for word in _words(found["variant"]) if word not in own]
    return {
        **found,
        "variant": ", ".join(rest),
        "implementation": implementation_of(found["rnn"], found["alias"], ", ".join(shown)),
    }


def _of_the_function(reference: Mapping[str, str]) -> set[str]:
    return {name for name in named(reference) if name in OF_THE_FUNCTION}


def _words(text: Any) -> list[str]:
    return list(filter(None, str(text).split(", ")))
