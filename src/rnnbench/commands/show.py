"""Show the newest record of a run: verdict, phases, epochs and provenance."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rnnbench.commands.arguments import add_results, command_parser
from rnnbench.errors import ConfigError
from rnnbench.records.store import read_record, record_files, roots


def main(argv: Sequence[str]) -> int:
    """Prints the record; a companion's only if the run has no other. Returns the exit code."""
    parser = command_parser("show", __doc__)
    parser.add_argument(
        "run", help="a run's name, a pattern that matches one run, or a record's path"
    )
    add_results(parser)
    options = parser.parse_args(list(argv))

    from rnnbench.report.terminal import print_run

    path = Path(options.run)
    if path.suffix != ".json":
        path = _newest(options.results, options.run)
    print_run(read_record(path), str(path))
    return 0


def _newest(results: Path, pattern: str) -> Path:
    if "/" in pattern:
        raise ConfigError(f"{pattern!r} is not a run's name.", where="rnnbench show")
    files = [file for root in roots(results) for file in record_files(root, name=pattern)]
    names = {path.parent.name for path in files}
    if not names:
        raise ConfigError(
            f"there is no record of {pattern!r} in {results}/records.",
            where="rnnbench show",
            remedy="`rnnbench grid EXPERIMENT` prints the names.",
        )
    if len(names) > 1:
        few = ", ".join(sorted(names)[:4])
        raise ConfigError(
            f"{pattern!r} matches {len(names)} runs: {few}, …",
            where="rnnbench show",
            remedy="name one of them.",
        )
    newest = sorted(files, key=lambda path: path.name, reverse=True)
    return next((path for path in newest if not read_record(path).is_companion), newest[0])
