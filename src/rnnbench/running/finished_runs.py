"""What the finished runs of an experiment took, for the decision whether another repeat is needed.

That decision comes before each repeat and looks at all runs. So that this reads every pointer and
every record once and not once for each repeat, what they say is kept in ``measured.jsonl`` beside
the pointers, one line for each pointer read. It is a cache: a line counts for the very file that it
was read from, lines may be missing or garbled, and without it everything is read again.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnnbench.errors import RecordError
from rnnbench.records.record import Record, run_value
from rnnbench.records.store import read_json, record_behind

if TYPE_CHECKING:
    from rnnbench.running.train import Place

CACHE = "measured.jsonl"
SCHEMA = 3  # another one where `Measured.value` comes to mean something else
# How a line of the plan begins (`planning.Run`): the rest, most of it, need not be parsed.
HEAD = re.compile(r'\{"name": "([^"\\]+)", "order": \d+, "block": \d+, "digest": "(\w+)"')


@dataclass(frozen=True)
class Measured:
    """A finished run: the digest of its identity, its worker's seconds, its device, its
    `value_of` (None where it is void), and the round in which that is relative to others'."""

    digest: str
    wall_seconds: float
    device: str | None
    value: float | None
    round: str | None = None


def measured(place: Place) -> dict[str, Measured]:
    """Run → what it took, for the runs of the plan that are finished as planned; those that were
    not needed are none of them."""
    digests = planned_digests(place.folder / "plan.jsonl")
    known = _cached(place.folder / CACHE)
    found: dict[str, Measured] = {}
    new: list[Mapping[str, Any]] = []
    for name, stamp in _pointers(place.folder).items():
        if name not in digests:
            continue
        if name in known and known[name][0] == stamp:
            one = known[name][1]
        else:
            try:
                one = _read(place, name)
            except (RecordError, KeyError, TypeError, ValueError):
                continue  # to be measured again
            line = {"name": name, "stamp": stamp, "schema": SCHEMA}
            new.append({**line, "run": asdict(one) if one else None})
        if one and one.digest == digests[name]:
            found[name] = one
    _append(place.folder / CACHE, new)
    return found


def planned_digests(plan: Path) -> dict[str, str]:
    """Run → the digest of its identity, of all lines of the plan."""
    digests = {}
    with plan.open(encoding="utf-8") as file:
        for line in file:
            if head := HEAD.match(line):
                digests[head[1]] = head[2]
            else:
                run = json.loads(line)
                digests[run["name"]] = run["digest"]
    return digests


def _pointers(folder: Path) -> dict[str, list[int]]:
    """Run → what tells its pointer's file from any other: pointers are replaced, never written
    into."""
    found = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            name, ending = os.path.splitext(entry.name)
            if ending == ".json":
                with suppress(FileNotFoundError):
                    state = entry.stat()
                    found[name] = [state.st_ino, state.st_mtime_ns, state.st_size]
    return found


def _read(place: Place, name: str) -> Measured | None:
    """What a pointer and its record say; None for a run that was not needed."""
    file = place.pointer(name)
    pointer = read_json(file)
    if pointer["record"] is None:
        return None
    record = record_behind(place.results, file, pointer)
    usable = record.verdict.status != "void" and record.epochs
    return Measured(
        digest=pointer["digest"],
        wall_seconds=float(pointer.get("wall_seconds") or 0),
        device=record.choices.get("device"),
        value=value_of(record) if usable else None,
        round=record.round["id"] if (record.round or {}).get("effect") is not None else None,  # type: ignore[index]
    )


def value_of(record: Record) -> float:
    """What repeats are compared by: how the run's steps took against its round's where it was
    measured in turns, else its seconds per epoch."""
    effect = (record.round or {}).get("effect")
    if effect is not None:
        return math.exp(effect)
    return run_value([epoch.seconds for epoch in record.epochs])


def _cached(file: Path) -> dict[str, tuple[list[int], Measured | None]]:
    found: dict[str, tuple[list[int], Measured | None]] = {}
    try:
        lines = file.read_bytes().splitlines()
    except OSError:
        return found
    for text in lines:
        with suppress(ValueError, KeyError, TypeError):
            line = json.loads(text)
            if line["schema"] == SCHEMA:
                run = line["run"]
                found[line["name"]] = (line["stamp"], Measured(**run) if run else None)
    return found


def _append(file: Path, lines: list[Mapping[str, Any]]) -> None:
    """In one write, so that two nodes' lines stay whole; where that fails, they are read again."""
    text = "".join(json.dumps(line) + "\n" for line in lines)
    with suppress(OSError):
        if text:
            with file.open("ab", buffering=0) as cache:
                cache.write(text.encode())
