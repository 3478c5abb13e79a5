"""``rnnbench environment NAME…``: the environments of builds, made or looked at."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rnnbench.builds.environments import make
from rnnbench.builds.pins import pins
from rnnbench.errors import BuildError, say
from rnnbench.records.store import write_json


def main(argv: Sequence[str]) -> int:
    """Makes the environment of a lock, a Python version and perhaps a wheel, unless it is
    there and whole, and writes what it is to ``--output``."""
    options = _parser().parse_args(argv)
    try:
        wanted = pins(options.lock, options.python, options.wheel)
    except OSError as error:
        raise BuildError(f"cannot be read: {error}.", where=str(options.lock)) from error
    marker: dict[str, Any] = make(wanted, Path.cwd(), say)
    if options.output:
        write_json(options.output, marker)
    print(f"{marker['environment']}: Python {marker['python']}, {len(marker['versions'])} packages")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rnnbench environment", description="Makes the environment of a locked build."
    )
    parser.add_argument("lock", type=Path, help="a lock file with hashes")
    parser.add_argument("--python", required=True, metavar="VERSION", help="such as 3.7")
    parser.add_argument(
        "--wheel", type=Path, help="a wheel of your own, in place of the locked one"
    )
    parser.add_argument("--output", type=Path, help="where to write what the environment is")
    return parser
