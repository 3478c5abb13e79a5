"""Import an experiment's records from the MLflow server.

They are checked as `rnnbench import` checks them. Existing records are never changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rnnbench.commands.arguments import add_conf, add_results, add_root, command_parser
from rnnbench.commands.exclusive import exclusive_access
from rnnbench.errors import ConfigError, RecordError
from rnnbench.exchange import archive, unpack
from rnnbench.exchange.pulled import derived_files
from rnnbench.grid.experiment_file import load_experiment
from rnnbench.records import strict_json
from rnnbench.records.record import Record
from rnnbench.records.store import read_record
from rnnbench.tracking.address import redacted, tracking_uri
from rnnbench.tracking.download import fetch


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    parser = command_parser("pull", __doc__)
    parser.add_argument("experiment", help="the experiment's name")
    add_results(parser)
    add_root(parser)
    add_conf(parser)
    options = parser.parse_args(arguments)
    name, where = options.experiment, redacted(tracking_uri(options.root))
    if not archive.safe_name(name) or "/" in name:
        raise ConfigError(f"{name!r} is not an experiment name.", where="rnnbench pull")
    files, records, known = _records(options.root, options.results, name, where)
    facts = _facts(name, [options.root / "conf", *options.conf])
    with exclusive_access(options.results, "rnnbench pull"):
        files |= derived_files(records, facts, options.results)
        checked = unpack.examine(files, options.results, name, where)
        unpack.write(checked, options.results)
    print(
        f"{where}: {len(records)} records of {name}, {known} known already, "
        f"{len(checked.files)} files written"
    )
    return 0


def _records(
    root: Path, results: Path, name: str, where: str
) -> tuple[dict[str, bytes], list[Record], int]:
    """The files of records that are not in `results`, all records, and the number of those that
    are in `results` already."""
    files: dict[str, bytes] = {}
    records: list[Record] = []
    known = 0

    def is_known(key: str, sha256: str) -> bool:
        if not archive.safe_name(key) or key.count("/") != 2:
            raise RecordError(f"has a run with the invalid record name {key!r}.", where=where)
        path = results / "records" / f"{key}.json"
        return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == sha256

    for key, content in fetch(root, name, is_known):
        if content is None:
            known += 1
            record = read_record(results / "records" / f"{key}.json")
        else:
            record = _parsed(content[".json"], f"{where}: {key}")
            files |= {f"records/{key}{suffix}": data for suffix, data in content.items()}
        if record.experiment != name or not archive.safe_name(record.site) or "/" in record.site:
            raise RecordError(f"{key} belongs to another experiment or site.", where=where)
        records.append(record)
    if not records:
        raise RecordError(f"has no finished run of {name}.", where=where)
    return files, records, known


def _parsed(content: bytes, where: str) -> Record:
    try:
        return Record.from_json(strict_json.loads(content), where=where)
    except ValueError:
        raise RecordError("is not JSON; nothing was imported.", where=where) from None


def _facts(name: str, conf: Sequence[Path]) -> dict[str, Any]:
    """The experiment's facts from `conf`, or only its name if it is not defined there."""
    facts = {"name": name, "title": name, "about": "", "reference": {}, "skipped": []}
    with suppress(ConfigError):
        experiment = load_experiment(name, conf)
        facts |= {"title": experiment.title, "about": experiment.about}
        facts["reference"] = dict(experiment.reference)
    return facts
