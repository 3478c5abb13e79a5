"""The small form of a benchmark, ``--small``: its whole way with few and short runs, outside this
checkout's results. It shows that the script works; its figures say nothing about performance.
`tests/benchmarks` runs it."""

from __future__ import annotations

import argparse


def add_small(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--small", action="store_true", help="a few seconds, to see that this script works"
    )
