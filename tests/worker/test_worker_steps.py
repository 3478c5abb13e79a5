"""Which steps of a training are timed in turns, by clocks that nothing else moves."""

from __future__ import annotations

import itertools

import pytest

from rnnworker import cpu_load, turn_length
from rnnworker.step_clock import StepClock
from rnnworker.turns import WHOLE, Turns, grant_of


class Clock:
    """Seconds that pass only where a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr("rnnworker.step_clock.time.monotonic", lambda: self.now)
        monkeypatch.setattr("rnnworker.turns.second_clock", lambda: self.now)


class Supervisor:
    """Answers each gate with the next of `answers`, after `asleep` seconds."""

    def __init__(self, clock: Clock, answers, asleep: float = 7.0) -> None:
        self.clock, self.answers, self.asleep = clock, iter(answers), asleep
        self.turns: list[dict] = []
        self.told: list[dict] = []

    def gate(self, **told):
        self.told.append(told)
        self.clock.now += self.asleep
        return next(self.answers)

    def emit_later(self, event, **fields):
        assert event == "turn"
        self.turns.append(fields)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def trained(clock, supervisor, *, epochs=4, steps=10, step=0.01, cold=0.0, rim=0.002, validation=1):
    """Epochs of `steps` steps of `step` seconds, of which the first of each turn takes `cold` more,
    with `rim` seconds before the first and after the last one."""
    turns = Turns(supervisor)
    turns.begin("train")
    steps_clock = StepClock(turns, steps, epochs)
    told = []
    for _ in range(epochs):
        steps_clock.epoch_begins()
        clock.now += rim
        for _ in range(steps):
            given = len(supervisor.told)
            steps_clock.before()
            clock.now += step + (cold if len(supervisor.told) > given else 0.0)
            steps_clock.after()
        clock.now += rim
        told.append(steps_clock.epoch_ends())
        clock.now += validation
    steps_clock.ends()
    turns.end()
    return told, turns


def test_alone_every_step_is_timed_and_an_epoch_is_what_passed(clock) -> None:
    supervisor = Supervisor(clock, ["turn 0\n"])
    told, turns = trained(clock, supervisor)
    for epoch in told:
        assert epoch["seconds"] == pytest.approx(0.104)
        assert epoch["took"] == pytest.approx(0.104)
    (turn,) = supervisor.turns
    assert (turn["steps"], turn["full"], turn["phase"]) == (40, True, "train")
    assert turn["seconds"] == pytest.approx(0.4)
    assert turns.waited == pytest.approx(7.0)


def test_in_turns_cold_steps_are_not_timed_and_waiting_is_nobodys(clock) -> None:
    answers = (f"turn {number} 3 4\n" for number in itertools.count(0, 2))
    supervisor = Supervisor(clock, answers)
    told, turns = trained(clock, supervisor, cold=0.05)
    assert len(supervisor.told) == 6  # 40 steps in turns of 7
    assert [one["left"] for one in supervisor.told] == [40, 33, 26, 19, 12, 5]
    assert turns.waited == pytest.approx(6 * 7.0)
    for epoch in told:
        assert epoch["seconds"] == pytest.approx(0.104)
    assert sum(epoch["took"] for epoch in told) == pytest.approx(4 * 0.104 + 5 * 0.05)
    assert [turn["turn"] for turn in supervisor.turns] == [0, 2, 4, 6, 8, 10]
    assert [turn["steps"] for turn in supervisor.turns] == [4, 4, 4, 4, 4, 2]
    assert [turn["full"] for turn in supervisor.turns] == [True] * 5 + [False]
    for turn in supervisor.turns:
        assert turn["seconds"] == pytest.approx(0.01 * turn["steps"])


def test_what_is_timed_goes_on_after_a_validation(clock) -> None:
    """Turns that end in another epoch than they began have neither its rim nor the validation."""
    supervisor = Supervisor(clock, (f"turn {number} 3 12\n" for number in range(9)))
    trained(clock, supervisor, rim=0.5)
    assert [turn["steps"] for turn in supervisor.turns] == [12, 12, 7]
    assert all(t["seconds"] == pytest.approx(0.01 * t["steps"]) for t in supervisor.turns)


def test_an_epoch_of_which_too_little_was_timed_says_so(clock) -> None:
    supervisor = Supervisor(clock, ["turn 0 9 1\n", *(f"turn {i} 38 1\n" for i in range(9))])
    told, _ = trained(clock, supervisor)
    assert [epoch["seconds"] for epoch in told] == [None] * 4
    assert all(epoch["rim"] == pytest.approx(0.004) for epoch in told)


def test_a_turn_full_at_an_epochs_end_ends_after_its_validation(clock) -> None:
    supervisor = Supervisor(clock, (f"turn {number} 3 7\n" for number in range(9)))
    told, turns = trained(clock, supervisor)
    assert [turn["steps"] for turn in supervisor.turns] == [7] * 4
    assert turns.waited == pytest.approx(4 * 7.0)
    assert [epoch["seconds"] for epoch in told] == [pytest.approx(0.104)] * 4


def test_the_device_has_finished_wherever_the_clock_is_read() -> None:
    pending, finished = [], []

    class Answers:
        def gate(self, **told):
            assert not pending, "at the gate the device is idle"
            return "turn 0 1 2\n"

        def emit_later(self, event, **fields):
            pass

    turns = Turns(Answers())
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


def test_grants_are_read_as_they_are_said() -> None:
    assert grant_of("turn 3\n") == WHOLE._replace(turn=3)
    for length in (turn_length.Length(3, 11), None):
        grant = grant_of("turn 5" + turn_length.words(False, length) + "\n")
        assert grant == (5, *(length or turn_length.FIRST))
    assert turn_length.words(True, turn_length.Length(3, 11)) == ""


@pytest.mark.parametrize(
    ("step_seconds", "left", "length"),
    [
        ([0.0032, 0.001], 1000, (10, 35)),  # by the fastest
        ([0.004], 1000, (3, 9)),
        ([0.5], 1000, (1, 4)),  # 200 turns at most
        ([0.5], 100, (1, 1)),
        ([0.0], 10, (10_000_000, 35_000_000)),
    ],
)
def test_turns_are_as_long_as_the_fastest_needs(step_seconds, left, length) -> None:
    assert turn_length.length(step_seconds, left) == length


def test_ticks_that_were_counted_in_the_next_turn_are_not_foreign() -> None:
    account: dict = {}
    for busy in (0.01, 0.03) * 50:  # ticks come late
        used = {"own": 0.02, "busy": busy, "foreign": max(0.0, busy - 0.02), "major_faults": 1}
        account = cpu_load.total(account, used)
    assert account["foreign"] == pytest.approx(0.0)
    assert account["major_faults"] == 100
    assert cpu_load.total({}, {"own": 1.0, "busy": 1.5})["foreign"] == pytest.approx(0.5)
