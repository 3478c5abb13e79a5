"""Energy that a GPU uses for training."""

from __future__ import annotations

import pandas as pd

from rnnbench.axes import CONFIGURATION, KEY
from rnnbench.tables.grouping import counts, split
from rnnbench.tables.stats import mean_interval
from rnnbench.tables.usable_runs import run_values

FACTS = ["joules_per_sample", "card_watts"]
ENERGY_COLUMNS = [
    *CONFIGURATION, "runs", "suspect", "millijoules", "low", "high", "watts",
]  # fmt: skip


def energy(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per configuration and machine whose runs report the energy of their GPU.

    Columns: the configuration; `runs`, `suspect` (numbers of runs); `millijoules` per training
    sample (of the whole card, from the beginning to the end of the training, including its
    validations; geometric mean over runs) with the 95 % interval `low`, `high` (missing for a
    single run); `watts` (mean power of the card in that time, geometric mean over runs). Source:
    the counter of the card, in records of runs that are not void.
    """
    facts = frame.drop_duplicates("record").set_index("record")[FACTS].astype(float)
    values = run_values(frame).join(facts, on="record")
    values = values[(values[FACTS] > 0).all(axis=1)]  # also excludes NaN
    rows = []
    for key, runs in split(values, KEY, [*FACTS, "suspect", "implementation"]).items():
        interval = mean_interval((1e3 * runs["joules_per_sample"]).tolist())
        rows.append(
            {
                **dict(zip(KEY, key, strict=True)),
                **counts(runs),
                **interval.columns("millijoules", "low", "high"),
                "watts": mean_interval(runs["card_watts"].tolist()).estimate,
            }
        )
    return pd.DataFrame(rows, columns=ENERGY_COLUMNS)
