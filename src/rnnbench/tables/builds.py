"""Builds side by side: each against the reference build on the same device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rnnbench.tables.certificates import UNEQUAL, Certificates
from rnnbench.tables.frame import CELL
from rnnbench.tables.grouping import Cells, split
from rnnbench.tables.pooling import Spread, pooled_spreads, shared
from rnnbench.tables.reference import key_of
from rnnbench.tables.stats import ONE_RUN, Ratio, mean_interval
from rnnbench.tables.time import (
    KEY,
    NO_DIFFERENCE,
    NOT_EQUAL,
    RUN,
    compare,
    own_runs,
    wrong_steps,
)
from rnnbench.tables.usable_runs import run_values

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

NOTABLE = 0.02  # a shown difference below 2 % is no regression anybody needs named
BUILD_COLUMNS = [
    *CELL, "against", "runs", "suspect", "epoch_seconds", "epoch_low", "epoch_high", "change",
    "change_low", "change_high", "effect", "shown_different", "regression", "words",
]  # fmt: skip


def builds(
    frame: pd.DataFrame,
    reference: Mapping[str, str],
    certificates: Certificates = Certificates(),  # noqa: B008 (frozen)
) -> pd.DataFrame:
    """One row per cell that was measured in more than one build; empty for one build.

    Columns: the cell; `against` (the reference build: the one that `reference` names, else
    the first); `runs`, `suspect`; `epoch_seconds` with 95 % `epoch_low`, `epoch_high`; `change` =
    own seconds / the reference build's (above 1: slower) with 95 % `change_low`, `change_high`, as
    in the time table; `effect`: the change of log seconds in standard deviations between runs,
    pooled over the two cells (Cohen's d; missing for one run); `shown_different`; `regression`
    (bool: shown, and slower by 2 % or more); `words`.
    """
    import pandas as pd

    values = run_values(frame, companions=True)
    if values["build"].nunique() < 2:
        return pd.DataFrame(columns=BUILD_COLUMNS)
    cells, spreads = split(values, KEY, [*RUN, "implementation"]), pooled_spreads(values, KEY)
    first = reference.get("build") or values["build"].iloc[0]
    rest = [name for name in KEY if name != "build"]
    rows: list[dict[str, Any]] = []
    for _, family in values.groupby(rest, sort=False):
        names = list(dict.fromkeys(family["build"]))
        if len(names) < 2:
            continue
        against = first if first in names else names[0]
        for name in names:
            cell = {**{axis: family.iloc[0][axis] for axis in KEY}, "build": name}
            base = {**cell, "build": against}
            rows.append(_row(cells, cell, base, certificates, shared(spreads, cell, base)))
    return pd.DataFrame(rows, columns=BUILD_COLUMNS)


def _row(
    cells: Cells,
    cell: Mapping[str, Any],
    base: Mapping[str, Any],
    certificates: Certificates,
    spread: Spread | None,
) -> dict[str, Any]:
    mine, theirs = (cells[key_of(one)] for one in (cell, base))
    own, other = own_runs(mine), own_runs(theirs)
    seconds = mean_interval(own["seconds"].tolist())
    row = {
        **cell,
        "implementation": own["implementation"][0],
        "against": base["build"],
        "runs": len(own["seconds"]),
        "suspect": int(own["suspect"].sum()),
        "epoch_seconds": seconds.estimate,
        "epoch_low": seconds.low,
        "epoch_high": seconds.high,
        "shown_different": False,
        "regression": False,
        "words": "reference",
    }
    if cell["build"] == base["build"]:
        return {**row, "change": 1.0}
    if wrong := wrong_steps(certificates, cell, base):
        return {**row, "words": wrong}
    if certificates.judge(cell, base)[0] == UNEQUAL:
        return {**row, "words": NOT_EQUAL}
    # `compare` gives the speed-up of its first over its second: here the reference build's.
    ratio = compare(theirs, mine, spread)
    slower = ratio.shown_different and ratio.estimate > 1 + NOTABLE
    return {
        **row,
        "change": ratio.estimate,
        "change_low": ratio.low,
        "change_high": ratio.high,
        "effect": _effect(own["seconds"], other["seconds"]),
        "shown_different": ratio.shown_different,
        "regression": slower,
        "words": _words(ratio),
    }


def _words(ratio: Ratio) -> str:
    if ratio.low is None:
        return ONE_RUN
    if not ratio.shown_different:
        return NO_DIFFERENCE
    return "slower" if ratio.estimate > 1 else "faster"


def _effect(a: np.ndarray, b: np.ndarray) -> float | None:
    """(mean log a - mean log b) / pooled standard deviation of log seconds."""
    import numpy as np

    if len(a) < 2 or len(b) < 2:
        return None
    x, y = np.log(a), np.log(b)
    squares = ((x - x.mean()) ** 2).sum() + ((y - y.mean()) ** 2).sum()
    spread = float(np.sqrt(squares / (len(a) + len(b) - 2)))
    return float(x.mean() - y.mean()) / spread if spread > 0 else None
