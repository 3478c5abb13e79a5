"""Phases, turns, and which training steps are timed in turns, tested with a fake clock."""

from __future__ import annotations

import gc
import itertools
import weakref
from types import SimpleNamespace

import pytest

from rnnworker.events import Events
from rnnworker.turns import Phases, StepClock, Turns


@pytest.fixture
def phases(pipe) -> Phases:
    events = Events(pipe.writer)
    return Phases(events, Turns(events))


def test_a_phase_is_reported_with_its_times_and_load(phases: Phases, pipe) -> None:
    with phases.phase("train", timed=True) as details:
        details["steps"] = 3
        assert phases.current == "train"
    begin, end = pipe.received()
    assert (begin["event"], begin["phase"], begin["timed"]) == ("phase_begin", "train", True)
    assert (end["event"], end["phase"], end["timed"]) == ("phase_end", "train", True)
    assert begin["t"] <= end["start"] <= end["end"] <= end["t"]
    assert end["details"]["steps"] == 3
    assert {"own", "foreign", "steal"} <= set(end["details"]["load"])


class Knot:
    """A reference cycle, which only the garbage collector frees."""

    def __init__(self) -> None:
        self.itself = self


def test_garbage_is_collected_before_a_timed_phase(phases: Phases) -> None:
    gc.disable()
    try:
        left = weakref.ref(Knot())
        with phases.phase("build"):
            assert left() is not None
        with phases.phase("train", timed=True) as details:
            assert left() is None
            assert gc.get_freeze_count() > 0
            assert gc.isenabled() is False, "a phase does not change whether collection is enabled"
        assert details["second_clock"] > 0
    finally:
        gc.enable()
        gc.unfreeze()


def test_a_phase_that_fails_has_no_end(phases: Phases, pipe) -> None:
    with pytest.raises(ZeroDivisionError), phases.phase("build"):
        raise ZeroDivisionError
    assert [event["event"] for event in pipe.received()] == ["phase_begin"]
    assert phases.current == "build"


class Supervisor:
    """Answers each gate with the next of `answers`, after `asleep` seconds."""

    def __init__(self, clock: SimpleNamespace, answers, asleep: float = 7.0) -> None:
        self.clock, self.answers, self.asleep = clock, iter(answers), asleep
        self.turns: list[dict] = []
        self.requests: list[dict] = []

    def gate(self, **fields):
        self.requests.append(fields)
        self.clock.now += self.asleep
        return next(self.answers)

    def emit_later(self, event, **fields):
        assert event == "turn"
        self.turns.append(fields)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that only the test advances."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr("rnnworker.turns.time.monotonic", lambda: clock.now)
    monkeypatch.setattr("rnnworker.turns.second_clock", lambda: clock.now)
    return clock


def trained(clock, supervisor, *, epochs=4, steps=10, step=0.01, cold=0.0, rim=0.002, validation=1):
    """Trains epochs of `steps` steps of `step` seconds; the first step of each turn takes `cold`
    seconds more. There are `rim` seconds before the first and after the last step of an epoch.
    Returns the epochs' times and the `Turns`."""
    turns = Turns(supervisor)
    turns.begin("train")
    steps_clock = StepClock(turns, steps, epochs)
    epoch_times = []
    for _ in range(epochs):
        steps_clock.epoch_begins()
        clock.now += rim
        for _ in range(steps):
            granted = len(supervisor.requests)
            steps_clock.before()
            clock.now += step + (cold if len(supervisor.requests) > granted else 0.0)
            steps_clock.after()
        clock.now += rim
        epoch_times.append(steps_clock.epoch_ends())
        clock.now += validation
    steps_clock.ends()
    turns.end()
    return epoch_times, turns


@pytest.mark.parametrize(
    ("lead", "granted", "options", "steps"),
    [
        (0, 40, {}, [40]),  # a single turn, in which every step is timed
        (3, 4, {"cold": 0.05}, [4, 4, 4, 4, 4, 2]),
        (3, 12, {"rim": 0.5}, [12, 12, 7]),  # turns across epochs
        (3, 7, {}, [7, 7, 7, 7]),  # complete at the end of each epoch
    ],
)
def test_neither_cold_steps_nor_waiting_rims_and_validation_are_timed(
    clock, lead: int, granted: int, options: dict[str, float], steps: list[int]
) -> None:
    grant = f" {lead} {granted}" if lead else ""
    supervisor = Supervisor(clock, (f"turn {number}{grant}\n" for number in itertools.count(0, 2)))
    epochs, turns = trained(clock, supervisor, **options)
    assert turns.waited == pytest.approx(7.0 * len(steps))
    left = [request["left"] for request in supervisor.requests]
    assert left == list(range(40, 0, -lead - granted))
    taken = [(turn["turn"], turn["steps"], turn["full"]) for turn in supervisor.turns]
    assert taken == [(2 * n, count, count == granted) for n, count in enumerate(steps)]
    for turn in supervisor.turns:
        assert turn["phase"] == "train"
        assert turn["seconds"] == pytest.approx(0.01 * turn["steps"])
    seconds = 0.1 + 2 * options.get("rim", 0.002)
    assert [epoch["seconds"] for epoch in epochs] == [pytest.approx(seconds)] * 4
    cold = options.get("cold", 0.0) * (len(steps) - 1)
    assert sum(epoch["took"] for epoch in epochs) == pytest.approx(4 * seconds + cold)


def test_an_epoch_with_too_few_timed_steps_has_no_seconds(clock) -> None:
    supervisor = Supervisor(clock, ["turn 0 9 1\n", *(f"turn {i} 38 1\n" for i in range(9))])
    epochs, _ = trained(clock, supervisor)
    assert [epoch["seconds"] for epoch in epochs] == [None] * 4
    assert all(epoch["rim"] == pytest.approx(0.004) for epoch in epochs)


def test_the_device_has_finished_whenever_the_clock_is_read() -> None:
    pending, finished = [], []

    def gate(**fields) -> str:
        assert not pending, "the device is not idle at the gate"
        return "turn 0 1 2\n"

    turns = Turns(SimpleNamespace(gate=gate, emit_later=lambda event, **fields: None))
    turns.begin("train")

    def finish(values):
        finished.append(values)
        pending.clear()

    clock = StepClock(turns, 5, 2, finish)
    for _ in range(2):
        clock.epoch_begins()
        for number in range(5):
            clock.before(("takes", number))
            pending.append(number)
            clock.after(("gives", number))
        assert not pending
        clock.epoch_ends()
    assert ("takes", 3) in finished and ("gives", 4) in finished


def test_reads_before_and_after_a_turn_are_not_part_of_it(clock) -> None:
    supervisor = Supervisor(clock, ["turn 0\n"], asleep=0.0)

    def read() -> dict:
        clock.now += 5.0
        return {"t": clock.now}

    turns = Turns(supervisor, read)
    turns.begin("train")
    turns.take()
    clock.now += 1.0  # the training
    turns.end()
    assert [turn["card"] for turn in supervisor.turns] == [[{"t": 105.0}, {"t": 111.0}]]
    assert (turns.waited, turns.waited_second) == (10.0, 10.0)
