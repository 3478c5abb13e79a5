"""``rnnbench compare A B``: how much faster is A than B, with its interval?

A and B choose runs by words joined with commas: a choice (keras, cpu_2, tf_1_15), a machine, an
override (units=512), or a pattern of run names (digits_*-unrolled-*). Cells that are alike but for
what A and B name are paired. What a certificate finds to be another function gets no ratio.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rnnbench.commands.mlflow_records import from_mlflow, mlflow_records
from rnnbench.errors import ConfigError
from rnnbench.records.record import Record
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
    from_mlflow(parser)
    options = parser.parse_args(list(argv))

    from rnnbench.report.terminal import print_comparison
    from rnnbench.sources.certificates import read_certificates
    from rnnbench.tables.certificates import Certificates
    from rnnbench.tables.comparison import versus, void_words
    from rnnbench.tables.frame import tidy

    records, faults = _records(options)
    folders = sorted(options.results.glob(f"{options.site}/{options.experiment}/certificates"))
    found = Certificates(tuple(one for folder in folders for one in read_certificates(folder)))
    frame = tidy(found.marked(records))
    a, b = (words.split(",") for words in (options.a, options.b))
    table = versus(frame, a, b, found)
    void = [line for words in (a, b) for line in void_words(frame, words)]
    if table.empty:
        remedy = "name what differs: a choice, a machine, key=value, or a pattern of names."
        if void:
            remedy = (
                "`rnnbench show RUN` says more, `rnnbench retry EXPERIMENT` measures them anew."
            )
        raise ConfigError(
            f"no cell of {options.a!r} is alike to one of {options.b!r} in everything else. "
            + " ".join(void),
            where="rnnbench compare",
            remedy=remedy,
        )
    print_comparison(table, options.a, options.b, faults)
    for line in dict.fromkeys(void):
        print(line)
    return 0


def _records(options: argparse.Namespace) -> tuple[list[Record], int]:
    """The runs to choose from, and how many pointers could not be read."""
    if options.from_mlflow:
        records = sorted(mlflow_records(options), key=lambda record: record.started)
        newest = {(r.site, r.name): r for r in records}
        return [r for r in newest.values() if options.site in ("*", r.site)], 0
    pointers = sorted(options.results.glob(f"{options.site}/{options.experiment}/*-s*-r*.json"))
    records, faults = records_of(options.results, pointers)
    if not records:
        raise ConfigError("has no records.", where=str(options.results), remedy="run snakemake.")
    return list({record.key: record for record in records}.values()), len(faults)
