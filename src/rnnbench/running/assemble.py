"""Makes records of runs whose workers have ended, from what the workers reported and the turns that
they were given.

Malformed events and values are left out. No side effects."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import msgspec

from rnnbench.records import bounds
from rnnbench.records.measured import Details, Measured
from rnnbench.records.record import Epoch, Phase, Reason, Record, RoundFacts, Run, disturbed_cycles
from rnnbench.running import verdict
from rnnbench.running.card_use import card_use
from rnnbench.running.worker import Events, Facts, Outcome


@dataclass(frozen=True)
class Trained:
    """A run whose worker has ended.

    - `run`: as it is planned, for an `experiment` at a `site`.
    - `started`, `finished`: timestamps.
    - `hardware`: the machine's fingerprint.
    - `outcome`: what its worker reported, and how it ended.
    """

    run: Run
    experiment: str
    site: str
    started: str
    finished: str
    hardware: Facts
    outcome: Outcome


def records_of(
    cohort: Sequence[Trained],
    identity: str,
    companions: Collection[str] = (),
) -> dict[str, Record]:
    """Run → its record, whether it succeeded or not. A run that received an external SIGKILL has
    none (see `failure_reason`).

    - `cohort`: its members, in starting order.
    - `identity`: of the round on its machine.
    - `companions`: names of the runs that were measured only for the ratios of the others.
    """
    members = {each.run.name: each.outcome for each in cohort}
    taken = {name: turns(outcome.events, outcome.turns) for name, outcome in members.items()}
    disturbed = disturbed_cycles(taken)
    asleep = asleep_in(members)

    records = {}
    for each in cohort:
        name = each.run.name
        if each.outcome.is_killed:
            continue
        round_ = RoundFacts(
            id=f"{each.hardware['machine']}/{identity}",
            members=tuple(members),
            companion=name in companions,
        )
        waited = asleep[name] if round_.in_turns else None
        records[name] = _record(each, round_, taken[name], disturbed, waited)
    return records


def _record(
    trained: Trained,
    round_: RoundFacts,
    taken: Mapping[str, list[Any]],
    disturbed: Collection[int],
    asleep: Mapping[str, float] | None,
) -> Record:
    """The record of a member of a cohort.

    - `round_`: the facts about its round.
    - `taken`: its turns, as from `turns`.
    - `disturbed`: as from `disturbed_cycles`.
    - `asleep`: as from `asleep_in`; None if it took no turns.
    """
    outcome = trained.outcome
    events = outcome.events
    phases = phases_of(events)
    epochs = epochs_of(events)
    facts = {
        **facts_of(events, "measured"),
        "closure": verdict.closure(phases, epochs),
        "wall_seconds": outcome.seconds,
        "garbage_lines": outcome.garbage,
        "asleep": asleep,
        **card_use(events, epochs),
    }
    facts = bounds.fitting(facts, _FACTS["measured"])
    measured = bounds.decoded("measured", facts, Measured)

    hardware = {**trained.hardware, **facts_of(events, "hardware")}
    failure = verdict.failure_reason(outcome)
    if failure is None and not any(event["event"] == "finished" for event in events):
        failure = Reason("died", f"ended early in phase {outcome.phase}", "see the run's log.")

    device = verdict.device_reasons(trained.run.config["device"], measured, hardware)
    is_disturbed = [cycle in disturbed for cycle in taken["cycle"]]
    return Record(
        run=trained.run,
        experiment=trained.experiment,
        site=trained.site,
        machine=trained.hardware["machine"],
        started=trained.started,
        finished=trained.finished,
        environment=facts_of(events, "environment"),
        hardware=hardware,
        phases=phases,
        epochs=epochs,
        facts=facts,
        verdict=verdict.judge(
            phases,
            epochs,
            measured,
            failure,
            device,
            is_disturbed,
        ),
        round=round_,
        turns=taken,
    )


class Turn(msgspec.Struct):
    """An event ``turn`` of the training in which steps were timed.

    - `begin`, `t`: seconds on the monotonic clock.
    - `busy`, `own`, `steal`: CPU seconds of the member's cores.
    """

    event: Literal["turn"]
    phase: Literal["train", "train_again"]
    turn: bounds.Index
    start: bounds.Moment
    seconds: bounds.Duration
    steps: bounds.Positive
    full: bool = False
    begin: bounds.Moment | None = None
    t: bounds.Moment | None = None
    busy: bounds.Moment | None = None
    own: bounds.Moment | None = None
    steal: bounds.Moment | None = None
    cores: Any = None
    reads: Any = None

    @property
    def others(self) -> float | None:
        """CPU seconds that other processes and the hypervisor used on the member's cores."""
        if self.busy is None or self.own is None:
            return None
        return self.busy - self.own + (self.steal or 0.0)

    @property
    def took(self) -> float | None:
        """Seconds from the turn's begin to its end."""
        if self.begin is None or self.t is None:
            return None
        return self.t - self.begin


