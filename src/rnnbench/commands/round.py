"""Measure the runs of a round in turns (Snakemake calls this)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from itertools import islice
from multiprocessing import get_context

from rnnbench.commands.preflights import (
    check_inputs,
    check_planned,
    end_with_snakemake,
    requested,
    watched,
)
from rnnbench.grid.point import digest_of_round
from rnnbench.planning.digests import worker_digest
from rnnbench.planning.repeats import (
    known_so_far,
    read_facts,
    rule_of,
    why_not_needed,
)
from rnnbench.records.plan_file import read_round
from rnnbench.records.record import Record, Run, run_value
from rnnbench.records.store import (
    Place,
    pointer_is_valid,
    pointer_without_record,
    read_json,
    write_json,
)
from rnnbench.running.progress import print_progress, progress_label, remaining
from rnnbench.running.round import measure
from rnnworker.cohorts import reference_of

SAMPLE = 20  # finished rounds that the estimate of the remaining time reads


def main(arguments: Sequence[str]) -> int:
    end_with_snakemake()
    file, place, digest = requested("round", __doc__, arguments, "rounds")
    planned, number, total = read_round(place.folder / "plan.jsonl", file.stem)
    digests = {run.name: run.digest for run in planned}
    check_planned(digest_of_round(digests), digest, file.stem)
    label = progress_label(number, total, file.stem)
    if needed := _needed(planned, place, label):
        left = sum(not _has_record(run, place) for run in needed)
        texts = {0: "every run has a record", 1: "1 run starts"}
        text = texts.get(left, f"{left} runs start")
        print_progress(f"{label}  {text}{_remaining_time(place, total - number)}")
        _measure(planned, needed, place, label, file.stem)
    pointers = {name: read_json(place.pointer(name)) for name in digests}
    write_json(file, {"members": pointers})
    return 0


def _measure(
    planned: Sequence[Run], needed: Sequence[Run], place: Place, label: str, name: str
) -> None:
    check = watched(name, [run.config for run in needed], place.root)
    pins = {
        run.name: check_inputs(
            run.name, run.identity, run.config, place.root, worker_digest(run.config)
        )
        for run in needed
    }
    reference = _reference(planned, place)
    records = measure(
        needed, place, check, label=label, name=name, reference=reference, pinned_md5=pins
    )
    for run, record in records.items():
        print_progress(f"{label}  {run}  {_summary(record)}")
    if reference and len(planned) > 1 and (known := known_so_far(planned, place, reference)):
        print_progress(f"{label}  {known}")


def _has_record(run: Run, place: Place) -> bool:
    """Whether the run has a record of its present identity."""
    pointer = place.pointer(run.name)
    is_valid = pointer_is_valid(place.results, pointer)
    return is_valid and bool(read_json(pointer).get("digest") == run.digest)


def _needed(planned: Sequence[Run], place: Place, label: str) -> list[Run]:
    """The runs that the experiment's ``repeats`` still need. The others get a pointer with the
    reason why they are not needed."""
    rule = rule_of(place)
    pointers = (place.pointer(run.name) for run in planned)
    begun = any(pointer_is_valid(place.results, pointer) for pointer in pointers)
    if rule is None or planned[0].repeat < rule.least or begun:
        return list(planned)
    # In a separate process: this one stays small, without SciPy, while runs are timed.
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as process:
        reference = _reference(planned, place)
        reasons = process.submit(why_not_needed, planned, place, rule, reference).result()
    for run in planned:
        if why := reasons.get(run.name):
            write_json(
                place.pointer(run.name), pointer_without_record(run.digest, why, rule.as_dict())
            )
    for why in dict.fromkeys(reasons.values()):
        names = [name for name, reason in reasons.items() if reason == why]
        some = f" ({', '.join(names)})" if len(names) < len(reasons) else ""
        print_progress(f"{label}  not needed{some}: {why}")
    return [run for run in planned if run.name not in reasons]


def _reference(planned: Sequence[Run], place: Place) -> str | None:
    named = read_facts(place).get("reference") or {}
    reference = reference_of([run.as_dict() for run in planned], named)
    return str(reference["name"]) if reference else None


def _summary(record: Record) -> str:
    verdict = record.verdict
    parts: list[str] = [verdict.status]
    if verdict.reasons:
        more = f" (and {len(verdict.reasons) - 1} more)" if len(verdict.reasons) > 1 else ""
        parts = [f"{verdict.status}: {verdict.reasons[0].text}{more}"]
    if record.epochs and verdict.status != "void":
        last = record.epochs[-1]
        seconds = run_value([epoch.seconds for epoch in record.epochs])
        parts.append(f"{seconds:.3g} s per epoch")
        if last.val_acc is not None:
            parts.append(f"val_acc {last.val_acc:.3f}")
    return ", ".join(parts)


def _remaining_time(place: Place, left: int) -> str:
    """The estimated time of the `left` rounds, from the experiment's finished rounds."""
    seconds = []
    for path in islice((place.folder / "rounds").glob("*.json"), SAMPLE):
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            members = json.loads(path.read_text())["members"].values()
            seconds.append(sum(float(member["wall_seconds"]) for member in members))
    return remaining(seconds, left)
