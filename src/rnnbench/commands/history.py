"""The command that compares the measurements of an experiment over time: `history`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rnnbench.commands.arguments import (
    EXPERIMENT,
    RESULTS,
    Arguments,
    command_parser,
    refuse_multirun,
)
from rnnbench.commands.report import OVERRIDES, folders_at, name_with
from rnnbench.errors import RecordError, say
from rnnbench.records.plan_file import read_experiment, read_runs
from rnnbench.records.report_files import table_file
from rnnbench.records.rounds import records_at
from rnnbench.records.store import (
    read_record,
    readable,
    retried_files,
    write_bytes,
)
from rnnworker import machine

if TYPE_CHECKING:
    from rnnbench.records.record import Record


def history(arguments: Sequence[str]) -> int:
    """Compare the measurements of an experiment over dates and versions, regressions first.

    All of its records on this machine count, also those that `retry` has set aside. Another
    measurement begins when the code, the packages or the settings change, and after a pause of an
    hour. Speed-ups over the reference are compared, because the seconds of different hours are not
    comparable. The table is also written to reports/EXPERIMENT/tables/history.csv.
    """
    from rnnbench.report.page import as_text
    from rnnbench.report.terminal import print_history
    from rnnbench.tables import history as tables
    from rnnbench.tables.certificates import certificates_of
    from rnnbench.tables.estimates import Measurements, with_named_options
    from rnnbench.tables.frame import ranked, tidy
    from rnnbench.tables.time import time

    declared: Arguments = {
        "experiment": EXPERIMENT,
        "overrides": OVERRIDES,
        "--site": {"help": "the site that measured it (default: this machine)"},
        "--results": RESULTS,
    }
    parser = command_parser(history, declared)
    refuse_multirun(parser, arguments)
    options = parser.parse_intermixed_args(arguments)
    words = [options.experiment, *options.overrides] if options.overrides else []
    name = name_with(options.experiment, options.overrides)
    site = options.site or machine.fingerprint()["machine"]
    folder = folders_at(options.results, name, [site], words)[0]
    experiment = read_experiment(folder / "experiment.json")
    records = _records(folder)
    found = tables.measurements(records)
    if not found:
        raise RecordError(
            "has no record.",
            where=str(folder),
            remedy=f"measure it first: `{experiment.command}`.",
        )

    judging, faults = certificates_of([folder], records, options.results)
    for fault in faults:
        say(f"left out: {fault}")
    times = []
    for own in found:
        frame = ranked(with_named_options(tidy(own), experiment.reference))
        times.append(time(Measurements(frame, experiment.reference, judging)))
    table = tables.history(times, [min(record.started for record in own) for own in found])
    file = Path("reports") / name / table_file("history")
    write_bytes(file, as_text(table).to_csv(index=False).encode())
    print_history(table, found, experiment)
    print(f"The table: {file}")
    return 0


def _records(folder: Path) -> list[Record]:
    """The records of the planned runs of an experiment at a site, with those that were set aside.
    Says which cannot be read."""
    names = [run.name for run in read_runs(folder / "plan.jsonl")]
    records, faults = records_at(folder, names)
    for name in names:
        retried, unreadable = readable(retried_files(folder.parents[1], name), read_record)
        place = (folder.parent.name, folder.name)
        records += [each for each in retried if (each.site, each.experiment) == place]
        faults += unreadable
    for fault in faults:
        say(f"left out: {fault}")
    return records
