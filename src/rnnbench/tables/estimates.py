"""The measurements that tables are made of, and the reference of each configuration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property

import pandas as pd

from rnnbench.axes import GROUP, KEY, Row
from rnnbench.records.overrides import Overrides, is_model_key, option_of
from rnnbench.records.record import Record
from rnnbench.sources.prices import PriceList
from rnnbench.tables.certificates import Certificates, Curves, Judgement
from rnnbench.tables.frame import (
    Groups,
    Key,
    columns_of,
    implementation_of,
    run_facts,
    run_values,
    runs_for_estimates,
    split,
)
from rnnbench.tables.ratios import Estimates
from rnnworker.options import OF_THE_FUNCTION, named

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

    @property
    def group_axes(self) -> list[str]:
        """The axes within whose choices configurations are compared."""
        return [name for name in GROUP if name not in self.reference]

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
        """The seconds and ratios of all configurations."""
        return Estimates(runs_for_estimates(self.values))

    @cached_property
    def against(self) -> dict[Key, Key]:
        """Each configuration → its reference, including those whose runs are void: a void reference
        is not replaced by another configuration."""
        keys = self.frame[KEY].drop_duplicates().itertuples(index=False, name=None)
        return references(keys, self.reference)

    @cached_property
    def judge(self) -> Callable[[Key, Key], Judgement]:
        """Whether two configurations compute the same function (`Certificates.judge`)."""
        judge = self.certificates.judge
        return cache(lambda own, base: judge(_certified(own), _certified(base)))

    @cached_property
    def curves(self) -> Callable[[Key, Key], Curves | None]:
        """How far loss curves of two configurations are apart (`Certificates.curves`)."""
        curves = self.certificates.curves
        return cache(lambda own, base: curves(_certified(own), _certified(base)))

    @cached_property
    def why_not_learning(self) -> Callable[[Key], str | None]:
        """Why a configuration applies wrong gradients, or None."""
        return cache(lambda key: self.certificates.why_not_learning(_certified(key)))


def _certified(key: Key) -> Row:
    """The columns of a configuration as certificates name it: keys of the model are part of the
    variant again (`with_named_options`)."""
    columns = columns_of(key)
    of_model = columns["options"].those(is_model_key)
    if of_model:
        variant = columns["variant"].items + of_model.items
        columns["variant"] = Overrides.of(dict(variant))
        columns["options"] = columns["options"].those(lambda name: not is_model_key(name))
    return columns


def key_of(row: Row) -> Key:
    """The key (values of `KEY`) of a configuration, given a row of any table that has them."""
    return tuple(row[name] for name in KEY)


def references(keys: Iterable[Key], reference: Mapping[str, str]) -> dict[Key, Key]:
    """The key of each configuration → the key of its reference, which may be missing in `keys`.

    - `keys`: those of all configurations.
    - `reference`: see `Measurements`.

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
    """`table` after moving the function options and the keys of the model that `reference` names
    from `variant` to `options` and `implementation`.

    Configurations that differ only in them then belong to one group and have the same reference. A
    value that is the reference's own is not part of the name: ``keras``, ``keras dropout=0.2``.

    - `table`: has the columns of a configuration.
    - `reference`: see `Measurements`.
    """
    if table.empty:
        return table
    names = list(table[NAMING].itertuples(index=False, name=None))
    moved = {}
    for row in set(names):  # thousands of rows share a few names
        moved[row] = move_named_options(dict(zip(NAMING, row, strict=True)), reference)
    columns = {}
    for name in ("variant", "options", "implementation"):
        columns[name] = [moved[row][name] for row in names]
    return table.assign(**columns)


def columns_of_record(record: Record, reference: Mapping[str, str]) -> dict[str, object]:
    """The columns of a record's configuration, as tables have them (see `with_named_options`)."""
    return move_named_options(run_facts(record), reference)


def move_named_options(row: Row, reference: Mapping[str, str]) -> Row:
    """A row after moving what `reference` names (see `with_named_options`).

    `row`: has the columns `NAMING`. It is not changed.
    """
    row = dict(row)
    of_function = set(named(reference)) & set(OF_THE_FUNCTION)
    moved = {key for key, _ in row["options"].items if option_of(key) in of_function}
    options = dict(row["options"].items)
    for key, value in row["variant"].items:
        if is_model_key(key) and key in reference:
            moved.add(key)
            options[key] = value
    if not moved:
        return row
    shown = {}
    for key, value in options.items():
        if key in moved:
            is_shown = value != reference.get(key)
        else:
            is_shown = option_of(key) not in OF_THE_FUNCTION
        if is_shown:
            shown[key] = value
    row["variant"] = row["variant"].those(lambda key: key not in moved)
    row["options"] = Overrides.of(options)
    row["implementation"] = implementation_of(row["rnn"], row["alias"], Overrides.of(shown))
    return row
