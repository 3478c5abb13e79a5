"""Rewrite a dataset file that holds pickles as one without."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rnnbench.datasets.convert import convert
from rnnbench.errors import ConfigError

RISK = (
    "Arrays of lists in an .npz file are pickles, and opening a pickle runs any code that the "
    "file's author put into it, with your rights. rnnbench opens only pickles whose md5 is pinned "
    "in data.dvc. This command opens your file once and writes the same content without pickles."
)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="rnnbench convert", description=f"{__doc__} {RISK}")
    parser.add_argument("source", type=Path, help="an .npz file with arrays of lists")
    parser.add_argument("target", type=Path, help="the .npz file to write; must not exist")
    parser.add_argument(
        "--i-trust-this-file",
        action="store_true",
        dest="trusted",
        help="confirm that you know who made SOURCE: opening it runs their code",
    )
    options = parser.parse_args(arguments)
    if not options.trusted:
        raise ConfigError(
            f"opening it may run code. {RISK}",
            where=str(options.source),
            remedy="if you know who made the file, add --i-trust-this-file.",
        )
    if options.target.exists():
        raise ConfigError(
            "exists already.", where=str(options.target), remedy="name a file that does not exist."
        )
    pickled = convert(options.source, options.target)
    print(f"{options.target} has the content of {options.source}, without pickles.")
    print(f"Formerly pickled arrays: {', '.join(pickled) or 'none'}.")
    print(f"Use it: dataset=file dataset.path={options.target.absolute()}")
    return 0
