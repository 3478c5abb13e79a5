"""The least-squares fit to the log seconds of runs, from which the estimates of `ratios` follow.
No side effects.

The log seconds of a run are modelled as

    log seconds  =  configuration + unit + noise,

where a unit is a round in turns, or a block of runs that were measured on their own. Least squares
(Fisher, *Statistical Methods for Research Workers*, 1925, two-way analysis) gives the seconds of
each configuration; if all have a run in every unit, these are geometric means.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from itertools import chain

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from rnnbench.tables.effects import RunValue
from rnnbench.tables.stats import Spread, student_quantile

POOLED_FROM = 3  # configurations
NEGLIGIBLE = 1e-9  # weight of rounds that do not count, by which configurations stay linked


RunsByKey = Mapping[Hashable, Sequence[RunValue]]


class Fit:
    """The least-squares fit to the runs of configurations that are linked by common units.

    Results:

    - `logs`: key → log seconds, such that the residuals of the runs that are not companions have
      the mean 0.
    - `spread`: of the residuals, None without degrees of freedom.

    Arguments:

    - `runs`: those of each configuration.
    - `counts`: for each unit, whether it counts. Those that do not have a negligible weight.
    - `sets`: the number of sets of linked configurations.
    """

    def __init__(self, runs: RunsByKey, counts: Mapping[str, bool], sets: int = 1) -> None:
        own, unit = _indices(runs)
        every = list(chain.from_iterable(runs.values()))
        logs = np.array([run.log for run in every])
        does_count = np.array([counts[run.unit] for run in every])
        is_owned = np.array([not run.is_companion for run in every])
        weights = np.where(does_count, 1.0, NEGLIGIBLE)

        table = np.zeros((len(runs), unit.max() + 1))
        np.add.at(table, (own, unit), weights)
        repeats = table.sum(axis=1)
        per_unit = table.sum(axis=0)

        # The normal equations of the units, after elimination of the configurations.
        shares = table / repeats[:, None]
        normal = np.diag(per_unit) - table.T @ shares
        self._inverse = np.linalg.pinv(normal, hermitian=True)
        means = np.bincount(own, weights * logs) / repeats
        sums = np.bincount(unit, weights * logs)
        of_unit = self._inverse @ (sums - table.T @ means)
        fitted = means - shares @ of_unit
        residuals = logs - fitted[own]

        owned = is_owned * weights
        if owned.any():
            fitted = fitted + (owned * residuals).sum() / owned.sum()
        self.logs = dict(zip(runs, fitted.tolist(), strict=True))
        self._index = {key: index for index, key in enumerate(runs)}
        self._shares = shares
        self._repeats = repeats

        unexplained = residuals - of_unit[unit]
        squares = float((weights * unexplained**2).sum())
        units = len(np.unique(unit[does_count]))
        parameters = len(runs) + units - sets
        freedom = round(weights.sum()) - parameters
        self.spread: Spread | None = None
        if freedom > 0:
            self.spread = Spread(squares / freedom, freedom)

    def halfwidth(self, a: Hashable, b: Hashable, confidence: float) -> float | None:
        """The half-width of the interval of the difference of two log seconds, from the standard
        error of the fit.

        - `a`, `b`: keys of the configurations.
        - `confidence`: of the interval, from 0 to 1.

        Returns None without degrees of freedom.
        """
        if self.spread is None:
            return None
        pair = [self._index[a], self._index[b]]
        apart = self._shares[pair[0]] - self._shares[pair[1]]
        by_way_of_units = float(apart @ self._inverse @ apart)
        scale = (1 / self._repeats[pair]).sum() + by_way_of_units
        quantile = student_quantile(confidence, self.spread.degrees_of_freedom)
        return quantile * math.sqrt(self.spread.variance * scale)


def pooled_spread(runs: RunsByKey) -> Spread | None:
    """The pooled spread of the configurations of a device.

    A missing run only removes that unit from its configuration. Returns None unless at least
    `POOLED_FROM` configurations have runs in two or more units, and none has two runs in one unit.
    """
    repeated = {}
    counts = {}
    for key, own in runs.items():
        units = [run.unit for run in own]
        if len(set(units)) < len(units):
            return None
        if len(own) > 1:
            repeated[key] = own
            counts.update(dict.fromkeys(units, True))
    if len(repeated) < POOLED_FROM:
        return None
    return Fit(repeated, counts, len(linked(repeated))).spread


def linked(runs: RunsByKey) -> list[list[Hashable]]:
    """The sets of configurations that are linked by common units, directly or by way of others.

    `runs`: those of each configuration.
    """
    if not runs:
        return []
    own, unit = _indices(runs)
    node = unit + len(runs)
    size = node.max() + 1
    graph = coo_array((np.ones(len(own)), (own, node)), shape=(size, size))
    labels = connected_components(graph, directed=False)[1]
    sets = defaultdict(list)
    for key, label in zip(runs, labels[: len(runs)], strict=True):
        sets[label].append(key)
    return list(sets.values())


def _indices(runs: RunsByKey) -> tuple[np.ndarray, np.ndarray]:
    """For each run, the index of its configuration and the index of its unit.

    Configurations have the order of `runs`, and units that of their names.
    """
    own = []
    names = []
    for index, runs_of_key in enumerate(runs.values()):
        for run in runs_of_key:
            own.append(index)
            names.append(run.unit)
    units = np.unique(names, return_inverse=True)[1]
    return np.array(own), units
