"""``rnnbench import FILE…``: takes over what another machine exported, or what a bundle left.

Everything is checked before anything is written; no record that is here is ever changed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rnnbench.commands.exclusive import alone
from rnnbench.errors import RecordError
from rnnbench.exchange import archive, outcomes, pack, unpack
from rnnbench.exchange.pulled import companions_by_round, round_of
from rnnbench.records.store import pointer_to, read_json
from rnnbench.running.train import Place, timing_lock


def main(arguments: Sequence[str]) -> int:
    """Imports each file or bundle folder. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="rnnbench import", description=__doc__)
    parser.add_argument("sources", nargs="+", type=Path, metavar="FILE|FOLDER")
    parser.add_argument("--results", type=Path, default=Path("results"))
    options = parser.parse_args(arguments)
    with alone(options.results, "rnnbench import"):
        _import(options.sources, options.results)
    return 0


def _import(sources: Sequence[Path], results: Path) -> None:
    taken = []
    for source in sources:
        experiment, files = _bundle(source, results) if source.is_dir() else _archive(source)
        taken.append((source, unpack.examine(files, results, experiment, str(source)), experiment))
    for source, found, experiment in taken:
        unpack.write(found, results)
        print(
            f"{source}: {found.records} records of {experiment}, {len(found.files)} new files, "
            f"{found.known} known already"
            + (f", {len(found.kept)} newer or planned ones kept" if found.kept else "")
        )


def _archive(source: Path) -> tuple[str, dict[str, bytes]]:
    manifest, files = archive.read(source, pack.KIND)
    experiment = manifest.get("experiment")
    if not isinstance(experiment, str) or not archive.safe_name(experiment) or "/" in experiment:
        raise RecordError("names no experiment; nothing was imported.", where=str(source))
    return experiment, files


def _bundle(source: Path, results: Path) -> tuple[str, dict[str, bytes]]:
    """A bundle's outcomes as the files an export would hold."""
    facts = _facts(source)
    experiment = str(facts["name"])
    files: dict[str, bytes] = {}
    place = Place(source, source, "", experiment, timing_lock())
    found = list(outcomes.records_in(source, place))
    companions = companions_by_round(record for record, _ in found)
    for record, folder in found:
        key = f"records/{record.key}"
        files[f"{key}.json"] = _json({**record.to_json(), "site": record.machine})
        for name, suffix in (("events.jsonl", ".events.jsonl"), ("log", ".log")):
            files[f"{key}{suffix}"] = (folder / name).read_bytes()
        if not record.is_companion:
            pointer = pointer_to(record, companions.get(round_of(record), ()))
            files[f"{record.machine}/{experiment}/{record.name}.json"] = _json(pointer)
        plan = f"{record.machine}/{experiment}/plan.jsonl"
        files[plan] = outcomes.plan_with(source / "plan.jsonl", results / plan)
        files[f"{record.machine}/{experiment}/experiment.json"] = _json(facts)
    for kind, made in (
        ("certificates", outcomes.certificates_in(source)),
        ("probes", outcomes.probes_in(source)),
    ):
        for one in made:
            files[f"{one['machine']}/{experiment}/{kind}/{one['key']}.json"] = _json(one)
    if not files:
        raise RecordError(
            "has no finished run below out/.", where=str(source), remedy="start its run.py."
        )
    return experiment, files


def _facts(source: Path) -> dict[str, Any]:
    """The experiment's facts, with what that machine had to skip."""
    facts = dict(read_json(source / "experiment.json"))
    if (source / "out" / "skipped.json").exists():
        there = read_json(source / "out" / "skipped.json")
        skipped = [{"name": name, "why": why} for name, why in there.items()]
        facts["skipped"] = [*facts.get("skipped", []), *skipped]
    return facts


def _json(data: Any) -> bytes:
    return (json.dumps(data, indent=1, allow_nan=False) + "\n").encode()
