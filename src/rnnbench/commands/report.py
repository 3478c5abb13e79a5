"""The command that writes pages: `report`."""

from __future__ import annotations

import argparse
import glob
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rnnbench.commands.arguments import (
    EXPERIMENT,
    ONLY_SITES,
    RESULTS,
    Argument,
    Arguments,
    command_parser,
    folder_option,
    folder_to_write,
    positive,
    project_conf,
    refuse_multirun,
)
from rnnbench.errors import ConfigError, RecordError, RnnbenchError, say
from rnnbench.grid.experiment import load_experiment, varied
from rnnbench.project import check_project, home
from rnnbench.records.plan_file import Experiment, read_experiment, read_runs
from rnnbench.records.predictions import Results, planned_files, predictions_in
from rnnbench.records.record import Record, Run
from rnnbench.records.rounds import NotNeeded, read_records, results_at
from rnnbench.records.store import planned_folders, readable
from rnnworker import machine

if TYPE_CHECKING:
    from rnnbench.report.content import Content
    from rnnbench.report.tables import ReportInputs

OVERRIDES: Argument = {
    "nargs": "*",
    "default": [],
    "metavar": "KEY=VALUE",
    "help": "the Hydra overrides that it was measured with, as for `run`",
}
PUBLISHED_ROWS = "the folder with the published rows, *.csv"


def report(arguments: Sequence[str]) -> int:
    """Write the report of an experiment from its records: tables, figures and one page."""
    from rnnbench.report.terminal import how_to_use

    written = write_page(arguments)
    for line in [*written.content.said, *written.further]:
        print(line)
    for line in how_to_use(written.content.use):
        print(line)
    if "RNNBENCH_LOG" not in os.environ:  # the workflow ends with the path
        print(written.page)
    return 0


def name_with(experiment: str, overrides: Sequence[str]) -> str:
    """The name that `run` gives an experiment with the Hydra `overrides`."""
    if not overrides:
        return experiment
    return varied(load_experiment(experiment, project_conf(Path())), overrides).name


@dataclass(frozen=True)
class Written:
    """A report that was written: its `content` and its `page`, and what is to be said `further`."""

    content: Content
    page: Path
    further: tuple[str, ...]


def write_page(arguments: Sequence[str]) -> Written:
    """Writes the report that `arguments` of `report` ask for."""
    parser = _parser()
    refuse_multirun(parser, arguments)
    options = parser.parse_intermixed_args(arguments)
    words = [options.experiment, *options.overrides] if options.overrides else []
    options.experiment = name_with(options.experiment, options.overrides)

    # Imported late so that `rnnbench report --help` does not load pandas.
    from rnnbench.report.content import Content
    from rnnbench.report.page import write_index, write_report

    folders = folders_at(options.results, options.experiment, options.site or ["*"], words)
    found = read_found(folders)
    faults = list(found.faults)
    predictions, damaged = predictions_in(folders)
    faults += damaged
    inputs = report_inputs(options, folders, found.records, faults, tuple(predictions.values()))
    report = Content(
        found.records,
        found.experiment,
        found.missing,
        map(str, faults),
        inputs,
        found.not_needed,
    )
    out = options.out or Path("reports") / options.experiment
    page = write_report(report, out, options.pdf)[0]

    if options.out is None:
        if inputs.mlflow or predictions:
            _log_to_mlflow(report, found.planned, out, predictions)
        write_index(out.parent)
    further = []
    if found.missing:
        total = len(found.planned) + sum(len(planned_files(folder)) for folder in folders)
        further.append(f"{len(found.missing)} of {total} planned runs are missing.")
    for fault in faults:
        say(f"left out: {fault}")
    return Written(report, page, tuple(further))


@dataclass(frozen=True)
class Found:
    """What is known of an experiment at its sites.

    - `experiment`: what is said about it.
    - `planned`: its runs; `records`: of those that were measured.
    - `missing`: the names of the runs and predictions without a result.
    - `not_needed`: the name of a run → why it was not measured.
    - `faults`: of what cannot be read.
    """

    experiment: Experiment
    planned: list[Run]
    records: list[Record]
    missing: list[str]
    not_needed: dict[str, NotNeeded]
    faults: list[RecordError]


def read_found(folders: Sequence[Path]) -> Found:
    """What the `folders` of an experiment, one for each site, have."""
    plans, faults = readable(folders, lambda folder: (folder, read_runs(folder / "plan.jsonl")))
    runs: list[Run] = []
    named: dict[str, Record] = {}
    missing: list[str] = []
    not_needed: dict[str, NotNeeded] = {}
    for folder, planned in plans:
        runs += planned
        site = ""
        if len(folders) > 1:
            site = f" at {folder.parent.name}"
        for file in planned_files(folder):
            if not file.exists():
                missing.append(f"{file.stem}{site}")

        results, damaged = results_at(folder)
        finished = []
        for run in planned:
            result = results.get(run.name)
            if result is None:
                missing.append(f"{run.name}{site}")
                continue
            finished.append(result)
            if result.not_needed:
                not_needed[run.name] = result.not_needed
        found, unreadable = read_records(finished, folder.parents[1])
        named |= found
        faults += damaged + unreadable

    # A site where nothing can run says less about the experiment.
    with_runs = [folder for folder, planned in plans if planned]
    first = (with_runs or folders)[0]
    experiment = read_experiment(first / "experiment.json")
    return Found(experiment, runs, list(named.values()), missing, not_needed, faults)


