"""The runs of a round: measured together, in turns, from their lines in the plan to their records.

A member whose record is there is adopted. Where others are missing, the reference is measured
beside them once more, as their companion: what is compared has to meet the same minutes.
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
from rnnbench.records.store import pointer_to, read_json, stands, write_json
from rnnbench.running import attempt
from rnnbench.running.adopt import companions_before, finished_before
from rnnbench.running.capacity import sittings
from rnnbench.running.progress import say
from rnnbench.running.sitting import Mirror, Planned, Sitting
from rnnbench.running.train import Place
from rnnbench.running.worker import card_of
from rnnworker import cards
from rnnworker.rounds import takes_turns


def measure(
    planned: Sequence[Planned],
    place: Place,
    *,
    label: str,
    name: str = "",
    reference: str | None = None,
    mirror: Mirror | None = None,
    pinned_md5: Mapping[str, str | None] | None = None,
) -> dict[str, Record]:
    """Measures the runs that `planned` (lines of the plan) describes, side by side and in turns, or
    adopts the records that earlier attempts left. Writes records and pointers. Returns run →
    record.

    **Arguments:**

    - `name`: of the round; `reference`: the name of the run that the others are compared with.
    - `label`: what its messages begin with.
    - `mirror`: called with a run's plan and its record's key, gives what is called with its events
      at handshakes.
    - `pinned_md5`: run → the md5 of the dataset from which its worker may load pickles.

    Raises `RunError` where a record could not be made: killed from outside, a disk that is full, a
    folder that cannot be written. What the others measured is kept.
    """
    sitting = Sitting(place, label, name or planned[0]["name"], mirror, pinned_md5 or {})
    holder = f"process {os.getpid()}, {sitting.name} of {place.root}"
    # Snakemake has had them made; here damage is noticed, and mended before anything is timed.
    builds = {run["config"]["build"]["name"]: run["config"]["build"] for run in planned}
    for build in builds.values():
        prepare(build, place.root, lambda words: say(f"{label}  {words}"))
    try:
        for run in planned:
            sitting.folder(run).mkdir(parents=True, exist_ok=True)
        with ExitStack() as held:
            mine = {
                run["name"]: held.enter_context(
                    attempt.held(
                        place.folder / "attempts" / run["name"],
                        _waiting(label, f"for another attempt at {run['name']}"),
                    )
                )
                for run in sorted(planned, key=lambda run: run["name"])
            }
            timing = held.enter_context(
                locks.locked(
                    place.timing_lock, holder, _waiting(label, "for this host to finish timing")
                )
            )
            records = {}
            for run in planned:
                if record := finished_before(run, place, sitting.folder(run)):
                    records[run["name"]] = record
                    _point_to(record, place)
            missing = [run for run in planned if run["name"] not in records]
            base = next((run for run in planned if run["name"] == reference), None)
            groups = sittings(missing, base, sitting.peaks(planned), card=_card(missing))
            for group in groups:
                # The reference is measured once for itself, and else as the others' companion.
                asked = {run["name"] for run in missing if run["name"] not in records}
                records |= sitting.sit(group, timing, mine, asked)
    except OSError as error:
        raise RunError(
            f"{sitting.name} could not be recorded: {error}.",
            where=str(place.results),
            remedy="free or unlock the results folder and run the same command again.",
        ) from error
    return records


def _card(runs: Sequence[Planned]) -> Mapping[str, Any] | None:
    """What there is to know of the card on which `runs` are to take turns."""
    taking = (run["config"] for run in runs if takes_turns(run["config"]))
    on_gpu = next((one for one in taking if one["device"].get("kind") == "gpu"), None)
    return cards.ask_contexts(card_of(on_gpu)) if on_gpu else None


def _point_to(record: Record, place: Place) -> None:
    """Makes the pointer to a record that is there, unless it stands. Companions are those that are
    there too."""
    pointer = place.pointer(record.name)
    with suppress(RecordError, AttributeError):
        named = read_json(pointer).get("record") == f"records/{record.key}.json"
        if named and stands(place.results, pointer):
            return
    write_json(pointer, pointer_to(record, companions_before(record, place)))


def _waiting(label: str, what: str):
    def on_wait(holder: str) -> None:
        say(f"{label}  waiting {what} ({holder or 'unknown holder'})")

    return on_wait
