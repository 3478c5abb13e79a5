"""List the grid points of an experiment: name, choices, run or skip, and why."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rnnbench.axes import NAMES
from rnnbench.commands.arguments import add_experiment, command_parser, conf_folders, parse_words
from rnnbench.grid.catalogue import nearest_conf
from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import load_experiment
from rnnbench.grid.point import GridPoint
from rnnbench.grid.requirements import unmet_here
from rnnbench.report.numbers import counted

MAX_STYLED_ROWS = 1000


def main(argv: Sequence[str]) -> int:
    """Prints the grid points as a table or as JSON. Returns the exit code."""
    options = _parser().parse_intermixed_args(list(argv))
    name, overrides = parse_words(options.words)
    conf = conf_folders(nearest_conf(Path.cwd()), options.conf)
    points = expand(load_experiment(name, conf), conf, overrides, unmet_here)
    if options.json:
        print(json.dumps([as_json(point) for point in points], indent=2, ensure_ascii=False))
    else:
        _print_table(points)
    return 0


def as_json(point: GridPoint) -> dict[str, object]:
    """The entry of a grid point in the output of ``--json``."""
    return {
        "name": point.name,
        "choices": dict(point.choices),
        "overrides": dict(point.overrides),
        "seed": point.seed,
        "repeat": point.repeat,
        "alias": point.alias,
        "run": point.skip is None,
        "why": point.skip,
    }


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("grid", __doc__)
    add_experiment(parser)
    parser.add_argument("--json", action="store_true", help="print a JSON list instead of a table")
    return parser


def _print_table(points: Sequence[GridPoint]) -> None:
    console = Console(highlight=False)
    axes = [group for group in NAMES if any(group in point.choices for point in points)]
    varied = [axis for axis in axes if len({point.choices.get(axis) for point in points}) > 1]
    common = [f"{axis}={points[0].choices[axis]}" for axis in axes if axis not in varied]
    if common:
        print(f"all grid points: {' '.join(common)}")
    header = ("name", *varied, "", "why")
    rows = [_row(point, varied) for point in points]
    if console.is_terminal and len(rows) <= MAX_STYLED_ROWS:
        console.print(_styled(header, rows))
    else:
        # Output to a pipe must not truncate names, and rich needs half a millisecond per row.
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        for row in (header, *rows):
            print("  ".join(map(str.ljust, row, widths)).rstrip())
    skipped = sum(point.skip is not None for point in points)
    print(f"{counted(len(points), 'grid point')}: {len(points) - skipped} run, {skipped} skipped")


def _row(point: GridPoint, axes: Sequence[str]) -> tuple[str, ...]:
    chosen = (point.choices.get(axis, "") for axis in axes)
    return point.name, *chosen, "run" if point.skip is None else "skip", point.skip or ""


def _styled(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in header:
        table.add_column(column, overflow="fold")
    for *first, action, why in rows:
        colour = "green" if action == "run" else "yellow"
        table.add_row(*map(Text, first), Text(action, colour), Text(why))
    return table
