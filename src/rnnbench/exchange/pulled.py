"""Records alone → the files an export would hold: pointers, plan and facts made from them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rnnbench.records.record import Record
from rnnbench.records.store import pointer_to

PLANNED = (
    *("name", "order", "block", "digest", "identity", "choices", "overrides"),
    *("seed", "repeat", "alias", "config"),
)


def files_about(
    records: Iterable[Record], facts: Mapping[str, Any], results: Path
) -> dict[str, bytes]:
    """Name → content below `results`: at each record's site a pointer to the latest record of
    each run, with the records of its companions; the plan (what is there already stays, runs it
    lacks are added); and `facts`, where the site has none."""
    ordered = sorted(records, key=lambda record: record.started)
    companions = companions_by_round(ordered)
    latest = {(record.site, record.name): record for record in ordered if not record.is_companion}
    files: dict[str, bytes] = {}
    for site in sorted({site for site, _ in latest}):
        folder = f"{site}/{facts['name']}"
        runs = [record for (place, _), record in latest.items() if place == site]
        for record in runs:
            beside = companions.get(round_of(record), ())
            files[f"{folder}/{record.name}.json"] = _json(pointer_to(record, beside))
        files[f"{folder}/plan.jsonl"] = _plan(results / folder / "plan.jsonl", runs)
        if not (results / folder / "experiment.json").exists():
            files[f"{folder}/experiment.json"] = _json(facts)
    return files


def companions_by_round(records: Iterable[Record]) -> dict[str, list[str]]:
    """Round → the records (paths below the results folder) of its companions."""
    companions: dict[str, list[str]] = {}
    for record in records:
        if record.is_companion:
            companions.setdefault(round_of(record), []).append(f"records/{record.key}.json")
    return companions


def round_of(record: Record) -> str:
    return str((record.round or {}).get("id", ""))


def _plan(here: Path, runs: Iterable[Record]) -> bytes:
    lines = here.read_text(encoding="utf-8").splitlines() if here.exists() else []
    known = {json.loads(line)["name"] for line in lines if line.strip()}
    for record in sorted(runs, key=lambda record: (record.order, record.name)):
        if record.name not in known:
            data = record.to_json()
            lines.append(json.dumps({name: data[name] for name in PLANNED}))
    return ("\n".join(lines) + "\n").encode()


def _json(data: Any) -> bytes:
    return (json.dumps(data, indent=1, allow_nan=False) + "\n").encode()
