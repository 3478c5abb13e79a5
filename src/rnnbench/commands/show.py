"""``rnnbench show RUN``: one run, its verdict, phases, epochs and where it comes from."""

from __future__ import annotations

import argparse
from collections.abc import Sequence, Set
from fnmatch import fnmatchcase
from pathlib import Path

from rnnbench.commands.mlflow_records import from_mlflow, mlflow_records
from rnnbench.errors import ConfigError
from rnnbench.records.store import read_record, record_files


def main(argv: Sequence[str]) -> int:
    """Prints the newest record of that name, a companion's only where there is no other. Returns
    the exit code."""
    parser = argparse.ArgumentParser(prog="rnnbench show", description=__doc__)
    parser.add_argument("run", help="a run's name, a pattern that fits one, or a record's path")
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="DIR")
    parser.add_argument("--experiment", default="*", help="which one of MLflow's")
    from_mlflow(parser)
    options = parser.parse_args(list(argv))

    from rnnbench.report.terminal import print_run

    if options.from_mlflow:
        found = [r for r in mlflow_records(options) if fnmatchcase(r.name, options.run)]
        _only({record.name for record in found}, options.run, f"MLflow's {options.experiment}")
        record = max(found, key=lambda record: (not record.is_companion, record.started))
        print_run(record, f"{record.key} in MLflow")
        return 0
    path = Path(options.run)
    if path.suffix != ".json":
        path = _newest(options.results, options.run)
    print_run(read_record(path), str(path))
    return 0


def _newest(results: Path, pattern: str) -> Path:
    if "/" in pattern:
        raise ConfigError(f"{pattern!r} is no name of a run.", where="rnnbench show")
    found = record_files(results, name=pattern)
    _only({path.parent.name for path in found}, pattern, f"{results}/records")
    newest = sorted(found, key=lambda path: path.name, reverse=True)
    return next((path for path in newest if not read_record(path).is_companion), newest[0])


def _only(names: Set[str], pattern: str, place: str) -> None:
    """One name, or an error that says which there are."""
    if not names:
        raise ConfigError(
            f"there is no record of {pattern!r} in {place}.",
            where="rnnbench show",
            remedy="`rnnbench grid EXPERIMENT` prints the names.",
        )
    if len(names) > 1:
        few = ", ".join(sorted(names)[:4])
        raise ConfigError(f"{pattern!r} fits {len(names)} runs: {few}, …", where="rnnbench show",
                          remedy="name one.")  # fmt: skip
