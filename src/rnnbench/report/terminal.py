"""Comparisons and runs as terminal output."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rnnbench.records.record import Record
from rnnbench.report import numbers as n
from rnnbench.report.answer import as_fast, no_difference
from rnnbench.report.numbers import Row
from rnnbench.report.provenance import median_epoch
from rnnbench.tables.certificates import UNEQUAL, UNKNOWN
from rnnbench.tables.ratios import MARK, Unequal
from rnnbench.tables.stats import Interval
from rnnbench.tables.time import COMPARED, FASTER, NO_DIFFERENCE, SLOWER

ANSWERS = 4  # pairs with a sentence; the table has the others


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: bool = True) -> Table:
    """A table; `numbers`: all columns but the first are of numbers."""
    table = Table(box=SIMPLE_HEAD, title_justify="left")
    for place, head in enumerate(heads):
        is_number = numbers and place > 0
        table.add_column(head, justify="right" if is_number else "left")
    for row in rows:
        table.add_row(*map(Text, row))  # not markup: the names of overrides may have brackets
    return table


def print_comparison(table: pd.DataFrame, a: str, b: str) -> None:
    """Prints one row per pair and notes on how to read the ratios."""
    heads = ["first", "second", "speed-up of the first (95 % CI)", "runs"]
    rows = []
    for row in table.to_dict("records"):
        pair = faster_first(row)
        ratio = n.pair(pair)
        words = pair["words"]
        rows.append(
            [
                f"{pair['a']}\n{n.plain(pair['seconds_a'])} s per epoch",
                f"{pair['b']}\n{n.plain(pair['seconds_b'])} s per epoch",
                f"{ratio}\n{words}" if ratio else words,
                f"{pair['runs_a']}, {pair['runs_b']}",
            ]
        )
    if table["same"].ne("").any():
        heads.insert(0, "")
        for cells, same in zip(rows, table["same"], strict=True):
            cells.insert(0, same)
    shown = _table(heads, rows, numbers=False)
    shown.title = Text(f"{a} versus {b}")
    console = Console()
    console.print(shown)
    if table["suspect"].any():
        console.print(f"{n.DAGGER} includes suspect runs; rnnbench show RUN gives the reasons.")
    for verdict, label in ((UNEQUAL, "No speed-up"), (UNKNOWN, "Not certified")):
        pairs = table[table["equal"] == verdict]
        for why in pairs["equal_why"].unique():
            console.print(f"{label}: {why}.", markup=False, highlight=False)
    ratios = int(table["low"].notna().sum())
    has_unequal = False
    for unequal in table["unequal"]:
        if isinstance(unequal, Unequal):
            has_unequal = True
            if unequal.low is not None:
                ratios += 1
    if has_unequal:
        console.print(f"{MARK} compares the times of two different functions: not a speed-up.")
    if ratios > 1:
        chance = n.about(0.05 * ratios)
        console.print(
            f"{ratios} ratios: even if nothing differed, about {chance} would appear to differ "
            "from 1 by chance."
        )


def print_answers(table: pd.DataFrame) -> None:
    """Prints what the ratios say, one sentence per pair of the table of `versus`: ```block` trains
    1.25 times as fast as `keras` (1.22 to 1.28)``."""
    sentences = []
    for pair in table.head(ANSWERS).to_dict("records"):
        row = faster_first(pair)
        first = f"`{row['a']}`"
        second = f"`{row['b']}`"
        ratio = Interval(row["ratio"], row["low"], row["high"])
        if row["words"] not in COMPARED:
            sentence = f"no speed-up between {first} and {second}: {row['words']}"
        elif row["words"] == NO_DIFFERENCE:
            sentence = no_difference(first, second, ratio)
        else:
            sentence = f"{first} trains {as_fast(ratio, second)}"
        sentence = n.sentences([sentence])
        if row["same"]:
            sentence = f"{row['same']}: {sentence}"
        sentences.append(sentence)
    if len(table) > ANSWERS:
        sentences.append(f"{len(table) - ANSWERS} more pairs are in the table.")
    _print_lines(sentences)


def _print_lines(lines: Iterable[str]) -> None:
    """Prints each of the `lines` as it is: without markup, colours or line breaks."""
    console = Console()
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def faster_first(row: Row) -> Row:
    """A pair of the table of `versus`, exchanged if its second side is the faster one, so that the
    table and the sentence have one direction."""
    if not (n.is_number(row["ratio"]) and row["ratio"] < 1):
        return row
    exchanged = dict(row)
    for name in ("", "runs_", "seconds_"):
        exchanged[f"{name}a"] = row[f"{name}b"]
        exchanged[f"{name}b"] = row[f"{name}a"]
    exchanged["ratio"] = 1 / row["ratio"]
    if n.is_number(row["low"]):
        exchanged["low"] = 1 / row["high"]
        exchanged["high"] = 1 / row["low"]
    if row["words"] == SLOWER:
        exchanged["words"] = FASTER
    return exchanged


def print_run(record: Record, place: str) -> None:
    """Prints a run: verdict with reasons, phases, epochs and provenance. `place`: its record."""
    console = Console()
    status = record.verdict.status
    if status == "void":
        status += ", excluded from all results"
    heading = Text(record.name, style="bold") + Text(f"  {status}")
    console.print(heading, highlight=False)
    if record.verdict.reasons:
        console.print(f"  {record.why}", markup=False, highlight=False)
    phases = []
    for phase in record.phases:
        before_fork = phase.details.get("before_fork")
        waited = phase.details.get("waited")
        remark = ""
        if before_fork:
            remark = f"{n.plain(before_fork)} of it before the fork"
        elif waited:
            remark = f"{n.plain(waited)} of it waiting"
        phases.append((phase.name, n.plain(phase.took), remark))
    console.print(_table(("phase", "seconds", ""), phases))
    if record.epochs:
        epochs = []
        for epoch in record.epochs:
            epochs.append(
                (
                    str(epoch.epoch),
                    f"{epoch.seconds:.4f}",
                    n.precise(epoch.loss),
                    n.precise(epoch.acc),
                    n.precise(epoch.val_loss),
                    n.precise(epoch.val_acc),
                )
            )
        heads = ("epoch", "seconds", "loss", "acc", "val loss", "val acc")
        console.print(_table(heads, epochs))
        metrics = record.epochs[-1].metrics
        if metrics:
            rows = [(name, n.precise(value)) for name, value in metrics.items()]
            console.print(_table(("metric", "last epoch"), rows))
        console.print(f"median epoch {median_epoch(record)} s", highlight=False)
    build = record.run.choices.get("build", "")
    md5 = record.run.identity.get("dataset_md5", "")
    _print_lines(
        (
            f"started {n.moment(record.started)} UTC on {record.machine}",
            f"build {build}, dataset md5 {md5}",
            f"record {place}",
            f"measure again: rnnbench retry {record.experiment} {record.name}",
        )
    )
