"""The metrics of a model beside loss and accuracy, such as a mean absolute error."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from rnnbench.axes import CONFIGURATION
from rnnbench.records.record import Record
from rnnbench.tables.estimates import Measurements

COLUMNS = [*CONFIGURATION, "suspect", "seeds"]  # before those of the metrics


def metrics_of_epochs(records: Sequence[Record]) -> pd.DataFrame:
    """One row per `record` and `epoch`, which are the index.

    Columns: one of float64 per metric, named as in Keras's ``History`` (``mae``, ``val_mae``);
    missing where a run has no such metric.

    Source: the records.
    """
    keys = []
    numbers = []
    values = []
    for record in records:
        for epoch in record.epochs:
            keys.append(record.key)
            numbers.append(epoch.epoch)
            values.append(epoch.metrics)
    index = pd.MultiIndex.from_arrays([keys, numbers], names=["record", "epoch"])
    return pd.DataFrame(values, index).astype("float64")


def beside(table: pd.DataFrame, metrics: pd.DataFrame) -> pd.DataFrame:
    """`metrics` with ``_metric`` after the names that are columns of `table` too."""
    names = {name: f"{name}_metric" for name in metrics.columns if name in table}
    return metrics.rename(columns=names)


def metrics(measured: Measurements, records: Sequence[Record]) -> pd.DataFrame:
    """One row per configuration and machine, from runs that are not void. Empty if no model states
    a metric.

    Columns:

    - the configuration; `suspect`, `seeds`.
    - for each metric, the mean over runs at the last epoch.
    """
    every = metrics_of_epochs(records).reset_index("epoch", drop=True)
    last = every[~every.index.duplicated(keep="last")]
    if last.columns.empty:
        return pd.DataFrame(columns=COLUMNS)
    last = beside(measured.runs, last)
    runs = measured.runs.join(last, on="record")
    names = last.columns
    groups = runs.groupby(CONFIGURATION, sort=False)
    table = groups.agg(suspect=("suspect", "sum"), seeds=("seed", "nunique"))
    return table.join(groups[list(names)].mean()).reset_index()
