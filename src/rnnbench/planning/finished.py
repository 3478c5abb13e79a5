"""The finished runs of an experiment as the estimates see them, updated from new rounds only.

What a record says about its run never changes, so a loop over rounds reads it once. A round is read
again if other records of it are in use than before, or if the undisturbed random reads of its
machine have become known better.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from rnnbench.records.plan_file import read_heads
from rnnbench.records.record import Record
from rnnbench.records.rounds import results_in
from rnnbench.records.store import Place, read_record, readable
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
from rnnbench.tables.states import undisturbed


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


class _Known(NamedTuple):
    """What is kept of a record.

    - `run`: its run.
    - `round`: id of its round; `together`: paths of the records of the round that were in use.
    - `lowest`: the lowest random reads of the round, for each source.
    - `levels`: the undisturbed random reads of these sources, as they were known.
    """

    run: FinishedRun
    round: str
    together: frozenset[str]
    lowest: Levels
    levels: Levels


def finished(records: Iterable[Record]) -> list[FinishedRun]:
    """The runs of `records`, in the same order.

    `records`: with all other records of their rounds.
    """
    records = list(records)
    return _runs_of(records, examined(records))


class FinishedRuns:
    """The runs of the plan that are finished as planned, and the companions of their rounds."""

    def __init__(self, place: Place):
        self._place = place
        self._known: dict[str, _Known] = {}  # path of a record in the results folder → its facts

    def read(self) -> list[FinishedRun]:
        """Those that are finished now, in the order of the plan. Runs that were not needed are left
        out. Does not raise for a damaged round or record: these runs will be measured again."""
        results, _ = results_in(self._place.folder)
        paths: dict[str, None] = {}  # the records of planned runs in finished rounds
        for head in read_heads(self._place.folder / "plan.jsonl"):
            if head.name in results and results[head.name].digest == head.digest:
                paths |= dict.fromkeys(results[head.name].paths)
        known = {path: self._known[path] for path in paths if path in self._known}

        missing = [path for path in paths if path not in known]
        records = _read_records(self._place, missing)
        levels = [own.lowest for own in examined(records.values())]
        levels += [each.lowest for each in known.values()]
        lowest = lowest_of(levels)
        again = {record.round_id for record in records.values()}
        for each in known.values():
            if not paths.keys() >= each.together:
                again.add(each.round)
            for source, level in each.levels.items():
                if undisturbed(source, lowest[source]) != level:
                    again.add(each.round)
        stale = {path for path, each in known.items() if each.round in again}

        if records or stale:
            records |= _read_records(self._place, stale)
            known = {path: each for path, each in known.items() if path not in stale}
            known |= _known_of(records, lowest)
        self._known = known
        return [known[path].run for path in paths if path in known]


def _read_records(place: Place, paths: Iterable[str]) -> dict[str, Record]:
    """Path → the record, for those that can be read."""
    # Others are to be measured again.
    records, _ = readable(paths, lambda path: (path, read_record(place.results / path)))
    return dict(records)


def _known_of(records: Mapping[str, Record], lowest: Levels) -> dict[str, _Known]:
    """Path → what is kept of the record.

    - `records`: path → all records of some rounds.
    - `lowest`: as from `lowest_of`.
    """
    rounds = examined(records.values(), lowest)
    of_record = {}
    for own in rounds:
        for key in own.members:
            of_record[key] = own

    known = {}
    runs = _runs_of(records.values(), rounds)
    for (path, record), run in zip(records.items(), runs, strict=True):
        together: frozenset[str] = frozenset()
        sources: Levels = {}
        if record.key in of_record:
            own = of_record[record.key]
            together = frozenset(member.path for member in own.members.values())
            sources = own.lowest
        levels = {source: undisturbed(source, lowest[source]) for source in sources}
        known[path] = _Known(run, record.round_id, together, sources, levels)
    return known


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
                wall_seconds=record.measured.wall_seconds,
                value=run_value(record, effect),
            )
        )
    return runs
