"""Makes records of runs whose workers have ended, from what the workers reported and the turns that
they were given.

Malformed events and values are left out. No side effects."""

from __future__ import annotations

import os
import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from rnnbench.records import bounds
from rnnbench.records.record import Epoch, Phase, Reason, Record, RoundFacts, Run, disturbed_cycles
from rnnbench.running import verdict
from rnnbench.running.verdict import card_use, device_reasons
from rnnbench.running.worker import Event, Outcome


@dataclass(frozen=True)
class Place:
    """The place of a run: the project's root, its results folder, the site, the experiment, and the
    file whose lock allows only one process on this host to time runs."""

    root: Path
    results: Path
    site: str
    experiment: str
    timing_lock: Path

    @property
    def folder(self) -> Path:
        return self.results / self.site / self.experiment

    def pointer(self, name: str) -> Path:
        return self.folder / f"{name}.json"


def timing_lock() -> Path:
    """The lock file of this host, regardless of the user's temporary folder."""
    path = os.environ.get("RNNBENCH_TIMING_LOCK", "/tmp/rnnbench-timing.lock")
    return Path(os.path.expandvars(path))


@dataclass(frozen=True)
class Trained:
    """A run whose worker has ended: its line in the plan, its start and end (timestamps), the
    machine's `hardware`, and the `outcome`."""

    run: Run
    started: str
    finished: str
    hardware: Mapping[str, Any]
    outcome: Outcome


def records_of(
    cohort: Sequence[Trained], place: Place, identity: str, companions: Collection[str] = ()
) -> dict[str, Record]:
    """Run → its record, for the members of a cohort in starting order, whether they succeeded or
    not; those that received an external SIGKILL have none (see `failure_reason`).

    **Arguments:**

    - `identity`: of the round on its machine.
    - `companions`: names of the runs that were measured only for the ratios of the others.
    """
    outcomes = {each.run.name: each.outcome for each in cohort}
    disturbed, asleep = disturbed_in(outcomes), asleep_in(outcomes)
    records = {}
    for each in cohort:
        name, machine = each.run.name, each.hardware["machine"]
        facts = RoundFacts(
            id=f"{machine}/{identity}", members=tuple(outcomes), companion=name in companions
        )
        if not each.outcome.is_killed:
            waited = asleep[name] if facts.in_turns else None
            records[name] = assembled(each, place, facts, waited, disturbed)
    return records


def assembled(
    trained: Trained,
    place: Place,
    round_: RoundFacts | None = None,
    asleep: Mapping[str, float] | None = None,
    disturbed: Collection[int] = (),
) -> Record:
    """The record of one run.

    **Arguments:**

    - `round_`: the record's ``round``.
    - `asleep`: the CPU time it used while others had their turns (`turns.asleep_in`).
    - `disturbed`: the cycles in which other processes used the cores (`turns.disturbed_in`).
    """
    outcome = trained.outcome
    events: list[Event] = outcome.events
    phases, epochs = phases_of(events), epochs_of(events)
    measured = {
        **facts_of(events, "measured"),
        "closure": verdict.closure(phases, epochs),
        "wall_seconds": outcome.seconds,
        "garbage_lines": outcome.garbage,
        "asleep": dict(asleep) if asleep else None,
    }
    measured = bounds.fitting(measured | card_use(events, epochs), bounds.MEASURED)
    machine_facts = {**trained.hardware, **facts_of(events, "hardware")}
    taken = turns(events, outcome.turns)
    device = device_reasons(trained.run.config["device"], measured, machine_facts)
    failure = verdict.failure_reason(outcome)
    if failure is None and not any(event["event"] == "finished" for event in events):
        failure = Reason("died", f"ended early in phase {outcome.phase}", "see the run's log.")
    return Record(
        run=trained.run,
        experiment=place.experiment,
        site=place.site,
        machine=trained.hardware["machine"],
        started=trained.started,
        finished=trained.finished,
        environment=facts_of(events, "environment"),
        hardware=machine_facts,
        phases=phases,
        epochs=epochs,
        measured=measured,
        verdict=verdict.judge(
            phases,
            epochs,
            measured,
            failure,
            device,
            [cycle in disturbed for cycle in taken["cycle"]],
        ),
        round=round_,
        turns=taken,
    )


def progress_label(order: int, total: int, name: str) -> str:
    width = len(str(total))
    return f"[{order + 1:{width}}/{total}] {name}"


COPIED = ("turn", "start", "seconds", "steps")


def turns(
    events: Sequence[Mapping[str, Any]], given: Sequence[Mapping[str, Any]]
) -> dict[str, list[Any]]:
    """The turns of a member's training as in its record (see `Record`), from the member's `events`
    and the turns `given` by the supervisor."""
    cycles = {turn["turn"]: turn["cycle"] for turn in given}
    rows = [
        bounds.fitting(
            {
                **{name: turn[name] for name in COPIED},
                "cycle": cycles[turn["turn"]],
                "full": turn.get("full") is True,
                "others": _others(turn),
                "took": _took(turn),
                "cores": turn.get("cores"),
                "major_faults": turn.get("major_faults"),
                "reads": turn.get("reads"),
            },
            bounds.TURN,
        )
        for turn in turns_of(events)
        if turn["turn"] in cycles
    ]
    names = ("turn", "cycle", *COPIED[1:], "full", "others", "took", "cores", "major_faults",
             "reads")  # fmt: skip
    return {name: [row.get(name) for row in rows] for name in names}


