"""The command that prints one run: `show`."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path

from rnnbench.commands.arguments import RESULTS, Arguments, command_parser
from rnnbench.errors import ConfigError
from rnnbench.records.store import read_record, record_files, roots


def show(arguments: Sequence[str]) -> int:
    """Show the newest record of a run: verdict, phases, epochs and provenance."""
    declared: Arguments = {
        "run": {
            "help": "the name of a run, a pattern that matches one run, or the path of a record",
        },
        "--results": RESULTS,
    }
    options = command_parser(show, declared).parse_args(arguments)

    from rnnbench.report.terminal import print_run

    path = Path(options.run)
    if path.suffix != ".json":
        path = _newest(options.results, options.run)
    print_run(read_record(path), str(path))
    return 0


def _newest(results: Path, pattern: str) -> Path:
    """The newest record of the only run that matches the `pattern`, preferably no companion."""
    if "/" in pattern:
        raise ConfigError(f"{pattern!r} is not a run's name.", where="show")

    files = []
    for root in roots(results):
        files += record_files(root, name=pattern)
    names = {path.parent.name for path in files}
    if not names:
        raise ConfigError(
            f"there is no record of {pattern!r} in {results}/records.",
            where="show",
            remedy="`rnnbench grid EXPERIMENT` prints the names.",
        )
    if len(names) > 1:
        few = ", ".join(sorted(names)[:4])
        raise ConfigError(
            f"{pattern!r} matches {len(names)} runs: {few}, …",
            where="show",
            remedy="name one of them.",
        )

    files.sort(key=attrgetter("name"), reverse=True)
    for path in files:
        if not read_record(path).is_companion:
            return path
    return files[0]
