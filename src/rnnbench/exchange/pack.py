"""The files of an experiment at a site, as they go into an archive."""

from __future__ import annotations

from pathlib import Path

from rnnbench.errors import RecordError
from rnnbench.records.store import companions_of, not_needed, pointer_files, read_json
from rnnbench.sources import certificates, probes

KIND = "rnnbench experiment"
ATTACHED_SUFFIXES = (".events.jsonl", ".log")
# Folder of an experiment → the function that checks a file in it.
PREFLIGHTS = {"certificates": certificates.checked, "probes": probes.checked}


def sites_of(results: Path, experiment: str) -> list[str]:
    """The sites that have a plan of the experiment, sorted."""
    return sorted(plan.parents[1].name for plan in results.glob(f"*/{experiment}/plan.jsonl"))


def files_of(results: Path, experiment: str, sites: list[str]) -> dict[str, bytes]:
    """Name (relative to the results folder) → content: the plan, facts, certificates, probes and
    pointers of each site, and all records that the pointers name, including those of companions,
    with their events and logs."""
    files: dict[str, bytes] = {}
    for site in sites:
        folder = results / site / experiment
        facts = [folder / "plan.jsonl", folder / "experiment.json"]
        preflights = (path for kind in PREFLIGHTS for path in sorted(folder.glob(f"{kind}/*.json")))
        for path in [*facts, *preflights]:
            if path.is_file():
                files[path.relative_to(results).as_posix()] = path.read_bytes()
        for pointer in pointer_files([folder]):
            files[pointer.relative_to(results).as_posix()] = pointer.read_bytes()
            files |= _record_files(results, pointer)
    return files


def _record_files(results: Path, pointer: Path) -> dict[str, bytes]:
    data = read_json(pointer)
    if not_needed(data):
        return {}
    if not isinstance(data, dict) or not isinstance(data.get("record"), str):
        raise RecordError("is not a pointer to a record.", where=str(pointer))
    records = [results / path for path in (data["record"], *companions_of(data))]
    suffixes = (".json", *ATTACHED_SUFFIXES)
    paths = [record.with_suffix(suffix) for record in records for suffix in suffixes]
    return {p.relative_to(results).as_posix(): p.read_bytes() for p in paths if p.is_file()}
