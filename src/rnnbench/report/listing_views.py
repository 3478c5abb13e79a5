"""Tables that list runs, skipped configurations, and provenance."""

from __future__ import annotations

import pandas as pd

from rnnbench.report import numbers as n
from rnnbench.report.anchors import run_anchor
from rnnbench.report.table_view import Column, Row, TableView


def runs_view(table: pd.DataFrame, many: int) -> TableView:
    """All runs; if there are more than `many`, the first `many` of those that are not clean."""
    title = "All runs, in order of measurement"
    if len(table) > many:
        title = f"Suspect and void runs (all {len(table):,} runs are in tables/runs.csv)"
        table = table[table["verdict"] != "clean"].head(many)
    rows = [
        Row(
            run["name"] + (f" {n.DAGGER}" if run["verdict"] == "suspect" else ""),
            (
                run["verdict"],
                str(run["epochs"]),
                n.seconds(run["epoch_seconds"]),
                n.seconds(run["first_step"]),
                n.seconds(run["import"]),
                n.seconds(run["build"]),
                n.seconds(run["evaluate"]),
                n.seconds(run["predict"]),
                n.mebibytes(run["peak_memory_bytes"]),
                n.plain(run["loss"]),
                n.share(run["acc"]),
                n.share(run["val_acc"]),
                n.moment(run["started"]),
            ),
            link=run_anchor(run["name"], run["machine"]),
        )
        for run in table.to_dict("records")
    ]
    columns = (
        Column("verdict", number=False),
        *(
            Column(label)
            for label in (
                "epochs", "s per epoch", "first step, s", "import, s", "build, s", "evaluate, s",
                "predict, s", "peak, MiB", "loss", "train acc", "val acc",
            )
        ),
        Column("started, UTC", number=False, quiet=True),
    )  # fmt: skip
    return TableView("runs", title, "run", columns, tuple(rows))


def skipped_view(table: pd.DataFrame) -> TableView:
    rows = tuple(Row(skipped["name"], (skipped["why"],)) for _, skipped in table.iterrows())
    columns = (Column("why it cannot exist", number=False),)
    return TableView("skipped", "Skipped configurations", "configuration", columns, rows)


def provenance_view(table: pd.DataFrame) -> TableView:
    rows = tuple(
        Row(row["fact"], (row["value"],), f"{row['what']} {row['which']}")
        for _, row in table.iterrows()
    )
    columns = (Column("value", number=False),)
    return TableView("provenance", "Machines, builds, datasets", "fact", columns, rows)
