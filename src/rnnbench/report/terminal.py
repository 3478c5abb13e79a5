"""Comparisons and runs as terminal output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from rnnbench.records.record import Record, run_value
from rnnbench.report import numbers as n
from rnnbench.tables.certificates import UNEQUAL, UNKNOWN
from rnnbench.tables.time import MARK, Unequal

if TYPE_CHECKING:  # `rnnbench show` does not need pandas
    import pandas as pd


def print_comparison(table: pd.DataFrame, a: str, b: str) -> None:
    """Prints one row per pair and notes on how to read the ratios. `faults`: the number of
    unreadable pointers."""
    shown = Table(box=SIMPLE_HEAD, title=f"{a} versus {b}", title_justify="left")
    several = table["same"].ne("").any()
    for label in [*([""] if several else []), "A", "B", "speed-up of A (95 % CI)", "runs"]:
        shown.add_column(label)
    for row in table.to_dict("records"):
        shown.add_row(
            *([row["same"]] if several else []),
            f"{row['a']}\n{n.seconds(row['seconds_a'])} s per epoch",
            f"{row['b']}\n{n.seconds(row['seconds_b'])} s per epoch",
            "\n".join(filter(None, (n.pair(row), row["words"]))),
            f"{row['runs_a']}, {row['runs_b']}",
        )
    console = Console()
    console.print(shown)
    if table["suspect"].any():
        console.print(f"{n.DAGGER} includes suspect runs; rnnbench show RUN gives the reasons.")
    for verdict, label in ((UNEQUAL, "Not the same function"), (UNKNOWN, "Not certified")):
        for why in dict.fromkeys(table.loc[table["equal"] == verdict, "equal_why"]):
            console.print(f"{label}: {why}.", markup=False, highlight=False)
    unequal = [ratio for ratio in table["unequal"] if isinstance(ratio, Unequal)]
    if unequal:
        console.print(f"{MARK} compares the times of two different functions: not a speed-up.")
    ratios = int(table["low"].notna().sum()) + sum(ratio.low is not None for ratio in unequal)
    if ratios > 1:
        console.print(f"{ratios} ratios: even if nothing differed, about {0.05 * ratios:.2g} would "
                      "appear to differ from 1 by chance.")  # fmt: skip


def print_run(record: Record, place: str) -> None:
    """Prints a run: verdict with reasons, phases, epochs and provenance. `place`: its record."""
    console = Console()
    status = record.verdict.status + (
        ", excluded from all results" if record.verdict.status == "void" else ""
    )
    console.print(f"[bold]{record.name}[/bold]  {status}", highlight=False)
    for reason in record.verdict.reasons:
        console.print(f"  {reason.text} Fix: {reason.remedy}", markup=False, highlight=False)
    phases = Table(box=SIMPLE_HEAD)
    for label in ("phase", "seconds"):
        phases.add_column(label, justify="right" if label == "seconds" else "left")
    for phase in record.phases:
        phases.add_row(phase.name, n.seconds(phase.seconds))
    console.print(phases)
    if record.epochs:
        epochs = Table(box=SIMPLE_HEAD)
        for label in ("epoch", "seconds", "loss", "acc", "val loss", "val acc"):
            epochs.add_column(label, justify="right")
        for epoch in record.epochs:
            values = (epoch.loss, epoch.acc, epoch.val_loss, epoch.val_acc)
            epochs.add_row(
                str(epoch.epoch), f"{epoch.seconds:.4f}", *(n.plain(v, 4) for v in values)
            )
        console.print(epochs)
        median = run_value([epoch.seconds for epoch in record.epochs])
        console.print(f"median epoch {n.seconds(median)} s", highlight=False)
    for line in (
        f"started {n.moment(record.started)} UTC on {record.machine}",
        f"build {record.run.choices.get('build', '')}, "
        f"dataset md5 {record.run.identity.get('dataset_md5', '')}",
        f"record {place}",
        f"measure again: rnnbench retry {record.experiment} {record.name}",
    ):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
