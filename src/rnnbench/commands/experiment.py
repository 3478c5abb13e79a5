"""The commands about an experiment before it is measured, and the one that starts it."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from rnnbench.axes import NAMES
from rnnbench.commands.arguments import experiment_parser, parse_experiment, positive

if TYPE_CHECKING:
    from rnnbench.grid.point import GridPoint


def run(arguments: Sequence[str]) -> int:
    """Print the Snakemake command of an experiment and run it.

    Arguments after -- are passed to Snakemake unchanged, such as -n or --profile NAME.
    """
    command = command_of(arguments)
    print(shlex.join(["snakemake", *command]), file=sys.stderr, flush=True)
    os.execv(sys.executable, [sys.executable, "-m", "snakemake", *command])


def command_of(arguments: Sequence[str]) -> list[str]:
    """The arguments of Snakemake."""
    parser = experiment_parser(run)
    cores = "the number of CPU cores to use (default: %(default)s)"
    parser.add_argument("--cores", default="all", help=cores)
    budget = "measure no further repeats after this many minutes, in experiments with `repeats`"
    parser.add_argument("--budget", type=positive, metavar="MINUTES", help=budget)
    void = "exit with 0, instead of 3, if all runs of a configuration are void"
    parser.add_argument("--allow-void", action="store_true", help=void)
    refuse = parser.error

    def refuse_with_hint(message: str) -> NoReturn:
        if message.startswith("unrecognized"):
            message += "; write options of Snakemake after --, as in rnnbench run quick -- -n"
        refuse(message)

    parser.error = refuse_with_hint  # type: ignore[method-assign]
    given = list(arguments)
    separator = given.index("--") if "--" in given else len(given)
    options = parse_experiment(parser, given[:separator], Path())
    if not re.fullmatch(r"all|[1-9]\d*", options.cores):
        parser.error(f"argument --cores: {options.cores} is not a number ≥ 1 or all")
    settings = [f"experiment={options.experiment}"]
    settings += [f"overrides={' '.join(options.overrides)}"] if options.overrides else []
    settings += [] if options.budget is None else [f"budget={options.budget:g}"]
    settings += ["allow_void=true"] if options.allow_void else []
    _, *further = options.conf
    settings += [f"conf={','.join(map(str, further))}"] if further else []
    return ["--cores", options.cores, *given[separator + 1 :], "--config", *settings]


def grid(arguments: Sequence[str]) -> int:
    """List the grid points of an experiment: name, choices, run or skip, and why.

    With --cfg, print the composed configuration of the first grid point instead, with the origin of
    each value. Overrides choose another grid point.
    """
    # Imported late: `run` only starts Snakemake.
    from rnnbench.grid.expand import expand
    from rnnbench.grid.experiment import load_experiment
    from rnnbench.planning.planner import unmet_at

    parser = experiment_parser(grid)
    parser.add_argument("--json", action="store_true", help="print a JSON list instead of a table")
    cfg = "print the configuration of the first grid point as YAML, with the origin of each value"
    parser.add_argument("--cfg", action="store_true", help=cfg)
    root = Path.cwd()
    options = parse_experiment(parser, arguments, root)
    experiment = load_experiment(options.experiment, options.conf)
    points = expand(experiment, options.conf, options.overrides, unmet_at(root), root)
    if options.cfg:
        from rnnbench.grid.origins import with_origins

        print(f"# {points[0].name}: grid point 1 of {len(points)}")
        print(with_origins(points[0], options.conf), end="")
    elif options.json:
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


def _print_table(points: Sequence[GridPoint]) -> None:
    from rich.console import Console

    from rnnbench.report.numbers import counted  # imports SciPy, which no other use needs

    console = Console(highlight=False, markup=False, soft_wrap=True)
    axes = [group for group in NAMES if any(group in point.choices for point in points)]
    varied = [axis for axis in axes if len({point.choices.get(axis) for point in points}) > 1]
    common = [f"{axis}={points[0].choices[axis]}" for axis in axes if axis not in varied]
    if common:
        print(f"all grid points: {' '.join(common)}")
    header = ("name", *varied, "", "why")
    rows = [_row(point, varied) for point in points]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        line = "  ".join(map(str.ljust, row, widths)).rstrip()
        style = "bold" if row is header else "yellow" if row[-1] else "none"
        # To a pipe, rich would take ten times as long.
        console.print(line, style=style) if console.is_terminal else print(line)
    skipped = sum(point.skip is not None for point in points)
    print(f"{counted(len(points), 'grid point')}: {len(points) - skipped} run, {skipped} skipped")


def _row(point: GridPoint, axes: Sequence[str]) -> tuple[str, ...]:
    chosen = (point.choices.get(axis, "") for axis in axes)
    return point.name, *chosen, "run" if point.skip is None else "skip", point.skip or ""
