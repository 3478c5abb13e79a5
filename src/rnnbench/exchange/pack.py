"""The files of an experiment at a site, as they go into an archive."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rnnbench.errors import RecordError
from rnnbench.exchange.incoming import PREFLIGHTS
from rnnbench.records.store import (
    companions_of,
    not_needed,
    pointer_files,
    read_json,
    site_folders,
)


def folders_of(results: Path, experiment: str) -> list[Path]:
    """The folders of the experiment at the sites that have a plan of it, imported ones last."""
    folders = site_folders(results, experiment)
    return [folder for folder in folders if (folder / "plan.jsonl").is_file()]


def files_of(folder: Path) -> dict[str, Path]:
    """Name in an archive → file: the plan, facts, certificates, probes and pointers of an
    experiment at a site, and all records that the pointers name, those of companions included, with
    their events. Logs are left out: they name users, folders and hosts."""
    facts = [folder / "plan.jsonl", folder / "experiment.json"]
    preflights = [path for kind in PREFLIGHTS for path in sorted(folder.glob(f"{kind}/*.json"))]
    pointers = pointer_files([folder])
    root = folder.parents[1]
    records = [file for pointer in pointers for file in _record_files(root, pointer)]
    files = filter(Path.is_file, [*facts, *preflights, *pointers, *records])
    return {file.relative_to(root).as_posix(): file for file in files}


def _record_files(root: Path, pointer: Path) -> Iterator[Path]:
    data = read_json(pointer)
    if not_needed(data):
        return
    if not isinstance(data, dict) or not isinstance(data.get("record"), str):
        raise RecordError("is not a pointer to a record.", where=str(pointer))
    for record in (data["record"], *companions_of(data)):
        for suffix in (".json", ".events.jsonl"):
            yield (root / record).with_suffix(suffix)
