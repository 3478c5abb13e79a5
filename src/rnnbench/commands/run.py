"""``rnnbench run EXPERIMENT [KEY=VALUE …] [-- …]``: its Snakemake command, shown and started.

What stands behind ``--`` goes to Snakemake as it is: ``-n``, ``--profile …``.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from rnnbench.commands.experiment_arguments import add_experiment, conf_folders, parse_words


def main(arguments: Sequence[str]) -> int:
    """Does not return: Snakemake takes the place of this process."""
    command = command_of(arguments)
    print(shlex.join(["snakemake", *command]), file=sys.stderr, flush=True)
    os.execv(sys.executable, [sys.executable, "-m", "snakemake", *command])


def command_of(arguments: Sequence[str]) -> list[str]:
    """Snakemake's arguments."""
    parser = argparse.ArgumentParser(
        prog="rnnbench run",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_experiment(parser)
    parser.add_argument("--cores", default="all", help="how many; default: all")
    given = list(arguments)
    place = given.index("--") if "--" in given else len(given)
    options = parser.parse_intermixed_args(given[:place])
    wanted = parse_words(options.words)
    further = conf_folders(Path("conf"), options.conf)[1:]
    settings = [f"experiment={wanted.experiment}"]
    settings += [f"overrides={wanted.text}"] if wanted.overrides else []
    settings += [f"conf={','.join(map(str, further))}"] if further else []
    return ["--cores", options.cores, *given[place + 1 :], "--config", *settings]
