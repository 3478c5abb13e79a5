"""Tables that list runs, skipped configurations, and provenance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pandas as pd

from rnnbench.report import numbers as n
from rnnbench.report.anchors import run_anchor
from rnnbench.report.table_view import Column, TableView, view_of

RUN_COLUMNS = (
    Column("verdict", "verdict", number=False),
    Column("epochs", "epochs"),
    Column("s per epoch", lambda run: n.seconds(run["epoch_seconds"])),
    Column("first step, s", lambda run: n.seconds(run["first_step"])),
    Column("import, s", lambda run: n.seconds(run["import"])),
    Column("build, s", lambda run: n.seconds(run["build"])),
    Column("evaluate, s", lambda run: n.seconds(run["evaluate"])),
    Column("predict, s", lambda run: n.seconds(run["predict"])),
    Column("peak, MiB", lambda run: n.mebibytes(run["peak_memory_bytes"])),
    Column("loss", lambda run: n.plain(run["loss"])),
    Column("train acc", lambda run: n.share(run["acc"])),
    Column("val acc", lambda run: n.share(run["val_acc"])),
    Column("started, UTC", lambda run: n.moment(run["started"]), number=False, quiet=True),
)


def runs_view(table: pd.DataFrame, many: int) -> TableView:
    """All runs; if there are more than `many`, the first `many` of those that are not clean."""
    title = "All runs, in order of measurement"
    if len(table) > many:
        title = f"Suspect and void runs (all {len(table):,} runs are in tables/runs.csv)"
        table = table[table["verdict"] != "clean"].head(many)
    anchors = [run_anchor(*run) for run in zip(table["name"], table["machine"], strict=True)]
    return view_of(
        table.assign(head_anchor=anchors),
        "runs",
        title,
        "run",
        lambda run: n.marked(run["name"], run["verdict"] == "suspect"),
        RUN_COLUMNS,
    )


def skipped_view(skipped: Iterable[Mapping[str, str]]) -> TableView:
    """`skipped`: ``{"name", "why"}`` of configurations that cannot exist."""
    columns = [Column("why it cannot exist", "why", number=False)]
    title = "Skipped configurations"
    return view_of(pd.DataFrame(list(skipped)), "skipped", title, "configuration", "name", columns)


def provenance_view(table: pd.DataFrame) -> TableView:
    columns = [Column("value", "value", number=False)]
    title = "Machines, builds, datasets"
    return view_of(table, "provenance", title, "fact", "fact", columns,
                   lambda row: f"{row['what']} {row['which']}")  # fmt: skip
