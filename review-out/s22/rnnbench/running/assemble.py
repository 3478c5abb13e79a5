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
from rnnbench.records.record import Epoch, Phase, Reason, Record, RoundFacts, Run, disturbed_cycles
from rnnbench.running import verdict
from rnnbench.running.worker import Outcome


@dataclass(frozen=True)
class Trained:
    """A run whose worker has ended: its line in the plan, the experiment and site, its start and
    end (timestamps), the machine's `hardware`, and the `outcome`."""

    run: Run
    experiment: str
    site: str
    started: str
    finished: str
    hardware: Mapping[str, Any]
    outcome: Outcome


def records_of(
    cohort: Sequence[Trained], identity: str, companions: Collection[str] = ()
) -> dict[str, Record]:
    """Run → its record, for the members of a cohort in starting order, whether they succeeded or
    not; those that received an external SIGKILL have none (see `failure_reason`). `identity`: of
    the round on its machine; `companions`: names of the runs that were measured only for the ratios
    of the others."""
    members = {each.run.name: each.outcome for each in cohort}
    taken = {name: turns(outcome.events, outcome.turns) for name, outcome in members.items()}
    disturbed, asleep = disturbed_cycles(taken), asleep_in(members)
    records = {}
    for each in cohort:
        name = each.run.name
        if not each.outcome.is_killed:
            id_ = f"{each.hardware['machine']}/{identity}"
            round_ = RoundFacts(id=id_, members=tuple(members), companion=name in companions)
            waited = asleep[name] if round_.in_turns else None
            records[name] = _record(each, round_, taken[name], disturbed, waited)
    return records


def _record(
    trained: Trained, round_: RoundFacts, taken: Mapping[str, list[Any]],
    disturbed: Collection[int], asleep: Mapping[str, float] | None,
) -> Record:  # fmt: skip
    """For the last arguments see `turns`, `disturbed_cycles` and `asleep_in`."""
    outcome, events = trained.outcome, trained.outcome.events
    phases, epochs = phases_of(events), epochs_of(events)
    measured = {
        **facts_of(events, "measured"),
        "closure": verdict.closure(phases, epochs),
        "wall_seconds": outcome.seconds,
        "garbage_lines": outcome.garbage,
        "asleep": asleep,
        **verdict.card_use(events, epochs),
    }
    measured = bounds.fitting(measured, bounds.MEASURED)
    hardware = {**trained.hardware, **facts_of(events, "hardware")}
    failure = verdict.failure_reason(outcome)
    if failure is None and not any(event["event"] == "finished" for event in events):
        failure = Reason("died", f"ended early in phase {outcome.phase}", "see the run's log.")
    device = verdict.device_reasons(trained.run.config["device"], measured, hardware)
    others = [cycle in disturbed for cycle in taken["cycle"]]
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
        measured=measured,
        verdict=verdict.judge(phases, epochs, measured, failure, device, others),
        round=round_,
        turns=taken,
    )


class Turn(msgspec.Struct):
    """An event ``turn`` of the training in which steps were timed. `begin`, `t`: seconds on the
    monotonic clock; `busy`, `own`, `steal`: CPU seconds of the member's cores."""

    event: Literal["turn"]
    phase: Literal["train"]
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
    major_faults: Any = None
    reads: Any = None

    @property
    def others(self) -> float | None:
        """CPU seconds that other processes and the hypervisor used on the member's cores."""
        if self.busy is None or self.own is None:
            return None
        return self.busy - self.own + (self.steal or 0.0)

    @property
    def took(self) -> float | None:
        return None if self.begin is None or self.t is None else self.t - self.begin


COLUMNS = tuple(name for name in bounds.TURN if name != "good")  # of schema 4


def turns(
    events: Sequence[Mapping[str, Any]], given: Sequence[Mapping[str, Any]]
) -> dict[str, list[Any]]:
    """The turns of a member's training as in its record (see `Record`), from the member's `events`
    and the turns `given` by the supervisor."""
    cycles = {turn["turn"]: turn["cycle"] for turn in given}
    rows = []
    for turn in turns_of(events):
        if turn.turn in cycles:
            row = {name: getattr(turn, name) for name in COLUMNS if name != "cycle"}
            rows.append(bounds.fitting({**row, "cycle": cycles[turn.turn]}, bounds.TURN))
    return {name: [row.get(name) for row in rows] for name in COLUMNS}


def turns_of(events: Sequence[Mapping[str, Any]]) -> list[Turn]:
    return [*_valid((event for event in events if event["event"] == "turn"), Turn)]


def asleep_in(outcomes: Mapping[str, Outcome]) -> dict[str, dict[str, float]]:
    """Member of a cohort → ``seconds`` that it waited while others had turns of their training, and
    the ``cpu_seconds`` that it used in the meantime (the kernel counts in ticks of 10 ms)."""
    took = {t.turn: t.took for outcome in outcomes.values() for t in turns_of(outcome.events)}
    totals = {name: {"seconds": 0.0, "cpu_seconds": 0.0} for name in outcomes}
    for outcome in outcomes.values():
        for turn in outcome.turns:
            if (seconds := took.get(turn["turn"])) is not None:
                for name in turn["asleep"].keys() & totals:
                    totals[name]["seconds"] += seconds
                    totals[name]["cpu_seconds"] += turn["asleep"][name]
    return totals


Part = TypeVar("Part", Phase, Epoch, Turn)


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
    steps = [turn.seconds / turn.steps for turn in turns_of(events)]
    step = statistics.median(steps) if steps else None
    reported = (event for event in events if event["event"] == "epoch")
    return tuple(_valid((_with_seconds(event, step) for event in reported), Epoch))


def _with_seconds(event: Mapping[str, Any], step: float | None) -> Mapping[str, Any]:
    numbers = [event.get(name) for name in ("rim", "took", "steps")]
    if event.get("seconds") is not None or not all(isinstance(n, int | float) for n in numbers):
        return event
    seconds = event["took"] if step is None else event["rim"] + event["steps"] * step
    return {**event, "seconds": seconds}


def _valid(events: Iterable[Mapping[str, Any]], kind: type[Part]) -> Iterator[Part]:
    """The parts of a record that the well-formed ones of `events` describe."""
    fields = kind.__struct_fields__
    for event in events:
        with suppress(msgspec.ValidationError):
            yield msgspec.convert({name: event[name] for name in fields if name in event}, kind)


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


# Facts that the verdict or the tables read. All other facts are recorded as reported.
_FACTS = {
    **bounds.MEASURED, "kernel": bounds.Kernel, "threads": Threads, "framework_devices": list,
    "framework_cards": list, "gpus": list[dict],
}  # fmt: skip
