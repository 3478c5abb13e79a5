"""The least-squares fit to the log seconds of runs, from which the estimates of `ratios` follow.
No side effects.

The log seconds of a run are modelled as

    log seconds  =  configuration + unit + noise,

where a unit is a round in turns, or a block of runs that were measured on their own. Least squares
(Fisher, *Statistical Methods for Research Workers*, 1925, two-way analysis) gives the seconds of
each configuration; if all have a run in every unit, these are geometric means.

A few runs say little about the spread of one configuration, so the configurations of a device share
what they know: the variance of each is a mean of that of all, with the weight of `PRIOR` degrees of
freedom, and its own (Smyth, Statistical Applications in Genetics and Molecular Biology 3, 2004).
Every ratio on the device is judged by these variances. They are known less well than their degrees
of freedom say if one configuration is noisier than the others (Box, Annals of Mathematical
Statistics 25, 1954), so fewer of these count (`effective_freedom`). Simulated in
``benchmarks/fastest.py``.
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
PRIOR = 2  # degrees of freedom of the common spread in that of a configuration
# Such that even if one configuration is three times as noisy, at most 2.5 % of the answers name a
# wrong fastest.
FREEDOM_OF_EACH = 0.4
FREEDOM_SHARED = 0.8
NEGLIGIBLE = 1e-9  # weight of rounds that do not count, by which configurations stay linked


RunsByKey = Mapping[Hashable, Sequence[RunValue]]


class Fit:
    """The least-squares fit to the runs of configurations that are linked by common units.

    Results:

    - `logs`: key → log seconds, such that the residuals of the runs that are not companions have
      the mean 0.
    - `spread`: of the residuals, None without degrees of freedom.
    - `spreads`: key → the spread of a configuration with a share of the common one; empty without
      degrees of freedom.

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
        self.spreads: dict[Hashable, Spread] = {}
        if freedom > 0:
            self.spread = Spread(squares / freedom, freedom)
            of_own = np.bincount(own, weights * unexplained**2)
            # The mean number of configurations in the units of each.
            others = np.bincount(own, weights * per_unit[unit]) / repeats
            for index, key in enumerate(runs):
                self.spreads[key] = moderated(
                    self.spread,
                    of_own[index],
                    round(repeats[index]),
                    float(others[index]),
                    len(runs),
                )

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


def effective_freedom(own_freedom: float, together: float) -> float:
    """The degrees of freedom that count of the variance of one configuration, which shares what the
    others know.

    - `own_freedom`: of its own runs.
    - `together`: the number of configurations that share their spread.

    From simulations of 3 to 20 configurations in 2 to 10 rounds (``benchmarks/fastest.py``).
    """
    of_each = FREEDOM_OF_EACH * (together + 1) * own_freedom
    of_two_runs = min(together / 2 + 1 / 4, together / 3 + 5 / 4)
    return max(
        min(own_freedom, 1.0) * of_two_runs,
        min(of_each, own_freedom + FREEDOM_SHARED * together),
    )


def moderated(
    common: Spread,
    squares: float,
    runs: int,
    together: float,
    configurations: int,
) -> Spread:
    """The spread of one configuration, as a mean of the common one and its own.

    - `common`: of all `configurations` of the fit.
    - `squares`: the sum of the squared residuals of its `runs`.
    - `together`: the mean number of configurations in its units.
    """
    own_freedom = runs - 1
    if own_freedom < 1 or together <= 2:
        mean_freedom = common.degrees_of_freedom / (configurations - 1)
        freedom = effective_freedom(mean_freedom, configurations)
        return Spread(common.variance, freedom)
    # The fit of a unit takes a share 1 / together of the residuals and mixes in that of the others.
    own = (squares / own_freedom - common.variance / together) / (1 - 2 / together)
    weighted = PRIOR * common.variance + own_freedom * max(0.0, own)
    freedom = min(effective_freedom(own_freedom, together), common.degrees_of_freedom)
    return Spread(weighted / (PRIOR + own_freedom), freedom)


def pooled_spreads(runs: RunsByKey) -> dict[Hashable, Spread]:
    """Configuration of a device → its spread (see `Fit.spreads`).

    A missing run only removes that unit from its configuration. Returns nothing unless at least
    `POOLED_FROM` configurations have runs in two or more units, and none has two runs in one unit.
    A configuration with a single run has the common spread.
    """
    repeated = {}
    counts = {}
    for key, own in runs.items():
        units = [run.unit for run in own]
        if len(set(units)) < len(units):
            return {}
        if len(own) > 1:
            repeated[key] = own
            counts.update(dict.fromkeys(units, True))
    if len(repeated) < POOLED_FROM:
        return {}
    fit = Fit(repeated, counts, len(linked(repeated)))
    if fit.spread is None:
        return {}
    common = moderated(fit.spread, 0.0, 1, 0.0, len(repeated))
    return dict.fromkeys(runs, common) | fit.spreads


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
