"""``rnnbench convert SOURCE.npz TARGET.npz --i-trust-this-file``: a file without pickles."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rnnbench.datasets.convert import convert
from rnnbench.errors import ConfigError

RISK = (
    "Arrays of lists in an .npz are pickles, and opening a pickle runs whatever code whoever made "
    "the file put into it, with your rights. rnnbench opens none but those whose md5 data.dvc "
    "pins. This command opens yours once and writes the same content without pickles."
)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="rnnbench convert", description=RISK)
    parser.add_argument("source", type=Path, help="an .npz with arrays of lists")
    parser.add_argument("target", type=Path, help="the .npz to write; must not exist")
    parser.add_argument(
        "--i-trust-this-file",
        action="store_true",
        dest="trusted",
        help="you know who made SOURCE: opening it runs their code",
    )
    options = parser.parse_args(arguments)
    if not options.trusted:
        raise ConfigError(
            f"opening it may run code. {RISK}",
            where=str(options.source),
            remedy="where you know who made the file, add --i-trust-this-file.",
        )
    if options.target.exists():
        raise ConfigError(
            "exists already.", where=str(options.target), remedy="name a file that does not."
        )
    pickled = convert(options.source, options.target)
    print(f"{options.target} holds what {options.source} does, without pickles.")
    print(f"It was {', '.join(pickled) or 'nothing'} that had been pickled.")
    print(f"Use it: dataset=file dataset.path={options.target.absolute()}")
    return 0
