"""The commands about an experiment before it is measured, and the one that starts it."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rnnbench.axes import NAMES
from rnnbench.commands.arguments import (
    PLANNED,
    Arguments,
    command_parser,
    parse_experiment,
    positive,
    refuse_multirun,
)

if TYPE_CHECKING:
    from rnnbench.grid.point import GridPoint


def run(arguments: Sequence[str]) -> int:
    """Print the Snakemake command of an experiment and run it.

    Arguments after -- are passed to Snakemake unchanged, such as -n or --profile NAME.
    """
    command = command_of(arguments)
    print(shlex.join(["snakemake", *command]), file=sys.stderr, flush=True)
    os.execv(sys.executable, [sys.executable, "-m", "rnnbench.workflow", *command])


def command_of(arguments: Sequence[str]) -> list[str]:
    """The arguments of Snakemake."""
    declared: Arguments = {
        "--cores": {
            "type": _cores,
            "default": "all",
            "help": "the number of CPU cores to use (default: %(default)s)",
        },
        "--budget": {
            "type": positive,
            "metavar": "MINUTES",
            "help": "measure no further repeats after this many minutes, in experiments with "
            "`repeats`",
        },
        "--allow-void": {
            "action": "store_true",
            "help": "exit with 0, instead of 3, if all runs of a configuration are void",
        },
    }
    parser = command_parser(run, PLANNED | declared)

    own = list(arguments)
    for_snakemake: list[str] = []
    if "--" in own:
        separator = own.index("--")
        for_snakemake = own[separator + 1 :]
        own = own[:separator]

    # Snakemake takes the last --config only.
    config = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    config.add_argument("--config", "-C", nargs="*", default=[])
    given, for_snakemake = config.parse_known_args(for_snakemake)

    refuse_multirun(parser, own)
    _, unknown = parser.parse_known_intermixed_args(own)
    if unknown:
        hint = "write options of Snakemake after --, as in rnnbench run quick -- -n"
        parser.error(f"unrecognized arguments: {' '.join(unknown)}; {hint}")
    options = parse_experiment(parser, own, Path())

    settings = [f"experiment={options.experiment}"]
    if options.overrides:
        settings.append(f"overrides={' '.join(options.overrides)}")
    if options.budget is not None:
        settings.append(f"budget={options.budget:g}")
    if options.allow_void:
        settings.append("allow_void=true")
    further = ",".join(map(str, options.conf[1:]))
    if further:
        settings.append(f"conf={further}")
    return ["--cores", options.cores, *for_snakemake, "--config", *settings, *given.config]


def _cores(text: str) -> str:
    """The value of ``--cores``, as Snakemake takes it."""
    if not re.fullmatch(r"all|[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"{text} is not a number ≥ 1 or all")
    return text


def grid(arguments: Sequence[str]) -> int:
    """List the grid points of an experiment: name, choices, run or skip, and why.

    With --cfg, print the composed configuration of the first grid point instead, with the origin of
    each value. Overrides choose another grid point.
    """
    # Imported late: `run` only starts Snakemake.
    from rnnbench.grid.expand import expand
    from rnnbench.grid.experiment import load_experiment
    from rnnbench.grid.runtimes import with_runtimes
    from rnnbench.planning.planner import unmet_at

    declared: Arguments = {
        "--json": {"action": "store_true", "help": "print a JSON list instead of a table"},
        "--cfg": {
            "action": "store_true",
            "help": "print the configuration of the first grid point as YAML, with the origin of "
            "each value",
        },
    }
    parser = command_parser(grid, PLANNED | declared)

    root = Path.cwd()
    options = parse_experiment(parser, arguments, root)
    if options.cfg and options.json:
        parser.error("argument --json: not allowed with argument --cfg")
    experiment = load_experiment(options.experiment, options.conf)
    experiment, of_grids = with_runtimes(experiment, options.overrides, options.conf)
    points = expand(
        experiment,
        options.conf,
        of_grids,
        unmet_at(root),
        root,
    )
    if options.cfg:
        from rnnbench.grid.origins import with_origins

        print(f"# {points[0].name}: grid point 1 of {len(points)}")
        print(with_origins(points[0], options.conf), end="")
    elif options.json:
        entries = []
        for point in points:
            entry = {
                "name": point.name,
                "choices": dict(point.choices),
                "overrides": dict(point.overrides),
                "seed": point.seed,
                "repeat": point.repeat,
                "alias": point.alias,
                "run": point.skip is None,
                "why": point.skip,
            }
            entries.append(entry)
        print(json.dumps(entries, indent=2, ensure_ascii=False))
    else:
        _print_table(points)
    return 0


def _print_table(points: Sequence[GridPoint]) -> None:
    """Prints a row for each grid point, with a column for each axis that has several choices."""
    from rich.console import Console

    from rnnbench.report.numbers import counted  # imports SciPy, which no other use needs

    common = []
    varied = []
    for axis in NAMES:
        choices = {point.choices.get(axis) for point in points}
        if len(choices) > 1:
            varied.append(axis)
        elif choices != {None}:
            common.append(f"{axis}={choices.pop()}")
    if common:
        print(f"all grid points: {' '.join(common)}")

    rows = [["name", *varied, "", "why"]]
    for point in points:
        chosen = [point.choices.get(axis, "") for axis in varied]
        state = "run" if point.skip is None else "skip"
        rows.append([point.name, *chosen, state, point.skip or ""])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]

    console = Console(highlight=False, markup=False, soft_wrap=True)
    for row in rows:
        line = "  ".join(map(str.ljust, row, widths)).rstrip()
        style = "none"
        if row is rows[0]:
            style = "bold"
        elif row[-1]:
            style = "yellow"
        if console.is_terminal:
            console.print(line, style=style)
        else:
            print(line)  # to a pipe, rich would take ten times as long

    skipped = sum(point.skip is not None for point in points)
    print(f"{counted(len(points), 'grid point')}: {len(points) - skipped} run, {skipped} skipped")
