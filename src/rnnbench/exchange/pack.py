"""The files of an experiment at a site, as they go into an archive."""

from __future__ import annotations

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
    """Name in an archive → file: the plan, facts, certificates and probes of an experiment at a
    site, the pointers of runs that were not needed, and all records that the others name, those of
    companions included, with their events. Logs are left out: they name users, folders and
    hosts."""
    root = folder.parents[1]
    files = [folder / "plan.jsonl", folder / "experiment.json"]
    files += [path for kind in PREFLIGHTS for path in sorted(folder.glob(f"{kind}/*.json"))]
    for pointer in pointer_files([folder]):
        data = read_json(pointer)
        if not_needed(data):
            files.append(pointer)
        elif not isinstance(data, dict) or not isinstance(data.get("record"), str):
            raise RecordError("is not a pointer to a record.", where=str(pointer))
        else:
            for record in (data["record"], *companions_of(data)):
                file = root / record
                files += [file, file.with_suffix(".events.jsonl")]
    return {file.relative_to(root).as_posix(): file for file in files if file.is_file()}
