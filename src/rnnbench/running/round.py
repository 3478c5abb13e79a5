"""Measures the runs of a round in turns, from their lines in the plan to their records.

If a member's record exists already, it is adopted. If the reference's record exists but other
members' do not, the reference is measured with them again as their companion, because only runs
measured at the same time can be compared.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from rnnbench import locks
from rnnbench.builds.environments import prepare
from rnnbench.errors import RecordError, RunError
from rnnbench.records.record import Record
from rnnbench.records.run import Run
from rnnbench.records.store import (
    companion_files,
    pointer_is_valid,
    pointer_to,
    read_json,
    write_json,
)
from rnnbench.running import attempt
from rnnbench.running.adopt import existing_record
from rnnbench.running.cohort import CohortRunner
from rnnbench.running.progress import print_progress
from rnnbench.running.train import Place
from rnnworker import cards
from rnnworker.cohorts import cohorts, takes_turns
from rnnworker.workers import card_of


def measure(
    planned: Sequence[Run],
    place: Place,
    *,
    label: str,
    name: str = "",
    reference: str | None = None,
    pinned_md5: Mapping[str, str | None] | None = None,
) -> dict[str, Record]:
    """Measures the runs that `planned` (lines of the plan) describes in turns, or adopts records of
    earlier attempts. Writes records and pointers. Returns run → record.

    **Arguments:**

    - `label`: the prefix of its messages.
    - `name`: of the round.
    - `reference`: the name of the run that the others are compared with.
    - `pinned_md5`: run → the md5 of the dataset from which its worker may load pickles.

    Raises `RunError` if a record could not be made: the worker received an external SIGKILL, the
    disk is full, or a folder cannot be written. Records of the other runs are kept.
    """
    runner = CohortRunner(place, label, name or planned[0].name, pinned_md5 or {})
    holder = f"process {os.getpid()}, {runner.name} of {place.root}"
    # Snakemake has made the environments; damage is repaired here, before anything is timed.
    builds = {run.config["build"]["name"]: run.config["build"] for run in planned}
    for build in builds.values():
        prepare(build, place.root, lambda message: print_progress(f"{label}  {message}"))
    try:
        for run in planned:
            runner.folder(run).mkdir(parents=True, exist_ok=True)
        with ExitStack() as held:
            attempts = {
                run.name: held.enter_context(
                    attempt.held(
                        place.folder / "attempts" / run.name,
                        _waiting(label, f"for another attempt at {run.name}"),
                    )
                )
                for run in sorted(planned, key=lambda run: run.name)
            }
            timing = held.enter_context(
                locks.locked(
                    place.timing_lock, holder, _waiting(label, "for this host to finish timing")
                )
            )
            records = {}
            for run in planned:
                if record := existing_record(run, place, runner.folder(run)):
                    records[run.name] = record
                    _point_to(record, place)
            missing = [run for run in planned if run.name not in records]
            lines = {run.name: run.as_dict() for run in planned}
            groups = cohorts(
                [lines[run.name] for run in missing],
                lines.get(reference or ""),
                runner.peaks(planned),
                card=_card(missing),
            )
            by_name = {run.name: run for run in planned}
            for cohort in ([by_name[line["name"]] for line in group] for group in groups):
                # The reference is recorded once for itself; later it is the others' companion.
                requested = {run.name for run in missing if run.name not in records}
                records |= runner.measure(cohort, timing, attempts, requested)
    except OSError as error:
        raise RunError(
            f"{runner.name} could not be recorded: {error}.",
            where=str(place.results),
            remedy="make the results folder writable, with free space, and run the same command "
            "again.",
        ) from error
    return records


def _card(runs: Sequence[Run]) -> Mapping[str, Any] | None:
    """Facts about the card on which `runs` are to take turns; None if they need no card."""
    configs = (run.config for run in runs if takes_turns(run.config))
    on_gpu = next((config for config in configs if config["device"].get("kind") == "gpu"), None)
    return cards.query_contexts(card_of(on_gpu)) if on_gpu else None


def _point_to(record: Record, place: Place) -> None:
    """Writes the pointer to an existing record, unless it is valid already. It names the companions
    whose records exist."""
    pointer = place.pointer(record.name)
    with suppress(RecordError, AttributeError):
        is_named = read_json(pointer).get("record") == f"records/{record.key}.json"
        if is_named and pointer_is_valid(place.results, pointer):
            return
    write_json(pointer, pointer_to(record, companion_files(place.results, record)))


def _waiting(label: str, what: str):
    def on_wait(holder: str) -> None:
        print_progress(f"{label}  waiting {what} ({holder or 'unknown holder'})")

    return on_wait
