"""``rnnbench compare A B``: how much faster is A than B, with its interval?

A and B choose runs by words joined with commas: a choice (keras, cpu_2, tf_1_15), a machine, an
override (units=512), or a pattern of run names (digits_*-unrolled-*). Cells that are alike but for
what A and B name are paired.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rnnbench.errors import ConfigError
from rnnbench.records.store import records_of


def main(argv: Sequence[str]) -> int:
    """Prints one row per pair of cells. Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="rnnbench compare", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("a", help="for instance unrolled, or unrolled,cpu_2")
    parser.add_argument("b", help="for instance keras")
    parser.add_argument("--experiment", default="*", help="only this one (default: all)")
    parser.add_argument("--site", default="*", help="only this site (default: all)")
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="DIR")
    options = parser.parse_args(list(argv))

    from rnnbench.report.terminal import print_comparison
    from rnnbench.tables.frame import tidy
    from rnnbench.tables.versus import versus

    pointers = sorted(options.results.glob(f"{options.site}/{options.experiment}/*-s*-r*.json"))
    records, faults = records_of(options.results, pointers)
    records = list({record.key: record for record in records}.values())
    if not records:
        raise ConfigError("has no records.", where=str(options.results), remedy="run snakemake.")
    table = versus(tidy(records), options.a.split(","), options.b.split(","))
    if table.empty:
        raise ConfigError(
            f"no cell of {options.a!r} is alike to one of {options.b!r} in everything else.",
            where="rnnbench compare",
            remedy="name what differs: a choice, a machine, key=value, or a pattern of names.",
        )
    print_comparison(table, options.a, options.b, len(faults))
    return 0
