"""``rnnbench report EXPERIMENT``: the records of an experiment → its report."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rnnbench.errors import RecordError, RnnbenchError
from rnnbench.records.store import read_json, records_of


def main(argv: Sequence[str]) -> int:
    """Writes the report, prints its answer and its path. Returns the exit code: 0 also where
    runs are missing, which the report lists."""
    options = _parser().parse_args(list(argv))
    try:
        _report(options)
    except RnnbenchError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def _report(options: argparse.Namespace) -> None:
    # Imported late: pandas and Altair are heavy, and `rnnbench report --help` is not.
    from rnnbench.report.content import Experiment, content
    from rnnbench.report.page import write_content
    from rnnbench.tables.gaps import missing as missing_table

    folder = options.results / options.site / options.experiment
    planned = [str(run["name"]) for run in read_plan(folder / "plan.jsonl")]
    facts = read_json(folder / "experiment.json")
    pointers = [folder / f"{name}.json" for name in planned]
    there = [pointer for pointer in pointers if pointer.is_file()]
    records, faults = records_of(options.results, there)
    missing = missing_table(planned, (pointer.stem for pointer in there))["name"].tolist()
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
    found = content(records, experiment, skipped, missing, map(str, faults))
    out = options.out or Path("reports") / options.experiment
    page = write_content(found, out)[0]
    for answer in found.answers:
        print(answer)
    if missing or faults:
        print(
            f"{len(missing)} of {len(planned)} planned runs are missing, {len(faults)} unreadable."
        )
    print(page)


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
    parser.add_argument("--site", required=True, help="the folder of pointers below DIR")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="where it is written (reports/EXPERIMENT)"
    )
    return parser
