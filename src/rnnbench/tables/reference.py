"""The reference that each configuration is compared with."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rnnbench.axes import KEY
from rnnbench.records.overrides import Overrides
from rnnworker.options import PREFIX

if TYPE_CHECKING:
    import pandas as pd

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