def _others(turn: Mapping[str, Any]) -> float | None:
    """CPU seconds that other processes and the hypervisor used on the member's cores."""
    busy, own, steal = (_number(turn.get(name)) for name in ("busy", "own", "steal"))
    return None if busy is None or own is None else busy - own + (steal or 0.0)


def _took(turn: Mapping[str, Any]) -> float | None:
    begin, end = (_number(turn.get(name)) for name in ("begin", "t"))
    return None if begin is None or end is None else end - begin


def disturbed_in(outcomes: Mapping[str, Outcome]) -> frozenset[int]:
    """The cycles of a cohort in which other processes used its members' cores."""
    members = {name: turns(outcome.events, outcome.turns) for name, outcome in outcomes.items()}
    return disturbed_cycles(members)


def asleep_in(outcomes: Mapping[str, Outcome]) -> dict[str, dict[str, float]]:
    """Member of a cohort → ``seconds`` that it waited while others had turns of their training, and
    the ``cpu_seconds`` that it used in the meantime (the kernel counts in ticks of 10 ms)."""
    durations = {
        turn["turn"]: turn["t"] - turn["begin"]
        for outcome in outcomes.values()
        for turn in turns_of(outcome.events)
        if all(isinstance(turn.get(name), float) for name in ("t", "begin"))
    }
    totals = {name: {"seconds": 0.0, "cpu_seconds": 0.0} for name in outcomes}
    for outcome in outcomes.values():
        for turn in outcome.turns:
            for name, used in turn["asleep"].items():
                if turn["turn"] in durations and name in totals:
                    totals[name]["seconds"] += durations[turn["turn"]]
                    totals[name]["cpu_seconds"] += used
    return totals


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None


Part = TypeVar("Part", Phase, Epoch)


def phases_of(events: Sequence[Mapping[str, Any]]) -> tuple[Phase, ...]:
    ended = [
        {**event, "name": event.get("phase"), "details": bounds.fitting(details, bounds.DETAILS)}
        for event in events
        if event["event"] == "phase_end" and "timed" in event
        for details in [event.get("details")]
        if isinstance(details, Mapping)
    ]
    return tuple(_valid(ended, Phase))


def epochs_of(events: Sequence[Mapping[str, Any]]) -> tuple[Epoch, ...]:
    """The epochs. An epoch with too few timed steps to know its seconds gets them from the median
    step of the run's turns."""
    reported = [event for event in events if event["event"] == "epoch"]
    steps = [turn["seconds"] / turn["steps"] for turn in turns_of(events)]
    step = statistics.median(steps) if steps else None
    return tuple(_valid((_with_seconds(event, step) for event in reported), Epoch))


def _valid(events: Iterable[Mapping[str, Any]], kind: type[Part]) -> Iterator[Part]:
    """The parts of a record that the well-formed ones of `events` describe."""
    fields = kind.__struct_fields__
    for event in events:
        with suppress(msgspec.ValidationError):
            yield msgspec.convert({name: event[name] for name in fields if name in event}, kind)


def _with_seconds(event: Mapping[str, Any], step: float | None) -> Mapping[str, Any]:
    numbers = [event.get(name) for name in ("rim", "took", "steps")]
    if event.get("seconds") is not None or not _is(numbers, list[float]):
        return event
    seconds = event["took"] if step is None else event["rim"] + event["steps"] * step
    return {**event, "seconds": seconds}


def turns_of(events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The events of the training's turns in which steps were timed."""
    return [event for event in events if _is(event, Turn)]


def facts_of(events: Sequence[Mapping[str, Any]], topic: str) -> dict[str, Any]:
    """All facts that the worker reported about `topic` (``environment``, ``hardware``,
    ``measured``, …); later ones replace earlier ones."""
    facts: dict[str, Any] = {}
    for event in events:
        if event["event"] == "facts" and isinstance(event.get(topic), Mapping):
            facts |= bounds.fitting(event[topic], _FACTS)
    return facts


class Threads(msgspec.Struct):
    pinned_to: list[Any] = []


class Turn(msgspec.Struct):
    """An event ``turn`` of the training in which steps were timed."""

    event: Literal["turn"]
    phase: Literal["train"]
    turn: bounds.Index
    start: bounds.Moment
    seconds: bounds.Duration
    steps: bounds.Positive


# Facts that the verdict or the tables read. All other facts are recorded as reported.
_FACTS = {
    **bounds.MEASURED, "threads": Threads, "framework_devices": list, "framework_cards": list,
    "gpus": list[dict],
}  # fmt: skip


def _is(value: Any, kind: Any) -> bool:
    with suppress(msgspec.ValidationError):
        msgspec.convert(value, kind)
        return True
    return False
