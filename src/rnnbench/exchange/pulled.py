"""Records → the other files of an export, derived from them: pointers, plan and facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rnnbench.records.plan_file import read_heads
from rnnbench.records.record import Record
from rnnbench.records.store import json_bytes, pointer_to


def derived_files(
    records: Iterable[Record], facts: Mapping[str, Any], results: Path
) -> dict[str, bytes]:
    """Name (relative to `results`) → content, for each record's site: a pointer to the latest
    record of each run, with the records of its companions; the plan, which is the existing one plus
    the runs that it lacks; and `facts`, if the site has none."""
    ordered = sorted(records, key=lambda record: record.started)
    companions = companions_by_round(ordered)
    latest = {(record.site, record.name): record for record in ordered if not record.is_companion}
    files: dict[str, bytes] = {}
    for site in sorted({site for site, _ in latest}):
        folder = f"{site}/{facts['name']}"
        runs = [record for (place, _), record in latest.items() if place == site]
        for record in runs:
            pointer = pointer_to(record, companions.get(round_of(record), ()))
            files[f"{folder}/{record.name}.json"] = json_bytes(pointer)
        files[f"{folder}/plan.jsonl"] = _plan(results / folder / "plan.jsonl", runs)
        if not (results / folder / "experiment.json").exists():
            files[f"{folder}/experiment.json"] = json_bytes(facts)
    return files


def companions_by_round(records: Iterable[Record]) -> dict[str, list[str]]:
    """Round → the records (paths relative to the results folder) of its companions."""
    companions: dict[str, list[str]] = {}
    for record in records:
        if record.is_companion:
            companions.setdefault(round_of(record), []).append(f"records/{record.key}.json")
    return companions


def round_of(record: Record) -> str:
    return record.round_id or ""


def _plan(path: Path, runs: Iterable[Record]) -> bytes:
    known = {head.name for head in read_heads(path)} if path.exists() else set()
    ordered = sorted(runs, key=lambda record: (record.run.order, record.name))
    new = [record.run.line() for record in ordered if record.name not in known]
    return (path.read_bytes() if path.exists() else b"") + b"".join(new)
