"""Rounds of real processes: members take turns, and the failure of one does not affect others."""

from __future__ import annotations

import itertools
import os
import random
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path

import pytest

from rnnworker import members, rounds
from rnnworker.members import Member
from rnnworker.rounds import Share, supervise
from tests.running.test_running_supervise import PROTOCOL

GATE = """
import threading
def gate():
    emit("gate")
    line = sys.stdin.readline()
    if not line:
        sys.exit(7)
    return line.split()
def turn(seconds=0.01):
    gate()
    start = time.monotonic()
    time.sleep(seconds)
    emit("turn", start=start, end=time.monotonic())
"""
TURNS = "for _ in range(8): turn()"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs a round of workers, {name: script}; each script extends the protocol."""
    monkeypatch.setattr(members, "GRACE_SECONDS", 0.3)

    def start(scripts: dict[str, str], limits: dict | None = None, **options):
        limits = {"default": 30, **(limits or {})}
        members = []
        for name, script in scripts.items():
            command = [sys.executable, "-S", "-c", PROTOCOL + GATE + textwrap.dedent(script)]
            files = tmp_path / f"{name}.log", tmp_path / f"{name}.events.jsonl"
            members.append(Member(name, command, {"FOLDER": str(tmp_path)}, *files, limits))
        return supervise(members, **options)

    return start


def spans(outcomes) -> list[tuple[float, float, str]]:
    """(start, end, member) of all turns, in chronological order."""
    return sorted(
        (event["start"], event["end"], name)
        for name, outcome in outcomes.items()
        for event in outcome.events
        if event["event"] == "turn"
    )


@pytest.mark.parametrize(("members", "length"), [("a", []), ("ab", ["2", "3"])])
def test_a_single_member_gets_all_steps_in_one_turn(run, members: str, length: list[str]) -> None:
    outcomes = run(dict.fromkeys(members, 'emit("answer", words=gate())'))
    for name, outcome in outcomes.items():
        (words,) = (event["words"] for event in outcome.events if event["event"] == "answer")
        assert words == ["turn", str(outcome.turns[0]["turn"]), *length], name


def test_turns_never_overlap_and_each_cycle_contains_each_member_once(run) -> None:
    outcomes = run({"a": TURNS, "b": "time.sleep(0.3)\n" + TURNS, "c": TURNS, "d": TURNS})
    taken = spans(outcomes)
    assert len(taken) == 32
    assert all(turn[1] <= next_turn[0] for turn, next_turn in itertools.pairwise(taken))
    for cycle in range(8):
        assert {name for _, _, name in taken[4 * cycle : 4 * cycle + 4]} == set("abcd")
    for name, outcome in outcomes.items():
        assert outcome.exit_code == 0
        assert [turn["cycle"] for turn in outcome.turns] == list(range(8))
        own = [number for number, (_, _, member) in enumerate(taken) if member == name]
        assert [turn["turn"] for turn in outcome.turns] == own
        before = [taken[number - 1][2] if number else None for number in own]
        assert [turn["after"] for turn in outcome.turns] == before


@pytest.mark.parametrize(
    ("took", "before", "share", "further"),
    [
        (2.0, 4.0, Share(0.6), 2),  # 6 of 10 s
        (2.0, 4.0, Share(0.75), 5),
        (6.5, 4.0, Share(0.6), 0),
        (2.0, 4.0, Share(0.9, most_seconds=5.0), 1),  # three would take 6 s
        (2.0, 4.0, Share(0.9, most_seconds=1.0), 0),
        (0.0, 0.0, Share(0.5), 0),
    ],
)
def test_trainings_of_a_share(took: float, before: float, share: Share, further: int) -> None:
    assert share.trainings(took, before) == further


@pytest.mark.parametrize("names", ["abe", "a"])
def test_all_members_train_as_often(run, names: str) -> None:
    """The first one that has trained decides; one on its own has no turns to repeat."""
    script = """
    gate()
    time.sleep(0.2)
    emit("phase_end", phase="{}")
    emit("answer", words=handshake())
    emit("answer", words=handshake())
    """
    members = {name: script.format("evaluate" if name == "e" else "train") for name in names}
    # However long the machine makes a training, a share this large needs a further one.
    outcomes = run(members, share=Share(0.9999))
    answers = {}
    for name, outcome in outcomes.items():
        events = [event for event in outcome.events if event["event"] == "answer"]
        first, last = (event["words"].strip() for event in events)
        assert last == "go", "further trainings are no reason for further ones"
        answers[name] = first
    if names == "a":
        assert answers["a"] == "go"
    else:
        assert answers["a"] == answers["b"] != "go" and answers["e"] == "go"
        assert int(answers["a"].split()[1]) >= 1


def test_the_seed_determines_the_order(run) -> None:
    scripts = {"a": TURNS, "b": TURNS, "c": TURNS}
    orders = [[name for *_, name in spans(run(scripts, seed=seed))] for seed in (3, 3, 4)]
    assert orders[0] == orders[1] != orders[2]


@pytest.mark.parametrize("size", range(2, 9))
def test_each_member_follows_every_other_equally_often(size: int) -> None:
    rows = rounds.williams(size)
    assert all(sorted(row) == list(range(size)) for row in rows)
    follows = Counter(pair for row in rows for pair in itertools.pairwise(row))
    assert len(follows) == size * (size - 1)
    assert len(set(follows.values())) == 1


def test_each_square_is_drawn_anew() -> None:
    drawn = list(itertools.islice(rounds.cycles("abcd", random.Random(0)), 8))
    for square in (drawn[:4], drawn[4:]):
        follows = Counter(pair for row in square for pair in itertools.pairwise(row))
        assert set(follows.values()) == {1} and len(follows) == 12
    assert drawn[:4] != drawn[4:]


def test_the_end_of_one_member_does_not_affect_the_others(run) -> None:
    ends = {"left": "sys.exit(3)", "crashed": "os.kill(os.getpid(), 11)"}
    ends["killed"] = "gate(); os.kill(os.getpid(), 9)"
    outcomes = run({"a": TURNS, **{name: f"turn(); turn(); {ends[name]}" for name in ends}})
    exits = {name: outcome.exit_code for name, outcome in outcomes.items()}
    assert exits == {"a": 0, "left": 3, "crashed": -11, "killed": -9}
    counted = Counter(name for *_, name in spans(outcomes))
    assert counted == {"a": 8, "left": 2, "crashed": 2, "killed": 2}


def test_the_limit_of_a_phase_covers_its_turns_and_not_the_waiting_for_them(run) -> None:
    """Each turn is far shorter than the limit; all of a member's turns together may be longer. A
    member that hangs in its turn is ended too, and the others continue."""
    begin = 'emit("phase_begin", phase="train")\n'
    outcomes = run(
        {
            "short": begin + "for _ in range(10): turn(0.01)",
            "long": begin + "for _ in range(30): turn(0.5)",
            "hung": begin + "turn()\ngate()\ntime.sleep(60)",
        },
        limits={"train": 4.0},
    )
    over_limit = {name: outcome.over_limit for name, outcome in outcomes.items()}
    assert over_limit == {"short": None, "long": "train", "hung": "train"}
    assert outcomes["short"].exit_code == 0
    taken = spans(outcomes)
    counted = Counter(name for *_, name in taken)
    assert (counted["short"], counted["hung"]) == (10, 1)
    # With a margin: the machine may be stopped for two seconds in any of the turns.
    assert 2 < sum(end - start for start, end, name in taken if name == "long") < 7
    waited = max(start for start, _, name in taken if name == "short") - taken[0][0]
    assert waited > 4, "longer than the limit"


def test_cpu_use_of_a_waiting_member_is_reported(run) -> None:
    spinning = """
    def spin():
        while True:
            pass
    threading.Thread(target=spin, daemon=True).start()
    for _ in range(4): turn(0.2)
    """
    outcomes = run({"busy": spinning, "idle": "for _ in range(4): turn(0.2)"})
    used = {
        name: sum(turn["asleep"].get(name, 0.0) for turn in outcomes[other].turns)
        for name, other in (("busy", "idle"), ("idle", "busy"))
    }
    assert used["busy"] > 0.05
    assert used["idle"] <= 0.02


def test_all_members_are_ended_at_the_end_of_the_time(run) -> None:
    scripts = {"a": TURNS + "\nturn()\ntime.sleep(60)", "b": "turn()\nturn(60)"}
    begin = time.monotonic()
    outcomes = run(scripts, end=begin + 1.0)
    assert time.monotonic() - begin < 20
    assert [outcome.cut for outcome in outcomes.values()] == [True, True]


@pytest.mark.parametrize("fault", ["command", "events"])
def test_no_process_is_left_if_one_cannot_start(tmp_path: Path, fault: str) -> None:
    descriptors_before = sorted(os.listdir("/proc/self/fd"))
    valid, children_before = [sys.executable, "-c", "input()"], children()
    command = ["/no/such/python"] if fault == "command" else valid
    events = tmp_path / ("no/folder" if fault == "events" else "4")
    first = Member("a", valid, {}, tmp_path / "1", tmp_path / "2", {})
    with pytest.raises(FileNotFoundError):
        supervise([first, Member("b", command, {}, tmp_path / "3", events, {})])
    assert sorted(os.listdir("/proc/self/fd")) == descriptors_before
    assert children() == children_before


def children() -> set[str]:
    """The child processes of this one that are alive or were not waited for."""
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


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
    assert rounds.turn_length(step_seconds, left) == length
