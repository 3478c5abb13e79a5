"""Print the Snakemake command of an experiment and run it.

Arguments after -- are passed to Snakemake unchanged, such as -n or --profile NAME.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from rnnbench.commands.arguments import add_experiment, command_parser, conf_folders, parse_words


def main(arguments: Sequence[str]) -> int:
    """Does not return: Snakemake replaces this process."""
    command = command_of(arguments)
    print(shlex.join(["snakemake", *command]), file=sys.stderr, flush=True)
    os.execv(sys.executable, [sys.executable, "-m", "snakemake", *command])


def command_of(arguments: Sequence[str]) -> list[str]:
    """The arguments of Snakemake."""
    parser = command_parser("run", __doc__)
    add_experiment(parser)
    parser.add_argument(
        "--cores", default="all", help="the number of CPU cores to use (default: %(default)s)"
    )
    parser.add_argument(
        "--budget",
        type=float,
        metavar="MINUTES",
        help="measure no further repeats after so many minutes, in experiments with `repeats`",
    )
    given = list(arguments)
    separator = given.index("--") if "--" in given else len(given)
    options = parser.parse_intermixed_args(given[:separator])
    request = parse_words(options.words)
    further = conf_folders(Path("conf"), options.conf)[1:]
    settings = [f"experiment={request.experiment}"]
    settings += [f"overrides={request.text}"] if request.overrides else []
    settings += [] if options.budget is None else [f"budget={options.budget:g}"]
    settings += [f"conf={','.join(map(str, further))}"] if further else []
    return ["--cores", options.cores, *given[separator + 1 :], "--config", *settings]