def _log_to_mlflow(
    report: Content,
    planned: Sequence[Run],
    out: Path,
    predictions: Mapping[Path, Results],
) -> None:
    """Logs predictions and the report to MLflow. If the store cannot be reached, prints the error
    and goes on."""
    from rnnbench.tracking.predictions import log_predictions
    from rnnbench.tracking.store import is_server, redacted, tracking_uri
    from rnnbench.tracking.track import publish

    about = report.experiment
    text = "\n\n".join([f"**{about.title}**", *report.said, about.about]).strip()
    try:
        if predictions:
            log_predictions(Path(), about.name, predictions)
        address = publish(Path(), about.name, text, planned, report.compared, out)
        uri = tracking_uri(Path())
        if address and is_server(uri):
            print(f"MLflow: {redacted(uri, uri).rstrip('/')}/{address}")
    except RnnbenchError as error:
        say(error)


def folders_at(
    results: Path,
    experiment: str,
    sites: Sequence[str] = ("*",),
    words: Sequence[str] = (),
) -> list[Path]:
    """The experiment's folder at each of the `sites`, this machine's first and imported ones last.
    Raises `RecordError` if a site has none.

    `words`: those with which `run` measures it, if they are known.
    """
    folders = []
    for site in sites:
        found = planned_folders(results, glob.escape(experiment), site)
        folders += found
        if found:
            continue
        known = [folder.parent.name for folder in planned_folders(results, glob.escape(experiment))]
        if known:
            remedy = f"name a site that has one: {', '.join(known)}."
            what = f"{site} has no plan of {experiment}."
            raise RecordError(what, where=f"--site {site}", remedy=remedy)
        what = f"no site has a plan of {experiment}."
        name = experiment
        if words:
            name = shlex.join(words)
        elif "=" in name:  # one with overrides, which is no argument of `run`
            name = "EXPERIMENT"
        remedy = f"measure it first: `rnnbench run {name}`."
        if not results.is_dir():
            check_project(Path())
        raise RecordError(what, where=str(results), remedy=remedy)
    local = machine.fingerprint()["machine"]
    return sorted(folders, key=lambda folder: folder.parent.name != local)


def report_inputs(
    options: argparse.Namespace,
    folders: Sequence[Path],
    records: Sequence[Record],
    faults: list[RecordError],
    predictions: tuple[Results, ...] = (),
) -> ReportInputs:
    """What the report shows besides its records.

    `folders`: those of the experiment at its sites; `predictions`: its results. The errors of
    certificates that cannot be read are added to `faults`. Raises `ConfigError`.
    """
    from rnnbench.report.tables import ReportInputs
    from rnnbench.sources.prices import choose_prices
    from rnnbench.sources.published import read_published, read_sources
    from rnnbench.tables.certificates import certificates_of
    from rnnbench.tracking.track import read_tracked

    certificates, unreadable = certificates_of(folders, records, options.results)
    faults += unreadable

    devices = {record.run.choices.get("device", "") for record in records}
    devices |= {each.choices.get("device", "") for each in predictions}
    prices = choose_prices(options.price, options.prices, devices)
    has_prices = prices is not None and any(map(prices.price_of, devices))
    asked = {
        f"--price {options.price}": devices and options.price,
        "--deadline": options.deadline,
        "--money": options.money,
    }
    for where, given in asked.items():
        if given and not has_prices:
            what = f"there is no price for {', '.join(sorted(devices))}."
            remedy = "give --price NAME or FILE, a list with one."
            raise ConfigError(what, where=where, remedy=remedy)

    return ReportInputs(
        certificates=certificates,
        prices=prices,
        published=tuple(read_published(options.published)),
        sources=tuple(read_sources(options.published)),
        deadline=options.deadline,
        budget=options.money,
        predictions=predictions,
        mlflow=read_tracked(folders),
    )


def _parser() -> argparse.ArgumentParser:
    """The parser of `report`."""
    base = home(Path())
    declared: Arguments = {
        "experiment": EXPERIMENT,
        "overrides": OVERRIDES,
        "--results": RESULTS,
        "--site": ONLY_SITES,
        "--out": {
            "type": folder_to_write,
            "metavar": "DIR",
            "help": "the folder to write the report into (default: reports/EXPERIMENT)",
        },
        "--pdf": {"action": "store_true", "help": "also write the figures as PDF"},
        "--price": {
            "metavar": "NAME|FILE",
            "help": "the price list: a name in the folder of --prices, or a file of your own "
            "(default: the list in that folder that has prices for most of the devices)",
        },
        "--prices": folder_option(base / "conf/price", "the folder with the price lists"),
        "--published": folder_option(base / "reports/published", PUBLISHED_ROWS),
        "--deadline": {
            "type": positive,
            "metavar": "SECONDS",
            "help": "recommend the cheapest choice that trains within this time "
            "(default: no limit)",
        },
        "--money": {
            "type": positive,
            "metavar": "USD",
            "help": "recommend the fastest choice that costs at most this much (default: no limit)",
        },
    }
    return command_parser(report, declared)
