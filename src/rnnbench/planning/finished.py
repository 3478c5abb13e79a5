"""The finished runs of an experiment as the estimates see them, updated from new rounds only.

What a record says about its run never changes, so it is read once: ``.finished.jsonl`` in the
experiment's folder keeps the values. A round is read again if other records of it are in use than
before, or if the undisturbed random reads of its machine have become known better.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from rnnbench.errors import RecordError
from rnnbench.records import timestamps
from rnnbench.records.plan_file import read_heads
from rnnbench.records.pointer import Pointer
from rnnbench.records.record import Record, run_value
from rnnbench.records.store import Place, read_record, write_bytes
from rnnbench.tables.effects import Effect, Round, effects_in, examined
from rnnbench.tables.ratios import RunValue
from rnnbench.tables.states import Source, undisturbed

CACHE = ".finished.jsonl"


class FinishedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A finished run.

    - `name`, `device`; `wall_seconds`: its share of the wall time of its round.
    - `value`: what the estimates are made from; None if it is void or a companion that serves no
      ratio.
    """

    name: str
    device: str
    wall_seconds: float | None
    value: RunValue | None


class _Known(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the cache: a run with the `path` of its record, its `round` and the paths of the
    records that were in use `together`; `lowest`: the lowest random reads of the round; `levels`:
    the undisturbed ones that were known."""

    path: str
    run: FinishedRun
    round: str
    together: tuple[str, ...]
    lowest: tuple[tuple[Source, float], ...]
    levels: tuple[tuple[Source, float], ...]


def key_of(machine: str, configuration: str) -> str:
    """The key of a configuration in the estimates."""
    return f"{machine}/{configuration}"


def finished(records: Iterable[Record]) -> list[FinishedRun]:
    """The runs of `records`, which include all of their rounds."""
    records = list(records)
    return _runs_of(records, examined(records))


def finished_runs(place: Place) -> list[FinishedRun]:
    """The runs of the plan that are finished as planned, and the companions of their rounds. Runs
    that were not needed are left out."""
    paths = _paths_in_use(place)
    cache = place.folder / CACHE
    known = {line.path: line for line in _read(cache) if line.path in paths}
    records = _read_records(place, [path for path in paths if path not in known])
    again = {record.round_id for record in records.values()}
    again |= {line.round for line in known.values() if not paths.keys() >= set(line.together)}
    lowest = _lowest(known.values(), examined(records.values()))
    for line in known.values():
        if any(undisturbed(source, lowest[source]) != level for source, level in line.levels):
            again.add(line.round)
    stale = [path for path, line in known.items() if line.round in again]
    if not records and not stale:
        return [line.run for line in known.values()]
    records |= _read_records(place, stale)
    kept = [line for path, line in known.items() if path not in records]
    lines = [*kept, *_lines_of(list(records.values()), lowest)]
    with suppress(OSError):  # it is only read faster the next time
        write_bytes(cache, b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    return [line.run for line in lines]


def _paths_in_use(place: Place) -> dict[str, None]:
    """The records that the pointers of the plan name, in its order."""
    paths: dict[str, None] = {}
    for head in read_heads(place.folder / "plan.jsonl"):
        with suppress(RecordError):  # to be measured again
            pointer = Pointer.read(place.pointer(head.name))
            if pointer.digest == head.digest:
                paths.update(dict.fromkeys(pointer.paths))
    return paths


def _read(cache: Path) -> list[_Known]:
    """The lines of the cache; none if it is missing, damaged or of another version."""
    try:
        decoder = msgspec.json.Decoder(_Known)
        return [decoder.decode(line) for line in cache.read_bytes().splitlines()]
    except (OSError, ValueError):
        return []


def _read_records(place: Place, paths: Sequence[str]) -> dict[str, Record]:
    records = {}
    for path in paths:
        with suppress(RecordError):  # to be measured again
            records[path] = read_record(place.results / path)
    return records


def _lowest(known: Iterable[_Known], rounds: Iterable[Round]) -> dict[Source, float]:
    """The lowest random reads of each source in all rounds."""
    every = [pair for line in known for pair in line.lowest]
    every += [pair for own in rounds for pair in own.lowest.items()]
    lowest: dict[Source, float] = {}
    for source, level in every:
        lowest[source] = min(level, lowest.get(source, level))
    return lowest


def _lines_of(records: Sequence[Record], lowest: Mapping[Source, float]) -> list[_Known]:
    rounds = examined(records, lowest)
    of_round = {key: own for own in rounds for key in own.members}
    lines = []
    for record, run in zip(records, _runs_of(records, rounds), strict=True):
        own = of_round.get(record.key)
        sources = own.lowest if own else {}
        lines.append(
            _Known(
                path=record.path,
                run=run,
                round=record.round_id,
                together=tuple(each.path for each in own.members.values()) if own else (),
                lowest=tuple(sources.items()),
                levels=tuple((each, undisturbed(each, lowest[each])) for each in sources),
            )
        )
    return lines


def _runs_of(records: Iterable[Record], rounds: Iterable[Round]) -> list[FinishedRun]:
    effects: dict[str, Effect] = {}
    for own in rounds:
        effects |= effects_in(own)
    runs = []
    for record in records:
        runs.append(
            FinishedRun(
                name=record.name,
                device=record.run.choices.get("device", ""),
                wall_seconds=record.measured.get("wall_seconds"),
                value=_value_of(record, effects.get(record.key, Effect())),
            )
        )
    return runs


def _value_of(record: Record, effect: Effect) -> RunValue | None:
    if record.verdict.status == "void" or not record.epochs:
        return None
    if record.is_companion and not effect.is_known:
        return None
    choices = record.run.choices
    seconds = run_value([epoch.seconds for epoch in record.epochs])
    # As `tables.frame.run_values`: runs of one seed and repeat were measured after each other.
    block = f"s{record.run.seed}-r{record.run.repeat}"
    return RunValue(
        key=key_of(record.machine, record.run.configuration),
        device=f"{record.machine}/{choices.get('model')}/{choices.get('device')}",
        log=effect.log if effect.is_known else math.log(seconds),
        unit=record.round_id
        if effect.is_known
        else f"{record.machine}/{record.site}/{record.experiment}/{block}",
        machine=record.machine,
        started=timestamps.read(record.started).timestamp(),
        is_companion=record.is_companion,
        in_turns=effect.is_known,
        state=effect.state,
        slowness=effect.slowness,
    )
