"""Comparisons and runs as terminal output."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rnnbench.records.interval import Interval
from rnnbench.records.overrides import reference_label
from rnnbench.records.plan_file import Experiment
from rnnbench.records.record import Record
from rnnbench.report import numbers as n
from rnnbench.report.answer import USABLE
from rnnbench.report.conditions import software
from rnnbench.report.labels import joined, with_labels
from rnnbench.report.numbers import Row
from rnnbench.report.provenance import median_epoch
from rnnbench.report.sentences import as_fast, no_difference
from rnnbench.report.views import TableView
from rnnbench.tables.history import Trend
from rnnbench.tables.outcome import COMPARED, Equality, Outcome
from rnnbench.tables.ratios import MARK
from rnnbench.tables.time import ratios_shown

MEASUREMENTS = 4  # of a history in the terminal, the last ones; its file has all
WIDE = 160  # columns of what is no terminal
ANSWERS = 4  # pairs with a sentence each; of more there is a table


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: bool = True) -> Table:
    """A table for the terminal.

    - `heads`: the heading of each column.
    - `numbers`: whether all columns but the first are of numbers.
    """
    table = Table(box=SIMPLE_HEAD, title_justify="left")
    table.add_column(heads[0])
    for head in heads[1:]:
        table.add_column(head, justify="right" if numbers else "left")
    for row in rows:
        table.add_row(*map(Text, row))  # not markup: the names of overrides may have brackets
    return table


def is_told(table: pd.DataFrame) -> bool:
    """Whether the sentences of `print_answers` have all of a table of `versus_each`, so that there
    is no need to print it too."""
    return len(table) <= ANSWERS and bool(table["words"].isin(COMPARED).all())


def print_view(view: TableView) -> None:
    """Prints a table of the page, one for each of its blocks of rows."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDE)
    heads = ["", *(column.heading for column in view.columns)]
    for group, rows in view.groups.items():
        shown = _table(heads, [[row.head, *row.cells] for row in rows])
        for place, column in enumerate(view.columns, 1):
            shown.columns[place].justify = "right" if column.number else "left"
        shown.columns[0].no_wrap = True  # two names may begin alike
        shown.title = Text(joined((view.title, group)))
        console.print(shown)


def print_comparison(table: pd.DataFrame, names: Sequence[str]) -> None:
    """Prints one row per pair, unless sentences follow, and notes on how to read the ratios.

    `table`: of `versus_each`; `names`: the terms that were compared.
    """
    console = Console()
    if not is_told(table):
        rows = []
        for row in table.to_dict("records"):
            pair = faster_first(row)
            cells = [
                f"{pair['a']}\n{n.plain(pair['seconds_a'])} s per epoch",
                f"{pair['b']}\n{n.plain(pair['seconds_b'])} s per epoch",
                joined((n.pair(pair), pair["words"]), "\n"),
                f"{pair['runs_a']}, {pair['runs_b']}",
            ]
            rows.append([pair["same"], *cells])
        heads = ["", "first", "second", "speed-up of the first (95 % CI)", "runs"]
        if not table["same"].any():
            heads.pop(0)
            rows = [cells[1:] for cells in rows]
        shown = _table(heads, rows, numbers=False)
        shown.title = Text(" versus ".join(names))
        console.print(shown)

    if table["suspect"].any():
        console.print(f"{n.DAGGER} includes suspect runs; rnnbench show RUN gives the reasons.")
    for verdict, label in ((Equality.UNEQUAL, "No speed-up"), (Equality.UNKNOWN, "Not certified")):
        pairs = table[table["equal"] == verdict]
        for why in pairs["equal_why"].unique():
            console.print(f"{label}: {why}.", markup=False, highlight=False)
    if table["unequal"].ne("").any():
        console.print(f"{MARK} compares the times of two different functions: not a speed-up.")
    ratios = ratios_shown(table, "low")
    if ratios > 1:
        chance = n.about(0.05 * ratios)
        console.print(
            f"{ratios} ratios: even if nothing differed, about {chance} would appear to differ "
            "from 1 by chance."
        )


