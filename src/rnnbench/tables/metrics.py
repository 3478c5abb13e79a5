"""The metrics of a model beside loss and accuracy, such as a mean absolute error."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from rnnbench.axes import CONFIGURATION
from rnnbench.records.record import Record
from rnnbench.tables.estimates import Measurements

COLUMNS = [*CONFIGURATION, "suspect", "seeds"]  # before those of the metrics


def metrics_of_epochs(records: Sequence[Record]) -> pd.DataFrame:
    """One row per epoch: `record`, `epoch`, and each metric, named as in Keras's ``History``
    (``mae``, ``val_mae``); missing where a run has no such metric. Source: the records."""
    rows = []
    for record in records:
        for epoch in record.epochs:
            rows.append({"record": record.key, "epoch": epoch.epoch, **epoch.metrics})
    return pd.DataFrame(rows, columns=None if rows else ["record", "epoch"])


def metrics(measured: Measurements, records: Sequence[Record]) -> pd.DataFrame:
    """One row per configuration and machine, from runs that are not void: the configuration,
    `suspect`, `seeds`, and the mean over runs of each metric at the last epoch. Empty if no model
    states a metric."""
    every = metrics_of_epochs(records)
    last = every.drop_duplicates("record", keep="last").set_index("record").drop(columns="epoch")
    if last.columns.empty:
        return pd.DataFrame(columns=COLUMNS)
    runs = measured.runs.join(last, on="record", rsuffix="_metric")
    names = runs.columns[len(measured.runs.columns) :]
    groups = runs.groupby(CONFIGURATION, sort=False)
    table = groups.agg(suspect=("suspect", "sum"), seeds=("seed", "nunique"))
    return table.join(groups[list(names)].mean()).reset_index()
