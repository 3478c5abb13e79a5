"""``rnnbench grid EXPERIMENT``: the cells of an experiment, before anything runs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rnnbench.commands.experiment_arguments import add_experiment, conf_folders, parse_words
from rnnbench.grid.catalogue import nearest_conf
from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import load_experiment
from rnnbench.grid.local_constraints import unmet_constraints
from rnnbench.grid.point import GROUPS, GridPoint
from rnnbench.report.numbers import counted

MOST_STYLED = 1000


def main(argv: Sequence[str]) -> int:
    """Prints the cells as a table or as JSON. Returns the exit code."""
    options = _parser().parse_intermixed_args(list(argv))
    name, overrides = parse_words(options.words)
    conf = conf_folders(nearest_conf(Path.cwd()), options.conf)
    cells = expand(load_experiment(name, conf), conf, overrides, unmet_constraints)
    if options.json:
        print(json.dumps([as_json(cell) for cell in cells], indent=2, ensure_ascii=False))
    else:
        _print_table(cells)
    return 0


def as_json(cell: GridPoint) -> dict[str, object]:
    """What ``--json`` says about a cell."""
    return {
        "name": cell.name,
        "choices": dict(cell.choices),
        "overrides": dict(cell.overrides),
        "seed": cell.seed,
        "repeat": cell.repeat,
        "alias": cell.alias,
        "run": cell.skip is None,
        "why": cell.skip,
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rnnbench grid", description="The cells of an experiment: name, choices, run or skip."
    )
    add_experiment(parser)
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    return parser


def _print_table(cells: Sequence[GridPoint]) -> None:
    console = Console(highlight=False)
    axes = [group for group in GROUPS if any(group in cell.choices for cell in cells)]
    varied = [axis for axis in axes if len({cell.choices.get(axis) for cell in cells}) > 1]
    same = [f"{axis}={cells[0].choices[axis]}" for axis in axes if axis not in varied]
    if same:
        print(f"all cells: {' '.join(same)}")
    header = ("name", *varied, "", "why")
    rows = [_row(cell, varied) for cell in cells]
    if console.is_terminal and len(rows) <= MOST_STYLED:
        console.print(_styled(header, rows))
    else:
        # In a pipe names stay whole; and rich needs half a millisecond for each row.
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        for row in (header, *rows):
            print("  ".join(map(str.ljust, row, widths)).rstrip())
    skipped = sum(cell.skip is not None for cell in cells)
    print(f"{counted(len(cells), 'cell')}: {len(cells) - skipped} run, {skipped} skipped")


def _row(cell: GridPoint, axes: Sequence[str]) -> tuple[str, ...]:
    chosen = (cell.choices.get(axis, "") for axis in axes)
    return cell.name, *chosen, "run" if cell.skip is None else "skip", cell.skip or ""


def _styled(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in header:
        table.add_column(column, overflow="fold")
    for *first, verdict, why in rows:
        colour = "green" if verdict == "run" else "yellow"
        table.add_row(*map(Text, first), Text(verdict, colour), Text(why))
    return table
