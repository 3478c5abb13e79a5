"""``rnnbench show RUN``: one run, its verdict, phases, epochs and where it comes from."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rnnbench.errors import ConfigError
from rnnbench.records.store import read_record


def main(argv: Sequence[str]) -> int:
    """Prints the newest record of that name. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="rnnbench show", description=__doc__)
    parser.add_argument("run", help="a run's name, a pattern that fits one, or a record's path")
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="DIR")
    options = parser.parse_args(list(argv))

    from rnnbench.report.terminal import print_run

    path = Path(options.run)
    if path.suffix != ".json":
        path = _newest(options.results, options.run)
    print_run(read_record(path), str(path))
    return 0


def _newest(results: Path, pattern: str) -> Path:
    if "/" in pattern:
        raise ConfigError(f"{pattern!r} is no name of a run.", where="rnnbench show")
    found = list(results.glob(f"records/*/{pattern}/*.json"))
    names = sorted({path.parent.name for path in found})
    if not names:
        raise ConfigError(
            f"there is no record of {pattern!r} in {results}/records.",
            where="rnnbench show",
            remedy="`rnnbench cells EXPERIMENT` prints the names.",
        )
    if len(names) > 1:
        few = ", ".join(names[:4])
        raise ConfigError(f"{pattern!r} fits {len(names)} runs: {few}, …", where="rnnbench show",
                          remedy="name one.")  # fmt: skip
    return max(found, key=lambda path: path.name)
