"""Import the records that another machine exported or that a bundle measured.

All files are checked before anything is written. Existing records are never changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rnnbench.commands.arguments import add_results, command_parser
from rnnbench.commands.exclusive import exclusive_access
from rnnbench.errors import RecordError
from rnnbench.exchange import archive, outcomes, pack, unpack
from rnnbench.records.store import json_bytes, pointer_to, read_json
from rnnbench.running.train import Place, timing_lock


def main(arguments: Sequence[str]) -> int:
    """Imports each file or bundle folder. Returns the exit code."""
    parser = command_parser("import", __doc__)
    parser.add_argument(
        "sources",
        nargs="+",
        type=Path,
        metavar="FILE|FOLDER",
        help="a file of `rnnbench export`, or a bundle's folder after its runs",
    )
    add_results(parser)
    options = parser.parse_args(arguments)
    with exclusive_access(options.results, "rnnbench import"):
        _import(options.sources, options.results)
    return 0


def _import(sources: Sequence[Path], results: Path) -> None:
    imports = []
    for source in sources:
        experiment, files = _bundle(source, results) if source.is_dir() else _archive(source)
        checked = unpack.examine(files, results, experiment, str(source))
        imports.append((source, experiment, checked))
    for source, experiment, checked in imports:
        unpack.write(checked, results)
        print(
            f"{source}: {checked.records} records of {experiment}, {len(checked.files)} new files, "
            f"{checked.known} known already"
            + (f", {len(checked.kept)} newer or planned files kept" if checked.kept else "")
        )


def _archive(source: Path) -> tuple[str, dict[str, bytes]]:
    manifest, files = archive.read(source, pack.KIND)
    experiment = manifest.get("experiment")
    if not isinstance(experiment, str) or not archive.safe_name(experiment) or "/" in experiment:
        raise RecordError(
            f"the manifest's experiment {experiment!r} is not a valid name; nothing was imported.",
            where=str(source),
        )
    return experiment, files


def _bundle(source: Path, results: Path) -> tuple[str, dict[str, bytes]]:
    """A bundle's outcomes as the files of an export."""
    facts = _facts(source)
    experiment = str(facts["name"])
    files: dict[str, bytes] = {}
    place = Place(source, source, "", experiment, timing_lock())
    records = list(outcomes.records_in(source, place))
    companions: dict[str, list[str]] = {}
    for record, _ in records:
        if record.is_companion:
            companions.setdefault(record.round_id or "", []).append(f"records/{record.key}.json")
    for record, folder in records:
        key = f"records/{record.key}"
        files[f"{key}.json"] = json_bytes(record.to_json())
        for name, suffix in (("events.jsonl", ".events.jsonl"), ("log", ".log")):
            files[f"{key}{suffix}"] = (folder / name).read_bytes()
        if not record.is_companion:
            pointer = pointer_to(record, companions.get(record.round_id or "", ()))
            files[f"{record.machine}/{experiment}/{record.name}.json"] = json_bytes(pointer)
        plan = f"{record.machine}/{experiment}/plan.jsonl"
        files[plan] = outcomes.merged_plan(source / "plan.jsonl", results / plan)
        files[f"{record.machine}/{experiment}/experiment.json"] = json_bytes(facts)
    for kind, preflights in (
        ("certificates", outcomes.certificates_in(source)),
        ("probes", outcomes.probes_in(source)),
    ):
        for data in preflights:
            files[f"{data['machine']}/{experiment}/{kind}/{data['key']}.json"] = json_bytes(data)
    if not files:
        raise RecordError(
            "has no finished run below out/.", where=str(source), remedy="start its run.py."
        )
    return experiment, files


def _facts(source: Path) -> dict[str, Any]:
    """The experiment's facts, including the runs that the other machine skipped."""
    facts = dict(read_json(source / "experiment.json"))
    if (source / "out" / "skipped.json").exists():
        reasons = read_json(source / "out" / "skipped.json")
        skipped = [{"name": name, "why": why} for name, why in reasons.items()]
        facts["skipped"] = [*facts.get("skipped", []), *skipped]
    return facts
