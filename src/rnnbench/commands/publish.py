"""``rnnbench publish``: add a published result of your own, to stand beside measured ones.

It goes to reports/published/own.csv after it was checked. Values are as its source gives them:
seconds of all epochs together, accuracies as shares (0.97), price in USD per hour.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rnnbench.sources.published import COLUMNS, NEEDED, append_row, parse_row

OWN = Path("reports/published/own.csv")


def main(argv: Sequence[str]) -> int:
    """Checks the row and appends it. Prints where it went."""
    parser = argparse.ArgumentParser(
        prog="rnnbench publish", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    for name in COLUMNS:
        parser.add_argument(f"--{name.replace('_', '-')}", default="", required=name in NEEDED)
    parser.add_argument("--file", type=Path, default=OWN, help=f"default: {OWN}")
    options = vars(parser.parse_args(list(argv)))
    file = options.pop("file")
    row = parse_row(options, "rnnbench publish")
    append_row(file, row)
    print(f"{file}: added {row.workload} on {row.place}, {row.train_seconds:g} s ({row.source}).")
    return 0
