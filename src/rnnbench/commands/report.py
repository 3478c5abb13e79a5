"""``rnnbench report EXPERIMENT``: the records of an experiment → its report."""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnnbench.errors import RecordError, RnnbenchError, say
from rnnbench.records.record import Record
from rnnbench.records.store import not_needed, read_json, records_of
from rnnworker import machine

if TYPE_CHECKING:
    from rnnbench.report.content import Content
    from rnnbench.report.inputs import ReportInputs


def main(argv: Sequence[str]) -> int:
    """Writes the report, prints its answer and its path. Returns the exit code: 0 also where
    runs are missing, which the report lists."""
    options = _parser().parse_args(list(argv))
    _report(options)
    return 0


def _report(options: argparse.Namespace) -> None:
    # Imported late: pandas and Altair are heavy, and `rnnbench report --help` is not.
    from rnnbench.report.content import Experiment, content
    from rnnbench.report.index import CARD, card, write_index
    from rnnbench.report.page import write_content
    from rnnbench.tables.missing import missing as missing_table

    folders = folders_of(options)
    planned: list[str] = []
    runs: list[dict[str, Any]] = []
    there: list[Path] = []
    missing: list[str] = []
    for folder in folders:
        lines = read_plan(folder / "plan.jsonl")
        names = [str(run["name"]) for run in lines]
        runs += lines
        found_here = [path for name in names if (path := folder / f"{name}.json").is_file()]
        planned += names
        there += found_here
        absent = missing_table(names, (path.stem for path in found_here))["name"].tolist()
        missing += absent if len(folders) == 1 else [f"{n} at {folder.parent.name}" for n in absent]
    folder = folders[0]
    facts = read_json(folder / "experiment.json")
    records, faults = records_of(options.results, there)
    try:
        experiment = Experiment(
            name=facts["name"],
            title=facts["title"],
            about=facts["about"],
            reference=facts["reference"],
        )
        skipped = [{"name": cell["name"], "why": cell["why"]} for cell in facts["skipped"]]
    except (TypeError, KeyError) as error:
        raise RecordError(
            f"does not describe an experiment ({error}).",
            where=str(folder / "experiment.json"),
            remedy="move the file aside and run snakemake again, which writes it.",
        ) from error
    beside = report_inputs(options, folders, records)
    found = content(
        records, experiment, skipped, missing, map(str, faults), beside, _unneeded(there)
    )
    out = options.out or Path("reports") / options.experiment
    page = write_content(found, out)[0]
    if beside.mlflow and options.out is None:
        _tell(found, runs, out)
    (out / CARD).write_text(card(found), encoding="utf-8")
    if options.out is None:
        write_index(out.parent)
    for line in [*map(str, found.answers), *found.advice]:
        print(line)
    if missing or faults:
        print(
            f"{len(missing)} of {len(planned)} planned runs are missing, {len(faults)} unreadable."
        )
    print(page)


def _tell(found: Content, planned: Sequence[Mapping[str, Any]], out: Path) -> None:
    """The report into MLflow. A store that is away makes no report fail."""
    from rnnbench.tracking.address import is_server, redacted, tracking_uri
    from rnnbench.tracking.overview import Overview, differing, labels_of, tell

    experiment = found.experiment
    answers = "\n\n".join(map(str, [*found.answers, *found.advice]))
    overview = Overview(
        experiment.name,
        "\n\n".join(filter(None, (f"# {experiment.title}", answers, experiment.about))),
        differing(planned),
        found.speedups,
        found.unequal_runs,
        labels_of(planned),
        out,
    )
    try:
        address, uri = tell(Path(), overview), tracking_uri(Path())
        if address and is_server(uri):
            print(f"MLflow: {redacted(uri, uri).rstrip('/')}/{address}")
    except RnnbenchError as error:
        say(error)


def _unneeded(pointers: Sequence[Path]) -> dict[str, str]:
    """Run → why it was not needed."""
    found = {}
    for pointer in pointers:
        with contextlib.suppress(RecordError):
            if why := not_needed(read_json(pointer)):
                found[pointer.stem] = why
    return found


def folders_of(options: argparse.Namespace) -> list[Path]:
    """The experiment's folder at each site that is asked for, this machine's first."""
    found = [path.parent for path in options.results.glob(f"*/{options.experiment}/plan.jsonl")]
    if options.site:
        found = [options.results / site / options.experiment for site in options.site]
    if not found:
        raise RecordError(
            f"no site has a plan of {options.experiment}.",
            where=str(options.results),
            remedy=f"run `snakemake --cores all --config experiment={options.experiment}` first.",
        )
    here = machine.fingerprint()["machine"]
    return sorted(found, key=lambda folder: (folder.parent.name != here, folder.parent.name))


def report_inputs(
    options: argparse.Namespace, folders: Sequence[Path], records: Sequence[Record]
) -> ReportInputs:
    """Certificates of the experiment, price list, published rows, limits, MLflow's runs."""
    from rnnbench.report.inputs import ReportInputs
    from rnnbench.sources.certificates import read_certificates
    from rnnbench.sources.prices import choose_prices
    from rnnbench.sources.probes import read_probes
    from rnnbench.sources.published import read_published
    from rnnbench.sources.tracked_runs import read_tracked
    from rnnbench.tables.certificates import Certificates

    devices = {record.choices.get("device", "") for record in records}
    return ReportInputs(
        certificates=Certificates(
            tuple(one for folder in folders for one in read_certificates(folder / "certificates"))
        ),
        probes=tuple(one for folder in folders for one in read_probes(folder / "probes")),
        prices=choose_prices(options.price, options.prices, devices),
        published=tuple(read_published(options.published)),
        deadline=options.deadline,
        budget=options.budget,
        mlflow=read_tracked(folders),
    )


def read_plan(path: Path) -> list[dict[str, Any]]:
    """The planned runs in their order, or a `RecordError` in one line."""
    remedy = "run `snakemake --cores all --config experiment=NAME` first, which writes the plan."
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        runs = [json.loads(line) for line in lines if line.strip()]
        for run in runs:
            run["name"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        words = error.strerror if isinstance(error, OSError) else repr(error)
        raise RecordError(
            f"cannot be read as a plan ({words}).", where=str(path), remedy=remedy
        ) from error
    return runs


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rnnbench report",
        description="Tables, figures and one page from an experiment's runs.",
    )
    parser.add_argument("experiment", help="its name, as in conf/experiment/")
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="DIR")
    parser.add_argument(
        "--site", action="append", help="only this folder of pointers below DIR (default: all)"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="where it is written (reports/EXPERIMENT)"
    )
    parser.add_argument(
        "--price", metavar="NAME|FILE", help="price list: a name in conf/price/ or your own file"
    )
    parser.add_argument("--prices", type=Path, default=Path("conf/price"), metavar="DIR")
    parser.add_argument("--published", type=Path, default=Path("reports/published"), metavar="DIR")
    parser.add_argument(
        "--deadline", type=_positive, metavar="SECONDS", help="recommend the cheapest within it"
    )
    parser.add_argument(
        "--budget", type=_positive, metavar="USD", help="recommend the fastest for at most this"
    )
    return parser


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value
