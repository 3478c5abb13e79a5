"""The commands that print what was measured: `show` and `compare`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rnnbench.commands.arguments import add_results, command_parser
from rnnbench.errors import ConfigError, say
from rnnbench.records.pointer import pointer_files, records_of
from rnnbench.records.store import (
    imported_machines,
    read_record,
    record_files,
    roots,
    site_folders,
)

if TYPE_CHECKING:
    from rnnbench.records.record import Record
    from rnnbench.tables.certificates import Certificates


def show(arguments: Sequence[str]) -> int:
    """Show the newest record of a run: verdict, phases, epochs and provenance."""
    parser = command_parser(show)
    parser.add_argument(
        "run", help="a run's name, a pattern that matches one run, or a record's path"
    )
    add_results(parser)
    options = parser.parse_args(arguments)

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
        what = f"there is no record of {pattern!r} in {results}/records."
        remedy = "`rnnbench grid EXPERIMENT` prints the names."
        raise ConfigError(what, where="rnnbench show", remedy=remedy)
    if len(names) > 1:
        few = ", ".join(sorted(names)[:4])
        what = f"{pattern!r} matches {len(names)} runs: {few}, …"
        raise ConfigError(what, where="rnnbench show", remedy="name one of them.")
    newest = sorted(files, key=lambda path: path.name, reverse=True)
    return next((path for path in newest if not read_record(path).is_companion), newest[0])


def compare(arguments: Sequence[str]) -> int:
    """Compare the time per epoch of runs A with that of runs B, with a confidence interval.

    A and B select runs by terms joined with commas: a choice (keras, cpu_2, tf_1_15), a machine,
    an override (units=512) or a pattern of run names (digits_*-unrolled-*). Configurations that
    differ only in what A and B name are paired. A pair whose functions differ according to a
    certificate has no ratio.
    """
    parser = command_parser(compare)
    parser.add_argument("a", help="the terms of A, such as unrolled or unrolled,cpu_2")
    parser.add_argument("b", help="the terms of B, such as keras")
    parser.add_argument("--experiment", default="*", help="only this experiment (default: all)")
    parser.add_argument("--site", default="*", help="only this site (default: all)")
    add_results(parser)
    options = parser.parse_args(arguments)

    from rnnbench.report.notes import session_notes
    from rnnbench.report.terminal import print_comparison
    from rnnbench.tables.comparison import versus, void_messages
    from rnnbench.tables.estimates import Measurements
    from rnnbench.tables.frame import tidy

    records, certificates = read_certified(options.results, options.experiment, options.site)
    if not records:
        raise ConfigError("has no records.", where=str(options.results), remedy="run snakemake.")
    frame = tidy(records)
    a, b = options.a.split(","), options.b.split(",")
    measured = Measurements(frame, certificates=certificates)
    table = versus(measured, a, b)
    void = [line for terms in (a, b) for line in void_messages(frame, terms)]
    if table.empty:
        remedy = "name what differs: a choice, a machine, key=value or a pattern of run names."
        if void:
            remedy = "see `rnnbench show RUN`; `rnnbench retry EXPERIMENT` measures them again."
        raise ConfigError(
            f"no run of {options.a!r} equals a run of {options.b!r} in everything else. "
            + " ".join(void),
            where="rnnbench compare",
            remedy=remedy,
        )
    print_comparison(table, options.a, options.b)
    held = session_notes(measured.runs) if table["low"].notna().any() else ()
    for line in dict.fromkeys([*held, *void]):
        print(line)
    return 0


def read_certified(
    results: Path, experiment: str = "*", site: str = "*"
) -> tuple[list[Record], Certificates]:
    """All records of the experiments at the sites, judged by their certificates, and these. Says
    which files cannot be read."""
    from rnnbench.sources.certificates import read_certificates
    from rnnbench.tables.certificates import Certificates

    folders = site_folders(results, experiment, site)
    records, faults = records_of(pointer_files(folders))
    every, unreadable = read_certificates(folder / "certificates" for folder in folders)
    for fault in [*faults, *unreadable]:
        say(fault)
    certificates = Certificates(every, tuple(records), imported_machines(results))
    return certificates.mark_wrong_gradients(records), certificates
