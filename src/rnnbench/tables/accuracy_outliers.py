"""Does every build and number of threads end as well as the others? Cell against all others.

Runs of one seed start from the same weights and see the same batches, whatever computes them, so
the cells of one task (model, cell type, data set, overrides) differ less than seeds do. A cell that
is further from the others than other seeds would bring it has learnt something else.

The seed is the unit. A cell's distance is the mean over its seeds of its validation accuracy less
the median of the others' with that seed; allowed is what Student's t gives for the spread between
seeds inside cells, with C (S - 1) degrees of freedom for C cells of S seeds, Šidák's over the
cells. That is exact where one implementation's result says nothing of another's, the worst case,
and careful where they agree seed by seed. With one seed nothing is known of the spread between
seeds; then the spread between the other cells takes its place (an outlier test, C - 2 degrees of
freedom), from four cells on. Either spread is at least that of the share that one sample of the
validation set of n gives: √(p (1 - p) / n). Simulated (``tests/tables/test_tables_alike.py``): at
most 5 % of tasks name a cell where all are alike.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rnnbench.tables.frame import CELL
from rnnbench.tables.stats import student, together
from rnnbench.tables.time import KEY
from rnnbench.tables.usable_runs import run_values

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

TASK = ["model", "cell", "dataset", "variant"]
LEAST_ALONE = 4  # cells of one seed: with three, one degree of freedom shows nothing
CONFIDENCE = 0.95
ALIKE_COLUMNS = [*CELL, "seeds", "val_acc", "others", "difference", "allowed", "apart"]


def alike(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per cell that can be compared with others of its task.

    Columns: the cell; `seeds`; `val_acc` at the last epoch (mean over its seeds, runs of one seed
    averaged first); `others` (mean over these seeds of the other cells' median); `difference` of
    the two; `allowed` (as above); `apart` (bool: the difference is larger). Source: runs that are
    not void of models that have a validation accuracy, on all machines.
    """
    import pandas as pd

    values = run_values(frame).dropna(subset=["val_acc"])
    evaluated = frame[frame["phase"] == "evaluate"].groupby(TASK)["samples"].min().to_dict()
    rows: list[dict[str, Any]] = []
    for task, runs in values.groupby(TASK, sort=False):
        table = runs.groupby([*KEY, "seed"], sort=False)["val_acc"].mean().unstack("seed")
        names = runs.drop_duplicates(KEY).set_index(KEY)["implementation"]
        reached = table.to_numpy(dtype=float)
        for key, found in zip(table.index, distances(reached, evaluated.get(task)), strict=True):
            if found is not None:
                cell = dict(zip(KEY, key, strict=True))
                rows.append({**cell, "implementation": names[key], **found})
    return pd.DataFrame(rows, columns=ALIKE_COLUMNS)


def distances(reached: np.ndarray, samples: float | None = None) -> list[dict[str, Any] | None]:
    """For each cell of `reached` (accuracies, cells × seeds, NaN where a run is missing) the
    columns `seeds` to `apart` of `alike`; None where it cannot be compared. `samples`: of the
    validation set."""
    import numpy as np

    several = [row[~np.isnan(row)] for row in reached if not np.isnan(row).all()]
    cells = len(several)
    freedom = sum(len(row) - 1 for row in several)
    found: list[dict[str, Any] | None] = []
    for place, own in enumerate(reached):
        others = np.delete(reached, place, axis=0)
        here = ~np.isnan(own) & (~np.isnan(others)).any(axis=0)
        seeds = int(here.sum())
        if cells < 2 or not seeds or (not freedom and cells < LEAST_ALONE):
            found.append(None)
            continue
        middle = np.nanmedian(others[:, here], axis=0)
        if freedom:
            squares = sum(((row - row.mean()) ** 2).sum() for row in several)
            variance, known = float(squares) / freedom, freedom
        else:
            variance, known = float(np.nanvar(others, ddof=1)), cells - 2
        if samples:
            share = float(middle.mean())
            variance = max(variance, share * (1 - share) / samples)
        # The variance of a median is π/2 of that of a mean; of one or two it is their mean.
        of_others = (1 if cells < 4 else math.pi / 2) / (cells - 1)
        confidence = together(CONFIDENCE, cells if cells > 2 else 1)
        allowed = student(confidence, known) * math.sqrt(variance * (1 + of_others) / seeds)
        difference = float((own[here] - middle).mean())
        found.append(
            {
                "seeds": seeds,
                "val_acc": float(own[here].mean()),
                "others": float(middle.mean()),
                "difference": difference,
                "allowed": allowed,
                "apart": abs(difference) > allowed + 1e-9,
            }
        )
    return found
