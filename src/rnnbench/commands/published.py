"""``rnnbench published``: the published comparisons as a page of their own."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rnnbench.errors import ConfigError


def main(argv: Sequence[str]) -> int:
    """Writes ``reports/published.html`` and prints its path."""
    parser = argparse.ArgumentParser(prog="rnnbench published", description=__doc__)
    parser.add_argument("--rows", type=Path, default=Path("reports/published"), metavar="DIR")
    parser.add_argument("--out", type=Path, default=Path("reports"), metavar="DIR")
    options = parser.parse_args(list(argv))

    from rnnbench.report.index import write_index
    from rnnbench.report.published import write_published
    from rnnbench.sources.published import read_published

    rows = read_published(options.rows)
    if not rows:
        raise ConfigError("has no published rows (*.csv).", where=str(options.rows))
    page = write_published(rows, options.out)[0]
    write_index(options.out)
    print(page)
    return 0
