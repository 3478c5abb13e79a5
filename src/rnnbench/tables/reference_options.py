"""Makes the function options that the reference names part of the implementation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from rnnbench.records.overrides import Overrides, option_of
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
    options: Overrides = row["options"]
    own = options.those(lambda key: option_of(key) in names)
    if not own:
        return dict(row)
    shown = options.those(
        lambda key: (
            own.get(key) not in (None, reference.get(key)) or option_of(key) not in OF_THE_FUNCTION
        )
    )
    return {
        **row,
        "variant": row["variant"].those(lambda key: own.get(key) is None),
        "implementation": implementation_of(row["rnn"], row["alias"], shown),
    }


def _function_options(reference: Mapping[str, str]) -> set[str]:
    return {name for name in named(reference) if name in OF_THE_FUNCTION}
