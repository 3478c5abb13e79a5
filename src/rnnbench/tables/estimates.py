"""The measurements that tables are made of, and the reference of each configuration."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import pandas as pd

from rnnbench.axes import KEY
from rnnbench.records import timestamps
from rnnbench.records.overrides import Overrides, is_model_key, option_of
from rnnbench.sources.prices import PriceList
from rnnbench.tables.certificates import Certificates, Judgement
from rnnbench.tables.fit import RunValue
from rnnbench.tables.frame import Groups, Key, Row, columns_of, implementation_of, run_values, split
from rnnbench.tables.ratios import Estimates
from rnnworker.options import OF_THE_FUNCTION, named

DEVICE = ["model", "device", "machine"]
RUN_COLUMNS = [
    "log",
    "seconds",
    "pairing",
    "machine",
    "started",
    "companion",
    "state",
    "slowness",
]
NAMING = [
    "variant",
    "rnn",
    "options",
    "alias",
    "implementation",
]


@dataclass(frozen=True)
class Measurements:
    """What tables are made of.

    - `frame`: the tidy frame of the records.
    - `reference`: axis, ``rnn.options.NAME`` or ``model.KEY`` → choice or value, which
      configurations are compared with (`references`).
    - `certificates`: what judges whether two configurations compute the same function.
    - `prices`: the price list (None: no cost in USD).
    - `peaks`: device → precision → the TFLOP/s that its datasheet states.
    """

    frame: pd.DataFrame
    reference: Mapping[str, str] = field(default_factory=dict)
    certificates: Certificates = field(default_factory=Certificates)
    prices: PriceList | None = None
    peaks: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @cached_property
    def values(self) -> pd.DataFrame:
        """The `run_values` with companions."""
        return run_values(self.frame, companions=True)

    @cached_property
    def runs(self) -> pd.DataFrame:
        """The `values` without companions."""
        return self.values[~self.values["companion"]].reset_index(drop=True)

    @cached_property
    def groups(self) -> Groups:
        """Each configuration (values of `KEY`) → its `runs`."""
        return split(self.runs, KEY)

    @cached_property
    def estimates(self) -> Estimates:
        return estimates_of(self.values)

    @cached_property
    def against(self) -> dict[Key, Key]:
        """Each configuration → its reference, including those whose runs are void: a void reference
        is not replaced by another configuration."""
        return references(keys_of(self.frame), self.reference)

    @cached_property
    def judge(self) -> Callable[[Key, Key], Judgement]:
        """Whether two configurations compute the same function (`Certificates.judge`)."""
        return cache(lambda own, base: self.certificates.judge(_certified(own), _certified(base)))

    @cached_property
    def why_not_learning(self) -> Callable[[Key], str | None]:
        """Why a configuration applies wrong gradients, or None."""
        return cache(lambda key: self.certificates.why_not_learning(_certified(key)))


def _certified(key: Key) -> Row:
    """The columns of a configuration as certificates name it: keys of the model are part of the
    variant again (`with_named_options`)."""
    columns = columns_of(key)
    of_model = columns["options"].those(is_model_key)
    if not of_model:
        return columns
    return {
        **columns,
        "variant": Overrides(tuple(sorted(columns["variant"].items + of_model.items))),
        "options": columns["options"].those(lambda name: not is_model_key(name)),
    }


def estimates_of(values: pd.DataFrame, axes: Sequence[str] = tuple(KEY)) -> Estimates:
    """The `Estimates` from a table of `run_values` with companions. Keys are tuples of the values
    of `axes`, the columns that identify a configuration."""
    keys = values[list(axes)].itertuples(index=False, name=None)
    devices = values[DEVICE].itertuples(index=False, name=None)
    rows: Iterable[Any] = values[RUN_COLUMNS].itertuples(index=False)
    runs = []
    for key, device, row in zip(keys, devices, rows, strict=True):
        in_turns = not math.isnan(row.log)
        runs.append(
            RunValue(
                key=key,
                device=device,
                log=row.log if in_turns else math.log(row.seconds),
                unit=str(row.pairing),
                machine=row.machine,
                started=timestamps.read(row.started).timestamp(),
                is_companion=bool(row.companion),
                in_turns=in_turns,
                state=int(row.state),
                slowness=row.slowness,
            )
        )
    return Estimates(runs)


def key_of(row: Row) -> Key:
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
    value) or keys of the model, which `with_named_options` has moved to the options, the reference
    is the implementation with these and the configuration's other options, else the one with only
    these.
    """
    axes = {}
    options = {}
    for name, value in reference.items():
        if name in KEY:
            axes[name] = value
        elif "." in name:
            options[name] = value
    required = Overrides.of(options)

    configurations = {key: columns_of(key) for key in keys}
    available = defaultdict(list)
    for configuration in configurations.values():
        without = key_of({**configuration, "options": None})
        available[without].append(configuration["options"])

    result = {}
    for key, configuration in configurations.items():
        base = {**configuration, "alias": "", **axes}
        candidates = available.get(key_of({**base, "options": None}), [])
        if required:
            others = dict(configuration["options"].items)
            with_others = Overrides.of(others | options)
            base["options"] = with_others if with_others in candidates else required
        elif "rnn" in reference:
            contained = [each for each in candidates if configuration["variant"].contains(each)]
            if contained:
                base["options"] = contained[0]
            elif len(candidates) == 1:
                base["options"] = candidates[0]
        result[key] = key_of(base)
    return result


def with_named_options(table: pd.DataFrame, reference: Mapping[str, str]) -> pd.DataFrame:
    """`table` (with the columns of a configuration) after moving the function options and the keys
    of the model that `reference` names from `variant` to `options` and `implementation`, so that
    configurations that differ only in them belong to one group and have the same reference. A value
    that is the reference's own is not part of the name: ``keras``, ``keras dropout=0.2``."""
    moves_any = _function_options(reference) or any(map(is_model_key, reference))
    if not moves_any or table.empty:
        return table
    # Thousands of rows share a few names.
    move = cache(lambda *row: move_named_options(dict(zip(NAMING, row, strict=True)), reference))
    columns: dict[str, list[Any]] = {"variant": [], "options": [], "implementation": []}
    for row in table[NAMING].itertuples(index=False, name=None):
        moved = move(*row)
        for name, values in columns.items():
            values.append(moved[name])
    return table.assign(**columns)


def move_named_options(row: Row, reference: Mapping[str, str]) -> Row:
    """A row after moving what `reference` names (see `with_named_options`)."""
    names = _function_options(reference)
    own = row["options"].those(lambda key: option_of(key) in names)
    of_model = row["variant"].those(lambda key: is_model_key(key) and key in reference)
    if not own and not of_model:
        return dict(row)
    options = Overrides(tuple(sorted(row["options"].items + of_model.items)))
    moved = {*dict(own.items), *dict(of_model.items)}
    shown = {}
    for key, value in options.items:
        is_another = key in moved and value != reference.get(key)
        if is_another or (key not in moved and option_of(key) not in OF_THE_FUNCTION):
            shown[key] = value
    return {
        **row,
        "variant": row["variant"].those(lambda key: key not in moved),
        "options": options,
        "implementation": implementation_of(row["rnn"], row["alias"], Overrides.of(shown)),
    }


def _function_options(reference: Mapping[str, str]) -> set[str]:
    """The names of the options in `reference` that change the function."""
    return set(named(reference)) & set(OF_THE_FUNCTION)
