"""The reference that each configuration is compared with, and the options that it names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from rnnbench.axes import KEY
from rnnbench.records.overrides import Overrides, option_of
from rnnbench.tables.frame import implementation_of
from rnnworker.options import OF_THE_FUNCTION, PREFIX, named

Key = tuple[Any, ...]


def key_of(row: Mapping[Any, Any]) -> Key:
    """The key (values of `KEY`) of a configuration, given a row of any table that has them."""
    return tuple(row[name] for name in KEY)


def keys_of(frame: pd.DataFrame) -> list[Key]:
    """The distinct keys in a frame with the columns `KEY`, in its order."""
    return list(frame[KEY].drop_duplicates().itertuples(index=False, name=None))


def references(keys: Iterable[Key], reference: Mapping[str, str]) -> dict[Key, Key]:
    """The key of each configuration → the key of its reference, which may be missing in `keys`.

    The reference has the choices that `reference` (axis → choice) names, no alias unless
    `reference` names one, and otherwise the choices of the configuration; both compute the same
    function. Options belong to the implementation, so they may differ if `reference` names the
    implementation: the reference is the implementation without options, else the one with the same
    options, else the only one that exists. If `reference` names options (``rnn.options.NAME`` →
    value), the reference is the implementation with these and the configuration's other options,
    else the one with only these.
    """
    configurations = {key: dict(zip(KEY, key, strict=True)) for key in keys}
    required = Overrides.of({key: reference[key] for key in reference if key.startswith(PREFIX)})
    axes = {axis: choice for axis, choice in reference.items() if axis in KEY}
    available: dict[Key, list[Overrides]] = {}
    for configuration in configurations.values():
        same = available.setdefault(_without_options(configuration), [])
        same.append(configuration["options"])
    result = {}
    for key, configuration in configurations.items():
        base = {**configuration, "alias": "", **axes}
        candidates = available.get(_without_options(base), [])
        if required:
            base["options"] = _with_required_options(configuration, required, candidates)
        elif "rnn" in reference:
            base["options"] = _closest_options(configuration, candidates)
        result[key] = key_of(base)
    return result


def _closest_options(
    configuration: Mapping[str, Any], candidates: Sequence[Overrides]
) -> Overrides:
    """The options of the reference, if `reference` names only the implementation."""
    own: Overrides = configuration["options"]
    for options in candidates:
        if configuration["variant"].contains(options):
            return options
    return candidates[0] if own not in candidates and len(candidates) == 1 else own


def _with_required_options(
    configuration: Mapping[str, Any], required: Overrides, candidates: Collection[Overrides]
) -> Overrides:
    """The options of the reference, if `reference` names options (`required`)."""
    own: Overrides = configuration["options"]
    with_others = Overrides.of({**dict(own.items), **dict(required.items)})
    return with_others if with_others in candidates else required


def _without_options(configuration: Mapping[str, Any]) -> Key:
    return tuple(configuration[name] for name in KEY if name != "options")


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
