"""Comparison of builds: each build against the reference build on the same device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from rnnbench.axes import CONFIGURATION, KEY
from rnnbench.tables.certificates import UNEQUAL, Certificates
from rnnbench.tables.estimates import Estimates
from rnnbench.tables.grouping import Groups, counts, split
from rnnbench.tables.reference import key_of
from rnnbench.tables.stats import Ratio
from rnnbench.tables.time import FASTER, NOT_EQUAL, SLOWER, ratio_text, wrong_steps
from rnnbench.tables.usable_runs import run_values

NOTABLE = 0.02  # a significant slowdown below 2 % is not reported as a regression
BUILD_COLUMNS = [
    *CONFIGURATION, "against", "runs", "suspect", "epoch_seconds", "epoch_low", "epoch_high",
    "change", "change_low", "change_high", "effect", "shown_different", "regression", "words",
]  # fmt: skip


def builds(
    frame: pd.DataFrame,
    reference: Mapping[str, str],
    certificates: Certificates = Certificates(),  # noqa: B008 (frozen)
) -> pd.DataFrame:
    """One row per configuration that was measured in more than one build; empty for one build.

    Columns: the configuration; `against` (the reference build: the build that `reference` names,
    else the first); `runs`, `suspect` (numbers of runs); `epoch_seconds` with its 95 % interval
    `epoch_low`, `epoch_high`; `change` = own seconds / seconds of the reference build (above 1:
    slower) with its 95 % interval `change_low`, `change_high`, computed as in the time table;
    `effect`: the change of log seconds in standard deviations between runs, pooled over both
    configurations (Cohen's d; missing for a single run); `shown_different` (bool: the interval
    excludes 1); `regression` (bool: `shown_different`, and slower by more than 2 %); `words`: the
    result as text.
    """
    values = run_values(frame, companions=True)
    if values["build"].nunique() < 2:
        return pd.DataFrame(columns=BUILD_COLUMNS)
    estimates = Estimates(values)
    groups = split(values[~values["companion"]], KEY, ["seconds", "suspect", "implementation"])
    preferred = reference.get("build") or values["build"].iloc[0]
    all_but_build = [name for name in KEY if name != "build"]
    rows: list[dict[str, Any]] = []
    for _, family in values.groupby(all_but_build, sort=False):
        names = list(dict.fromkeys(family["build"]))
        if len(names) < 2:
            continue
        against = preferred if preferred in names else names[0]
        for name in names:
            own = {**{axis: family.iloc[0][axis] for axis in KEY}, "build": name}
            base = {**own, "build": against}
            rows.append(_row(groups, own, base, certificates, estimates))
    return pd.DataFrame(rows, columns=BUILD_COLUMNS)


def _row(
    groups: Groups,
    configuration: Mapping[str, Any],
    base: Mapping[str, Any],
    certificates: Certificates,
    estimates: Estimates,
) -> dict[str, Any]:
    key, base_key = key_of(configuration), key_of(base)
    own, other = groups[key], groups[base_key]
    seconds = estimates.seconds(key)
    row = {
        **configuration,
        **counts(own),
        "against": base["build"],
        **seconds.columns("epoch_seconds", "epoch_low", "epoch_high"),
        "shown_different": False,
        "regression": False,
        "words": "reference",
    }
    if configuration["build"] == base["build"]:
        return {**row, "change": 1.0}
    if wrong := wrong_steps(certificates, configuration, base):
        return {**row, "words": wrong}
    if certificates.judge(configuration, base)[0] == UNEQUAL:
        return {**row, "words": NOT_EQUAL}
    # The speed-up of the reference build over this one.
    ratio = estimates.ratio(base_key, key)
    slower = ratio.shown_different and ratio.estimate > 1 + NOTABLE
    return {
        **row,
        **ratio.columns("change"),
        "effect": _effect(own["seconds"], other["seconds"]),
        "shown_different": ratio.shown_different,
        "regression": slower,
        "words": _change_text(ratio),
    }


def _change_text(ratio: Ratio) -> str:
    text = ratio_text(ratio)
    return {FASTER: SLOWER, SLOWER: FASTER}.get(text, text)


def _effect(a: np.ndarray, b: np.ndarray) -> float | None:
    """(mean log a - mean log b) / pooled standard deviation of log seconds."""
    if len(a) < 2 or len(b) < 2:
        return None
    x, y = np.log(a), np.log(b)
    squares = ((x - x.mean()) ** 2).sum() + ((y - y.mean()) ** 2).sum()
    spread = float(np.sqrt(squares / (len(a) + len(b) - 2)))
    return float(x.mean() - y.mean()) / spread if spread > 0 else None
