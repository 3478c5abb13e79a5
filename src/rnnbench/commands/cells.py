"""``rnnbench cells experiment=NAME``: the cells of an experiment, before anything runs."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rnnbench.cells.catalogue import nearest_conf
from rnnbench.cells.cell import GROUPS, Cell
from rnnbench.cells.expand import expand
from rnnbench.cells.experiment import load_experiment
from rnnbench.cells.here import obstacles
from rnnbench.errors import ConfigError, RnnbenchError

PIPED_WIDTH = 1000


def main(argv: Sequence[str]) -> int:
    """Prints the cells as a table or as JSON. Returns the exit code."""
    options = _parser().parse_intermixed_args(list(argv))
    try:
        name, overrides = _experiment_of(options.overrides)
        conf = [nearest_conf(Path.cwd()), *options.conf]
        missing = [str(folder) for folder in options.conf if not folder.is_dir()]
        if missing:
            raise ConfigError("is not a folder.", where=f"--conf {missing[0]}")
        cells = expand(load_experiment(name, conf), conf, overrides, obstacles)
    except RnnbenchError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    if options.json:
        print(json.dumps([as_json(cell) for cell in cells], indent=2, ensure_ascii=False))
    else:
        _print_table(cells)
    return 0


def as_json(cell: Cell) -> dict[str, object]:
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
        prog="rnnbench cells", description="The cells of an experiment: name, choices, run or skip."
    )
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="KEY=VALUE",
        help="experiment=NAME (default: quick), and Hydra overrides applied to every grid",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        type=Path,
        metavar="DIR",
        help="a further config folder with choices or experiments of your own",
    )
    return parser


def _experiment_of(words: Sequence[str]) -> tuple[str, list[str]]:
    names = [word.partition("=")[2] for word in words if word.startswith("experiment=")]
    if len(names) > 1:
        raise ConfigError(
            "experiment is named twice.", where="command line", remedy="name one experiment."
        )
    rest = [word for word in words if not word.startswith("experiment=")]
    return (names[0] if names else "quick"), rest


def _print_table(cells: Sequence[Cell]) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=PIPED_WIDTH)
    axes = [group for group in GROUPS if any(group in cell.choices for cell in cells)]
    varied = [axis for axis in axes if len({cell.choices.get(axis) for cell in cells}) > 1]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("name", *varied, "", "why"):
        table.add_column(column, overflow="fold")
    for cell in cells:
        verdict = Text("run", "green") if cell.skip is None else Text("skip", "yellow")
        chosen = [Text(cell.choices.get(axis, "")) for axis in varied]
        table.add_row(Text(cell.name), *chosen, verdict, Text(cell.skip or ""))
    same = [f"{axis}={cells[0].choices[axis]}" for axis in axes if axis not in varied]
    if same:
        console.print(Text(f"all cells: {' '.join(same)}"))
    console.print(table)
    skipped = sum(cell.skip is not None for cell in cells)
    console.print(f"{len(cells)} cells: {len(cells) - skipped} run, {skipped} skipped")