def print_answers(table: pd.DataFrame, page: Path | None = None) -> None:
    """Prints what the ratios say, one sentence per pair:
    ```block` trains 1.25 times as fast as `keras` (1.22 to 1.28)``, with its seconds and runs; the
    `page` that was written; and the two lines with which a program of one's own gets that.

    `table`: of `versus_each`. If it was printed, only pairs without a speed-up get a sentence.
    """
    sentences = []
    faster = []
    told = is_told(table)
    for pair in table.head(ANSWERS).to_dict("records"):
        row = faster_first(pair)
        first = f"`{row['a']}`"
        second = f"`{row['b']}`"
        ratio = Interval(row["ratio"], row["low"], row["high"])
        if row["words"] not in COMPARED:
            sentence = f"no speed-up between {first} and {second}: {row['words']}"
        elif row["words"] == Outcome.NO_DIFFERENCE:
            sentence = no_difference(first, second, ratio)
        else:
            sentence = f"{first} trains {as_fast(ratio, second)}"
            if row["b"] == "keras" and row["words"] != Outcome.ONE_RUN:
                faster.append(row["a"])
        sentence = n.sentences([sentence])
        if row["same"]:
            sentence = f"{row['same']}: {sentence}"
        if told:
            seconds = f"{n.plain(row['seconds_a'])} s and {n.plain(row['seconds_b'])} s per epoch"
            runs = n.marked(f"{row['runs_a']} and {row['runs_b']} runs", row["suspect"])
            sentence += f"\n  {seconds}, {runs}"
        if told or row["words"] not in COMPARED:
            sentences.append(sentence)
    if page:
        sentences.append(f"The page: {page}")
    if len(set(faster)) == 1 and faster[0] in USABLE:
        sentences += how_to_use(faster[0])
    _print_lines(sentences)


def print_history(
    table: pd.DataFrame,
    measurements: Sequence[Sequence[Record]],
    experiment: Experiment,
) -> None:
    """Prints the `measurements` of an experiment, their speed-ups, and what changed, regressions
    first.

    `table`: of `tables.history.history`; `measurements`: the records of each.
    """
    base = reference_label(experiment.reference)
    lines = []
    for number, own in enumerate(measurements, 1):
        versions = n.few(map(software, own), 2, "; ")
        revisions = [record.measured.revision for record in own]
        code = n.few(filter(None, revisions), 2, ", ") or "not recorded"
        started = n.moment(min(record.started for record in own))
        runs = n.counted(sum(not record.is_companion for record in own), "run")
        lines.append(f"{number}: {started} UTC, {runs}, {versions}, code {code}")
    _print_lines(lines)

    recent = sorted(set(table["measurement"]))[-MEASUREMENTS:]
    labelled = with_labels(table)
    rows = []
    names = labelled.groupby(["block", "series", "column_name"], sort=False)
    for name, of_name in names:
        cells = dict.fromkeys(recent, n.NOTHING)
        for row in of_name.to_dict("records"):
            cells[row["measurement"]] = speedup_cell(row)
        rows.append([joined(name), *(cells[number] for number in recent)])
    heads = [f"speed relative to {base}" if base else "configuration", *map(str, recent)]
    Console().print(_table(heads, rows, numbers=False))
    _print_lines(history_sentences(labelled, experiment))


def speedup_cell(row: Row) -> str:
    """``1.48× (1.40–1.55)``, or why there is no speed-up."""
    if not n.is_number(row["speedup"]) or row["words"] == Outcome.REFERENCE:
        return str(row["words"])
    text = n.marked(n.ratio(row["speedup"]), row["suspect"] > 0)
    if not n.is_number(row["speedup_low"]):
        return text
    return f"{text} ({n.ratio_span(row['speedup_low'], row['speedup_high'], row['speedup'])})"


