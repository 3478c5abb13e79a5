"""Resolve the builds' packages, workflow/envs/*.in, to lock files with hashes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rnnbench.builds.relock import python_versions, relock
from rnnbench.commands.arguments import command_parser


def main(argv: Sequence[str]) -> int:
    """Writes ``workflow/envs/NAME.lock`` for each named build, or for all that have a lock."""
    parser = command_parser("lock", __doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a lock's name (default: all)")
    parser.add_argument("--upgrade", action="store_true", help="use newer versions if allowed")
    options = parser.parse_args(argv)
    root = Path.cwd()
    for name, python in python_versions(root / "conf", tuple(options.names)).items():
        print(f"{relock(name, python, root, upgrade=options.upgrade)}: Python {python}")
    return 0
