"""Durations of an experiment's finished runs, for the decision whether another repeat is needed.

That decision is made before each repeat and depends on all runs. To read every pointer and record
only once, and not for each repeat, their values are cached in ``measured.jsonl`` next to the
pointers, with one line per pointer read. A line is valid only for the version of the file that it
was read from. Lines may be missing or garbled; without the cache everything is read again.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnnbench.errors import RecordError
from rnnbench.records.plan_file import read_heads
from rnnbench.records.record import Record, run_value
from rnnbench.records.store import read_json, record_behind

if TYPE_CHECKING:
    from rnnbench.running.train import Place

CACHE = "measured.jsonl"
SCHEMA = 3  # increase it if the meaning of `FinishedRun.value` changes


@dataclass(frozen=True)
class FinishedRun:
    """A finished run: the digest of its identity, its worker's seconds, its device, its `value_of`
    (None if it is void), and the id of the round within which that value is relative."""

    digest: str
    wall_seconds: float
    device: str | None
    value: float | None
    round: str | None = None


def finished_runs(place: Place) -> dict[str, FinishedRun]:
    """Run → its measurement, for the runs of the plan that are finished as planned. Runs that were
    not needed are left out."""
    digests = {head.name: head.digest for head in read_heads(place.folder / "plan.jsonl")}
    cached = _cached(place.folder / CACHE)
    finished: dict[str, FinishedRun] = {}
    new: list[Mapping[str, Any]] = []
    for name, stamp in _pointers(place.folder).items():
        if name not in digests:
            continue
        if name in cached and cached[name][0] == stamp:
            run = cached[name][1]
        else:
            try:
                run = _read(place, name)
            except (RecordError, KeyError, TypeError, ValueError):
                continue  # to be measured again
            line = {"name": name, "stamp": stamp, "schema": SCHEMA}
            new.append({**line, "run": asdict(run) if run else None})
        if run and run.digest == digests[name]:
            finished[name] = run
    _append(place.folder / CACHE, new)
    return finished


def _pointers(folder: Path) -> dict[str, list[int]]:
    """Run → inode, modification time and size of its pointer. They identify the file's version,
    since pointers are replaced and never modified."""
    stamps = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            name, ending = os.path.splitext(entry.name)
            if ending == ".json":
                with suppress(FileNotFoundError):
                    state = entry.stat()
                    stamps[name] = [state.st_ino, state.st_mtime_ns, state.st_size]
    return stamps


def _read(place: Place, name: str) -> FinishedRun | None:
    """The run of a pointer and its record; None for a run that was not needed."""
    file = place.pointer(name)
    pointer = read_json(file)
    if pointer["record"] is None:
        return None
    record = record_behind(place.results, file, pointer)
    usable = record.verdict.status != "void" and record.epochs
    return FinishedRun(
        digest=pointer["digest"],
        wall_seconds=float(pointer.get("wall_seconds") or 0),
        device=record.run.choices.get("device"),
        value=value_of(record) if usable else None,
        round=record.round_id if record.effect is not None else None,
    )


def value_of(record: Record) -> float:
    """The value by which repeats are compared: the duration of the run's steps relative to its
    round's if it was measured in turns, otherwise its seconds per epoch."""
    if record.effect is not None:
        return math.exp(record.effect)
    return run_value([epoch.seconds for epoch in record.epochs])


def _cached(file: Path) -> dict[str, tuple[list[int], FinishedRun | None]]:
    cached: dict[str, tuple[list[int], FinishedRun | None]] = {}
    try:
        lines = file.read_bytes().splitlines()
    except OSError:
        return cached
    for text in lines:
        with suppress(ValueError, KeyError, TypeError):
            line = json.loads(text)
            if line["schema"] == SCHEMA:
                run = line["run"]
                cached[line["name"]] = (line["stamp"], FinishedRun(**run) if run else None)
    return cached


def _append(file: Path, lines: list[Mapping[str, Any]]) -> None:
    """Appends the lines in a single write, so that the lines of two nodes do not mix. If writing
    fails, the pointers are read again next time."""
    text = "".join(json.dumps(line) + "\n" for line in lines)
    with suppress(OSError):
        if text:
            with file.open("ab", buffering=0) as cache:
                cache.write(text.encode())