COLUMNS = tuple(bounds.TURN)


def turns(events: Events, given: Events) -> dict[str, list[Any]]:
    """The turns of a member's training as in its record (see `Record`).

    - `events`: what the member reported.
    - `given`: the turns that the supervisor gave it.
    """
    cycles = {turn["turn"]: turn["cycle"] for turn in given}
    rows = []
    for turn in turns_of(events):
        if turn.turn in cycles:
            row = {name: getattr(turn, name) for name in COLUMNS if name != "cycle"}
            row["cycle"] = cycles[turn.turn]
            rows.append(bounds.fitting(row, bounds.TURN))
    return {name: [row.get(name) for row in rows] for name in COLUMNS}


def turns_of(events: Events) -> list[Turn]:
    """The well-formed turns of the training among `events`."""
    return list(_valid((event for event in events if event["event"] == "turn"), Turn))


def asleep_in(outcomes: Mapping[str, Outcome]) -> dict[str, dict[str, float]]:
    """Member of a cohort → how it waited:

    - ``seconds`` of the turns in which others trained.
    - ``cpu_seconds`` that it used in the meantime (the kernel counts in ticks of 10 ms).
    """
    took: dict[int, float | None] = {}
    for outcome in outcomes.values():
        for turn in turns_of(outcome.events):
            took[turn.turn] = turn.took

    totals = {name: {"seconds": 0.0, "cpu_seconds": 0.0} for name in outcomes}
    for outcome in outcomes.values():
        for given in outcome.turns:
            seconds = took.get(given["turn"])
            if seconds is None:
                continue
            for name in given["asleep"].keys() & totals:
                totals[name]["seconds"] += seconds
                totals[name]["cpu_seconds"] += given["asleep"][name]
    return totals


Part = TypeVar("Part", Phase, Epoch, Turn)


def phases_of(events: Events) -> tuple[Phase, ...]:
    """The phases that have ended, in the order of the events.

    Details that do not fit are left out.
    """
    ended = []
    for event in events:
        if event["event"] != "phase_end" or "timed" not in event:
            continue
        details = event.get("details")
        if isinstance(details, Mapping):
            details = bounds.fitting(details, _DETAILS)
            ended.append(
                {
                    **event,
                    "name": event.get("phase"),
                    "details": details,
                }
            )
    return tuple(_valid(ended, Phase))


def epochs_of(events: Sequence[Facts]) -> tuple[Epoch, ...]:
    """The epochs, in the order of the events.

    An epoch with too few timed steps to know its seconds gets them from the median step of the
    run's turns.
    """
    steps = [turn.seconds / turn.steps for turn in turns_of(events)]
    step = statistics.median(steps) if steps else None
    reported = []
    for event in events:
        if event["event"] != "epoch":
            continue
        numbers = [event.get(name) for name in ("rim", "took", "steps")]
        is_complete = all(isinstance(number, int | float) for number in numbers)
        if event.get("seconds") is None and is_complete:
            seconds = event["took"]
            if step is not None:
                seconds = event["rim"] + event["steps"] * step
            event = {**event, "seconds": seconds}
        reported.append(event)
    return tuple(_valid(reported, Epoch))


def _valid(events: Iterable[Facts], kind: type[Part]) -> Iterator[Part]:
    """The parts of a record that the well-formed ones of `events` describe."""
    fields = kind.__struct_encode_fields__
    for event in events:
        with suppress(msgspec.ValidationError):
            known = {name: event[name] for name in fields if name in event}
            yield msgspec.convert(known, kind)


def facts_of(events: Events, topic: str) -> dict[str, Any]:
    """All facts that the worker reported about a topic; later ones replace earlier ones.

    `topic`: ``environment``, ``hardware``, ``measured``, …
    """
    facts: dict[str, Any] = {}
    for event in events:
        told = event.get(topic)
        if event["event"] == "facts" and isinstance(told, Mapping):
            facts |= bounds.fitting(told, _FACTS.get(topic, {}))
    return facts


# Facts that the verdict or the tables read. All other facts are recorded as reported.
_DETAILS = bounds.kinds_of(Details)
_FACTS: Mapping[str, bounds.Kinds] = {
    "measured": bounds.kinds_of(Measured),
    "hardware": {"gpus": list[dict[Any, Any]]},
}
