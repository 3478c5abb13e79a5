"""The commands `environment` and `lock`, about the builds' packages."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rnnbench.builds.environments import make
from rnnbench.builds.pins import pins, python_versions, relock
from rnnbench.commands.arguments import command_parser
from rnnbench.errors import BuildError, say
from rnnbench.records.store import write_json


def environment_main(argv: Sequence[str]) -> int:
    """Make the environment of a lock file, a Python version and an optional wheel, unless it is
    complete already, and write its description to ``--output``."""
    options = _parser().parse_args(argv)
    try:
        requested = pins(options.lock, options.python, options.wheel)
    except OSError as error:
        raise BuildError(f"cannot be read: {error}.", where=str(options.lock)) from error
    marker: dict[str, Any] = make(requested, Path.cwd(), say)
    if options.output:
        write_json(options.output, marker)
    print(f"{marker['environment']}: Python {marker['python']}, {len(marker['versions'])} packages")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("environment", environment_main.__doc__)
    parser.add_argument("lock", type=Path, help="a lock file with hashes")
    parser.add_argument(
        "--python", required=True, metavar="VERSION", help="the Python version, such as 3.7"
    )
    parser.add_argument("--wheel", type=Path, help="a wheel that replaces the locked one")
    parser.add_argument(
        "--output", type=Path, help="a JSON file to write: path, Python and package versions"
    )
    return parser


def lock_main(argv: Sequence[str]) -> int:
    """Resolve the builds' packages, workflow/envs/*.in, to lock files with hashes, for each named
    build or for all that have a lock."""
    parser = command_parser("lock", lock_main.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a lock's name (default: all)")
    parser.add_argument("--upgrade", action="store_true", help="use newer versions if allowed")
    options = parser.parse_args(argv)
    root = Path.cwd()
    for name, python in python_versions(root / "conf", tuple(options.names)).items():
        print(f"{relock(name, python, root, upgrade=options.upgrade)}: Python {python}")
    return 0
