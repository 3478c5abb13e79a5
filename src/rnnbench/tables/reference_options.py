"""Makes the function options that the reference names part of the implementation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from rnnbench.records.labels import parts_of
from rnnbench.tables.frame import implementation_of
from rnnworker.options import OF_THE_FUNCTION, named

AXES = ["variant", "rnn", "options", "alias", "implementation"]


def with_named_options(table: pd.DataFrame, reference: Mapping[str, str]) -> pd.DataFrame:
    """`table` (with the columns of a configuration) after moving the function options that
    `reference` names from `variant` to `implementation`, so that configurations that differ only in
    them belong to one group and have the same reference. An option with the reference's own value
    is not part of the name: ``keras``, ``keras activation=relu``."""
    if not _function_options(reference) or table.empty:
        return table
    rows = table[AXES].drop_duplicates().to_dict("records")
    moved = {tuple(row.values()): move_named_options(row, reference) for row in rows}
    keys = list(table[AXES].itertuples(index=False, name=None))
    return table.assign(
        **{name: [moved[key][name] for key in keys] for name in ("variant", "implementation")}
    )


def move_named_options(row: Mapping[Any, Any], reference: Mapping[str, str]) -> dict[str, Any]:
    """A row after moving the function options that `reference` names (see `with_named_options`)."""
    names = _function_options(reference)
    options = parts_of(row["options"])
    own = [part for part in options if _name(part) in names]
    if not own:
        return dict(row)
    of_reference = {f"{name}={value}" for name, value in named(reference).items()}
    shown = [
        part
        for part in options
        if (part in own and part not in of_reference) or _name(part) not in OF_THE_FUNCTION
    ]
    rest = [part for part in parts_of(row["variant"]) if part not in own]
    return {
        **row,
        "variant": ", ".join(rest),
        "implementation": implementation_of(row["rnn"], row["alias"], ", ".join(shown)),
    }


def _function_options(reference: Mapping[str, str]) -> set[str]:
    return {name for name in named(reference) if name in OF_THE_FUNCTION}


def _name(part: str) -> str:
    return part.partition("=")[0]
