"""Phases, turns, and which training steps are timed in turns, tested with a fake clock."""

from __future__ import annotations

import gc
import itertools
import weakref

import pytest

from rnnworker.events import Events
from rnnworker.turns import Phases, StepClock, Turns


def phases_of(writer: int) -> Phases:
    events = Events(writer)
    return Phases(events, Turns(events))


def test_a_phase_is_reported_with_its_times_and_load(pipe) -> None:
    _, writer, received = pipe
    phases = phases_of(writer)
    with phases.phase("train", timed=True) as details:
        details["steps"] = 3
        assert phases.current == "train"
    begin, end = received()
    assert (begin["event"], begin["phase"], begin["timed"]) == ("phase_begin", "train", True)
    assert (end["event"], end["phase"], end["timed"]) == ("phase_end", "train", True)
    assert begin["t"] <= end["start"] <= end["end"] <= end["t"]
    assert end["details"]["steps"] == 3
    assert {"own", "foreign", "steal"} <= set(end["details"]["load"])


class Knot:
    """A reference cycle, which only the garbage collector frees."""

    def __init__(self) -> None:
        self.itself = self


def test_garbage_is_collected_before_a_timed_phase(pipe) -> None:
    phases = phases_of(pipe[1])
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


def test_a_phase_that_fails_has_no_end(pipe) -> None:
    _, writer, received = pipe
    phases = phases_of(writer)
    with pytest.raises(ZeroDivisionError), phases.phase("build"):
        raise ZeroDivisionError
    assert [event["event"] for event in received()] == ["phase_begin"]
    assert phases.current == "build"


class Clock:
    """A clock that only the test advances."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr("rnnworker.turns.time.monotonic", lambda: self.now)
        monkeypatch.setattr("rnnworker.turns.second_clock", lambda: self.now)


class Supervisor:
    """Answers each gate with the next of `answers`, after `asleep` seconds."""

    def __init__(self, clock: Clock, answers, asleep: float = 7.0) -> None:
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
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


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


def test_in_a_single_turn_every_step_is_timed(clock) -> None:
    supervisor = Supervisor(clock, ["turn 0\n"])
    epochs, turns = trained(clock, supervisor)
    for epoch in epochs:
        assert epoch["seconds"] == pytest.approx(0.104)
        assert epoch["took"] == pytest.approx(0.104)
    (turn,) = supervisor.turns
    assert (turn["steps"], turn["full"], turn["phase"]) == (40, True, "train")
    assert turn["seconds"] == pytest.approx(0.4)
    assert turns.waited == pytest.approx(7.0)


def test_in_turns_neither_cold_steps_nor_waiting_are_timed(clock) -> None:
    answers = (f"turn {number} 3 4\n" for number in itertools.count(0, 2))
    supervisor = Supervisor(clock, answers)
    epochs, turns = trained(clock, supervisor, cold=0.05)
    assert len(supervisor.requests) == 6  # 40 steps in turns of 7
    assert [request["left"] for request in supervisor.requests] == [40, 33, 26, 19, 12, 5]
    assert turns.waited == pytest.approx(6 * 7.0)
    for epoch in epochs:
        assert epoch["seconds"] == pytest.approx(0.104)
    assert sum(epoch["took"] for epoch in epochs) == pytest.approx(4 * 0.104 + 5 * 0.05)
    assert [turn["turn"] for turn in supervisor.turns] == [0, 2, 4, 6, 8, 10]
    assert [turn["steps"] for turn in supervisor.turns] == [4, 4, 4, 4, 4, 2]
    assert [turn["full"] for turn in supervisor.turns] == [True] * 5 + [False]
    for turn in supervisor.turns:
        assert turn["seconds"] == pytest.approx(0.01 * turn["steps"])


def test_a_turn_across_epochs_excludes_rim_and_validation(clock) -> None:
    supervisor = Supervisor(clock, (f"turn {number} 3 12\n" for number in range(9)))
    trained(clock, supervisor, rim=0.5)
    assert [turn["steps"] for turn in supervisor.turns] == [12, 12, 7]
    assert all(t["seconds"] == pytest.approx(0.01 * t["steps"]) for t in supervisor.turns)


def test_an_epoch_with_too_few_timed_steps_has_no_seconds(clock) -> None:
    supervisor = Supervisor(clock, ["turn 0 9 1\n", *(f"turn {i} 38 1\n" for i in range(9))])
    epochs, _ = trained(clock, supervisor)
    assert [epoch["seconds"] for epoch in epochs] == [None] * 4
    assert all(epoch["rim"] == pytest.approx(0.004) for epoch in epochs)


def test_a_turn_complete_at_the_end_of_an_epoch_ends_after_validation(clock) -> None:
    supervisor = Supervisor(clock, (f"turn {number} 3 7\n" for number in range(9)))
    epochs, turns = trained(clock, supervisor)
    assert [turn["steps"] for turn in supervisor.turns] == [7] * 4
    assert turns.waited == pytest.approx(4 * 7.0)
    assert [epoch["seconds"] for epoch in epochs] == [pytest.approx(0.104)] * 4


def test_the_device_has_finished_whenever_the_clock_is_read() -> None:
    pending, finished = [], []

    class Events:
        def gate(self, **fields):
            assert not pending, "the device is not idle at the gate"
            return "turn 0 1 2\n"

        def emit_later(self, event, **fields):
            pass

    turns = Turns(Events())
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
