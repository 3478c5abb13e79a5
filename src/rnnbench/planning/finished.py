"""The finished runs of an experiment as the estimates see them, updated from new rounds only.

What a record says about its run never changes, so it is read once: ``.finished.jsonl`` in the
experiment's folder keeps the values. A round is read again if other records of it are in use than
before, or if the undisturbed random reads of its machine have become known better.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

import msgspec

from rnnbench.errors import RecordError
from rnnbench.records.plan_file import read_heads
from rnnbench.records.record import Record
from rnnbench.records.rounds import results_in
from rnnbench.records.store import Place, read_record, write_bytes
from rnnbench.tables.effects import (
    Effect,
    Levels,
    Round,
    RunValue,
    effects_in,
    examined,
    lowest_of,
    run_value,
)
from rnnbench.tables.states import Source, undisturbed

CACHE = ".finished.jsonl"


class FinishedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A finished run.

    - `name`: with seed and repeat.
    - `device`: its choice.
    - `wall_seconds`: its share of the wall time of its round.
    - `value`: what the estimates are made from; None if it is void or a companion that serves no
      ratio.
    """

    name: str
    device: str
    wall_seconds: float | None
    value: RunValue | None


class _Known(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the cache.

    - `path`: of the record of the `run`, in the results folder.
    - `round`: id of its round; `together`: paths of the records of the round that were in use.
    - `lowest`: the lowest random reads of the round, for each source.
    - `levels`: the undisturbed random reads of these sources, as they were known.
    """

    path: str
    run: FinishedRun
    round: str
    together: tuple[str, ...]
    lowest: tuple[tuple[Source, float], ...]
    levels: tuple[tuple[Source, float], ...]


def finished(records: Iterable[Record]) -> list[FinishedRun]:
    """The runs of `records`, in the same order.

    `records`: with all other records of their rounds.
    """
    records = list(records)
    return _runs_of(records, examined(records))


def finished_runs(place: Place) -> list[FinishedRun]:
    """The runs of the plan that are finished as planned, and the companions of their rounds.

    Runs that were not needed are left out. Updates the cache. Does not raise for a damaged cache,
    round or record: these runs will be measured again.
    """
    paths = _paths_in_use(place)

    cache = place.folder / CACHE
    read: list[_Known] = []
    with suppress(OSError, ValueError):  # it is missing, damaged or of another version
        decoder = msgspec.json.Decoder(_Known)
        read = [decoder.decode(line) for line in cache.read_bytes().splitlines()]
    known = {line.path: line for line in read if line.path in paths}

    missing = [path for path in paths if path not in known]
    records = _read_records(place, missing)
    levels = [own.lowest for own in examined(records.values())]
    levels += [dict(line.lowest) for line in known.values()]
    lowest = lowest_of(levels)
    again = {record.round_id for record in records.values()}
    for line in known.values():
        if not paths.keys() >= set(line.together):
            again.add(line.round)
        for source, level in line.levels:
            if undisturbed(source, lowest[source]) != level:
                again.add(line.round)
    stale = [path for path, line in known.items() if line.round in again]

    lines = list(known.values())
    if records or stale:
        records |= _read_records(place, stale)
        lines = [line for line in lines if line.path not in records]
        lines += _lines_of(list(records.values()), lowest)
        content = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
        with suppress(OSError):  # it is only read faster the next time
            write_bytes(cache, content)
    return [line.run for line in lines]


def _paths_in_use(place: Place) -> dict[str, None]:
    """The records of the planned runs in finished rounds, in the order of the plan."""
    results, _ = results_in(place.folder)
    paths: dict[str, None] = {}
    for head in read_heads(place.folder / "plan.jsonl"):
        if head.name in results and results[head.name].digest == head.digest:
            paths.update(dict.fromkeys(results[head.name].paths))
    return paths


def _read_records(place: Place, paths: Sequence[str]) -> dict[str, Record]:
    """Path → the record, for those that can be read."""
    records = {}
    for path in paths:
        with suppress(RecordError):  # to be measured again
            records[path] = read_record(place.results / path)
    return records


def _lines_of(records: Sequence[Record], lowest: Levels) -> list[_Known]:
    """The lines of the cache for all `records` of some rounds. `lowest`: as from `lowest_of`."""
    rounds = examined(records, lowest)
    of_record = {}
    for own in rounds:
        for key in own.members:
            of_record[key] = own

    lines = []
    for record, run in zip(records, _runs_of(records, rounds), strict=True):
        together = []
        sources: Levels = {}
        if record.key in of_record:
            own = of_record[record.key]
            together = [member.path for member in own.members.values()]
            sources = own.lowest
        levels = [(source, undisturbed(source, lowest[source])) for source in sources]
        lines.append(
            _Known(
                path=record.path,
                run=run,
                round=record.round_id,
                together=tuple(together),
                lowest=tuple(sources.items()),
                levels=tuple(levels),
            )
        )
    return lines


def _runs_of(records: Iterable[Record], rounds: Iterable[Round]) -> list[FinishedRun]:
    """The runs of `records`, which were examined as `rounds`, in the same order."""
    effects: dict[str, Effect] = {}
    for own in rounds:
        effects |= effects_in(own)

    runs = []
    for record in records:
        effect = effects.get(record.key, Effect())
        runs.append(
            FinishedRun(
                name=record.name,
                device=record.run.choices.get("device", ""),
                wall_seconds=record.measured.get("wall_seconds"),
                value=run_value(record, effect),
            )
        )
    return runs