def history_sentences(labelled: pd.DataFrame, experiment: Experiment) -> list[str]:
    """What a history says, regressions first. `labelled`: its table with labels."""
    base = reference_label(experiment.reference)
    if labelled["measurement"].max() == 1:
        return [
            "There is one measurement, and nothing to compare it with.",
            f"After an update, `{experiment.command}` adds another; without one, after "
            f"`rnnbench retry {experiment.name} '*'`.",
        ]
    changes = labelled[labelled["trend"] != Trend.FIRST].sort_values("change", kind="stable")
    told = changes[changes["change_low"].notna()]
    lines = []
    for row in told[told["trend"] != Trend.NO_CHANGE].to_dict("records"):
        name = joined([row["block"], f"`{row['series']}`", row["column_name"]])
        change = Interval(row["change"], row["change_low"], row["change_high"])
        lines.append(
            f"{n.capitalized(row['trend'])}: {name} from {row['before']} to {row['measurement']}: "
            f"{n.times(change.estimate)} ({n.ratio_interval(change, ' to ')}) its speed relative "
            f"to `{base}`."
        )
    if not lines:
        lines.append(f"No change is shown in {n.counted(len(told), 'comparison')}.")
    if len(told) < len(changes):
        count = len(changes) - len(told)
        lines.append(
            f"Cannot be told: {n.counted(count, 'comparison')} with a measurement without an "
            "interval; measure at least two rounds."
        )
    if len(told):
        lines.append(
            f"{n.counted(len(told), 'comparison')}: even if nothing changed, about "
            f"{n.about(0.05 * len(told))} would appear to by chance, and more if the machine was "
            "in another state."
        )
    return lines


def how_to_use(kernel: str) -> list[str]:
    """The two lines with which a program of one's own gets a `kernel`; none without one."""
    if not kernel:
        return []
    return ["Use it: from rnnlayers import use", f'        use(model, "{kernel}")']


def _print_lines(lines: Iterable[str]) -> None:
    """Prints each of the `lines` as it is: without markup, colours or line breaks."""
    console = Console()
    for line in lines:
        console.print(
            line,
            markup=False,
            highlight=False,
            soft_wrap=True,
        )


def faster_first(row: Row) -> Row:
    """A pair of the table of `versus` with its faster side first.

    The table and the sentence then have one direction. `row` is not changed; a pair without a ratio
    stays as it is.
    """
    if not (n.is_number(row["ratio"]) and row["ratio"] < 1):
        return row
    exchanged = {**row, "ratio": 1 / row["ratio"]}
    for name in ("", "runs_", "seconds_"):
        exchanged[f"{name}a"] = row[f"{name}b"]
        exchanged[f"{name}b"] = row[f"{name}a"]
    if n.is_number(row["low"]):
        exchanged["low"] = 1 / row["high"]
        exchanged["high"] = 1 / row["low"]
    if row["words"] == Outcome.SLOWER:
        exchanged["words"] = Outcome.FASTER
    return exchanged


def print_run(record: Record, place: str) -> None:
    """Prints a run: verdict with reasons, phases, epochs and provenance.

    `place`: the path of its record.
    """
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
        details = phase.details
        remark = ""
        if details.before_fork:
            remark = f"{n.plain(details.before_fork)} of it before the fork"
        elif details.waited:
            remark = f"{n.plain(details.waited)} of it waiting"
        phases.append((phase.name, n.plain(phase.took), remark))
    console.print(_table(("phase", "seconds", ""), phases))

    if record.epochs:
        epochs = []
        for epoch in record.epochs:
            curves = (epoch.loss, epoch.acc, epoch.val_loss, epoch.val_acc)
            number = str(epoch.epoch)
            seconds = f"{epoch.seconds:.4f}"
            epochs.append((number, seconds, *map(n.precise, curves)))
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
