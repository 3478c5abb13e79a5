"""``rnnbench track``: the records behind pointers into MLflow."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from rnnbench.errors import RecordError, TrackingError, say
from rnnbench.records.record import Record
from rnnbench.records.store import (
    companions_of,
    not_needed,
    read_json,
    read_record,
    record_behind,
    record_files,
    write_json,
)
from rnnbench.tracking.address import is_server, tracking_uri
from rnnbench.tracking.store import ensure_store
from rnnbench.tracking.track import mirror, track


def main(argv: Sequence[str]) -> int:
    """Returns the exit code: 0, or 1 where the store cannot be reached or a record cannot be
    read (the others are tracked all the same, but no --output is written)."""
    arguments = _parser().parse_args(argv)
    root, results = arguments.root, arguments.root / arguments.results
    try:
        aside = ensure_store(root)
    except TrackingError as error:
        # Training waits for --init alone, and a server that is away must not stop it.
        if not (arguments.init and is_server(tracking_uri(root))):
            raise
        say(error)
        aside = None
    if aside:
        say(
            f"{aside}: was no whole database and has been set aside; "
            "a new store is filled from all records (start an open MLflow UI again)."
        )
    if arguments.live:
        mirror(read_json(arguments.live), root)
    asked, faults = _behind(results, arguments.pointers)
    records = asked
    if aside or arguments.all:
        found, unreadable = _all(results)
        records = found | asked
        faults += unreadable if arguments.all else []
    for fault in faults:
        say(fault)
    runs = track([(record, file) for file, record in records.items()], root) if records else {}
    if arguments.output and not faults:
        write_json(
            arguments.output,
            {
                name: {"run_id": runs[record.key], "record": record.key}
                for name, record in _named(asked.values())
            },
        )
    return 1 if faults else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rnnbench track", description="Logs records to MLflow; can be repeated safely."
    )
    parser.add_argument("pointers", nargs="*", type=Path, metavar="FILE.json")
    parser.add_argument("--root", type=Path, default=Path(), help="the project's folder")
    parser.add_argument("--results", type=Path, default=Path("results"), help="below the root")
    parser.add_argument("--output", type=Path, help="where to write which run is whose")
    parser.add_argument("--init", action="store_true", help="only make sure of the store")
    parser.add_argument("--all", action="store_true", help="every record there is")
    parser.add_argument("--live", type=Path, metavar="FILE.json", help="mirror a run in progress")
    return parser


def _behind(
    results: Path, pointers: Sequence[Path]
) -> tuple[dict[Path, Record], list[RecordError]]:
    """Record file → record for each pointer, or each run of a round's file, and for its
    companions; and what could not be read."""
    records: dict[Path, Record] = {}
    faults: list[RecordError] = []
    for pointer in pointers:
        try:
            data = read_json(pointer)
            for one in data["members"].values() if "members" in data else [data]:
                if not_needed(one):
                    continue
                for path in (one["record"], *companions_of(one)):
                    record = record_behind(results, pointer, {"record": path})
                    records[(results / path).resolve()] = record
        except (AttributeError, KeyError, TypeError) as error:
            faults.append(RecordError(f"is no pointer and no round ({error}).", where=str(pointer)))
        except RecordError as error:
            faults.append(error)
    return records, faults


def _named(records: Collection[Record]) -> Iterator[tuple[str, Record]]:
    """Each record by its run's name; by its key where several are of one run, and a companion."""
    times = Counter(record.name for record in records if not record.is_companion)
    for record in records:
        alone = times[record.name] == 1 and not record.is_companion
        yield record.name if alone else record.key, record


def _all(results: Path) -> tuple[dict[Path, Record], list[RecordError]]:
    records: dict[Path, Record] = {}
    faults: list[RecordError] = []
    for file in record_files(results):
        try:
            records[file.resolve()] = read_record(file)
        except RecordError as error:
            faults.append(error)
    return records, faults
