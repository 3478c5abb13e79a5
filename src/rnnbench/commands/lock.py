"""``rnnbench lock [NAME…]``: the builds' lock files, resolved anew (``make lock-builds``)."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rnnbench.builds.relock import pythons, relock


def main(argv: Sequence[str]) -> int:
    """Writes ``workflow/envs/NAME.lock`` for each build that has one, or for those named."""
    parser = argparse.ArgumentParser(
        prog="rnnbench lock", description="Resolves workflow/envs/*.in to lock files with hashes."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="locks (default: all)")
    parser.add_argument("--upgrade", action="store_true", help="take newer versions where allowed")
    options = parser.parse_args(argv)
    root = Path.cwd()
    for name, python in pythons(root / "conf", tuple(options.names)).items():
        print(f"{relock(name, python, root, upgrade=options.upgrade)}: Python {python}")
    return 0
