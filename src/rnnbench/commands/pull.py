"""``rnnbench pull EXPERIMENT``: takes over the records that the tracking server has.

They are checked as those of ``rnnbench import`` are; no record that is here is ever changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rnnbench.commands.exclusive import alone
from rnnbench.errors import ConfigError, RecordError
from rnnbench.exchange import archive, unpack
from rnnbench.exchange.pulled import files_about
from rnnbench.grid.experiment import load_experiment
from rnnbench.records.record import Record
from rnnbench.records.store import read_record
from rnnbench.tracking.address import redacted, tracking_uri
from rnnbench.tracking.download import fetch


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="rnnbench pull", description=__doc__)
    parser.add_argument("experiment")
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--root", type=Path, default=Path(), help="the project's folder")
    parser.add_argument("--conf", action="append", default=[], type=Path, metavar="DIR")
    options = parser.parse_args(arguments)
    name, where = options.experiment, redacted(tracking_uri(options.root))
    if not archive.safe_name(name) or "/" in name:
        raise ConfigError(f"{name!r} is no name of an experiment.", where="rnnbench pull")
    files, records, known = _records(options.root, options.results, name, where)
    facts = _facts(name, [options.root / "conf", *options.conf])
    with alone(options.results, "rnnbench pull"):
        files |= files_about(records, facts, options.results)
        found = unpack.examine(files, options.results, name, where)
        unpack.write(found, options.results)
    print(
        f"{where}: {len(records)} records of {name}, {known} known already, "
        f"{len(found.files)} files written"
    )
    return 0


def _records(
    root: Path, results: Path, name: str, where: str
) -> tuple[dict[str, bytes], list[Record], int]:
    """The files of records that are not here, all records, and how many are here already."""
    files: dict[str, bytes] = {}
    records: list[Record] = []
    known = 0

    def is_here(key: str, mark: str) -> bool:
        if not archive.safe_name(key) or key.count("/") != 2:
            raise RecordError(f"has a run whose record is called {key!r}.", where=where)
        path = results / "records" / f"{key}.json"
        return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == mark

    for key, content in fetch(root, name, is_here):
        if content is None:
            known += 1
            record = read_record(results / "records" / f"{key}.json")
        else:
            record = _parsed(content[".json"], f"{where}: {key}")
            files |= {f"records/{key}{suffix}": data for suffix, data in content.items()}
        if record.experiment != name or not archive.safe_name(record.site) or "/" in record.site:
            raise RecordError(f"{key} is of another experiment or site.", where=where)
        records.append(record)
    if not records:
        raise RecordError(f"has no finished run of {name}.", where=where)
    return files, records, known


def _parsed(content: bytes, where: str) -> Record:
    try:
        return Record.from_json(json.loads(content), where=where)
    except ValueError:
        raise RecordError("is no JSON; nothing was imported.", where=where) from None


def _facts(name: str, conf: Sequence[Path]) -> dict[str, Any]:
    """What `conf/` says of the experiment; its name alone where it is another's."""
    facts: dict[str, Any] = {"name": name, "title": name, "about": "", "reference": {}}
    try:
        experiment = load_experiment(name, conf)
    except ConfigError:
        pass
    else:
        facts |= {"title": experiment.title, "about": experiment.about}
        facts["reference"] = dict(experiment.reference)
    return {**facts, "skipped": []}
