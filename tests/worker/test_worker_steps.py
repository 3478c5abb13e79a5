"""Which training steps are timed in turns, tested with a fake clock."""

from __future__ import annotations

import itertools

import pytest

from rnnworker import cpu_load, turn_length
from rnnworker.step_clock import StepClock
from rnnworker.turns import WHOLE, Turns, grant_of


class Clock:
    """A clock that only the test advances."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr("rnnworker.step_clock.time.monotonic", lambda: self.now)
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


def test_grants_survive_a_round_trip() -> None:
    assert grant_of("turn 3\n") == WHOLE._replace(turn=3)
    for length in (turn_length.Length(3, 11), None):
        grant = grant_of("turn 5" + turn_length.text(False, length) + "\n")
        assert grant == (5, *(length or turn_length.FIRST))
    assert turn_length.text(True, turn_length.Length(3, 11)) == ""


@pytest.mark.parametrize(
    ("step_seconds", "left", "length"),
    [
        ([0.0032, 0.001], 1000, (10, 35)),  # the fastest decides
        ([0.004], 1000, (3, 9)),
        ([0.5], 1000, (1, 4)),  # 200 turns at most
        ([0.5], 100, (1, 1)),
        ([0.0], 10, (10_000_000, 35_000_000)),
    ],
)
def test_turn_length_depends_on_the_fastest_member(step_seconds, left, length) -> None:
    assert turn_length.length(step_seconds, left) == length


def test_ticks_counted_in_the_next_turn_are_not_foreign() -> None:
    total: dict = {}
    for busy in (0.01, 0.03) * 50:  # ticks are counted late
        used = {"own": 0.02, "busy": busy, "foreign": max(0.0, busy - 0.02), "major_faults": 1}
        total = cpu_load.total(total, used)
    assert total["foreign"] == pytest.approx(0.0)
    assert total["major_faults"] == 100
    assert cpu_load.total({}, {"own": 1.0, "busy": 1.5})["foreign"] == pytest.approx(0.5)
