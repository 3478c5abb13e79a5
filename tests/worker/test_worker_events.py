from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import select
import threading
import weakref

import numpy
import pytest

from rnnworker import cpu_load
from rnnworker.events import Events, from_environment, to_json_data
from rnnworker.phases import Phases
from rnnworker.turns import Turns


def phases_of(events: Events) -> Phases:
    return Phases(events, Turns(events))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (float("nan"), None),
        (float("-inf"), None),
        (1.5, 1.5),
        (7, 7),
        (2**70, 2**70),
        (True, True),
        (None, None),
        ("text", "text"),
        (numpy.float32(0.5), 0.5),
        (numpy.float64("nan"), None),
        (numpy.float32("inf"), None),
        (numpy.int64(3), 3),
        (numpy.bool_(True), True),
        (numpy.array(2.5), 2.5),
        (numpy.array([1.0, numpy.nan]), [1.0, None]),
        ((1, [2, (3,)]), [1, [2, [3]]]),
        ({1: {"a": numpy.float32(1)}}, {"1": {"a": 1.0}}),
        (ValueError, str(ValueError)),
    ],
)
def test_values_become_json_data(value: object, expected: object) -> None:
    converted = to_json_data(value)
    assert converted == expected
    assert type(converted) is type(expected)
    json.dumps(converted, allow_nan=False)


@pytest.fixture
def pipe():
    reader, writer = os.pipe()
    yield reader, writer
    for descriptor in (reader, writer):
        with contextlib.suppress(OSError):
            os.close(descriptor)


def lines(reader: int, writer: int) -> list[dict]:
    os.close(writer)
    with os.fdopen(os.dup(reader), "rb") as file:
        return [json.loads(line) for line in file.read().splitlines()]


def test_an_event_is_one_line(pipe) -> None:
    reader, writer = pipe
    events = Events(writer)
    events.emit("epoch", loss=float("nan"), message="two\nlines é")
    events.emit("finished")
    first, second = lines(reader, writer)
    assert (first["event"], first["loss"], first["message"]) == ("epoch", None, "two\nlines é")
    assert first["t"] <= second["t"]


def test_a_held_event_goes_with_the_next_one_or_after_a_second(pipe, monkeypatch) -> None:
    reader, writer = pipe
    now = [100.0]
    monkeypatch.setattr("rnnworker.events.time.monotonic", lambda: now[0])
    events, written = Events(writer), []
    write = os.write
    monkeypatch.setattr(
        "rnnworker.events.os.write", lambda to, data: written.append(data) or write(to, data)
    )
    events.emit("phase_begin")
    for number in range(1, 5):
        now[0] += 0.4
        events.emit_soon("epoch", epoch=number)
    assert len(written) == 2, "the third write comes after a second and includes the held events"
    events.emit("phase_end")
    assert len(written) == 3
    received = lines(reader, writer)
    assert [event.get("epoch") for event in received] == [None, 1, 2, 3, 4, None]
    assert [event["t"] for event in received[1:5]] == pytest.approx([100.4, 100.8, 101.2, 101.6])


def test_a_held_event_is_written_without_a_next_one(pipe, monkeypatch) -> None:
    reader, writer = pipe
    monkeypatch.setattr("rnnworker.events.HOLD_SECONDS", 0.05)
    events = Events(writer)
    events._written += 1000  # so that the last write counts as recent even on a slow host
    events.emit_soon("epoch", epoch=1)
    assert select.select([reader], [], [], 60)[0] == [reader]
    assert json.loads(os.read(reader, 4096))["epoch"] == 1


def test_an_event_larger_than_a_pipe_is_written_whole(pipe) -> None:
    reader, writer = pipe
    received: list[bytes] = []
    collect = threading.Thread(target=lambda: received.extend(os.fdopen(os.dup(reader), "rb")))
    collect.start()
    Events(writer).emit("facts", filler="x" * 300_000)
    os.close(writer)
    collect.join(timeout=10)
    assert len(json.loads(received[0])["filler"]) == 300_000


def test_a_handshake_waits_for_its_line(pipe) -> None:
    reader, writer = pipe
    answers = io.StringIO("go\ngo\n")
    Events(writer, answers).handshake()
    assert answers.read() == "go\n"
    assert [event["event"] for event in lines(reader, writer)] == ["handshake"]


def test_a_handshake_with_a_dead_controller_ends_the_run(pipe) -> None:
    with pytest.raises(SystemExit, match="controller has ended"):
        Events(pipe[1], io.StringIO("")).handshake()


def test_there_is_no_handshake_without_answers(pipe) -> None:
    reader, writer = pipe
    Events(writer).handshake()
    assert lines(reader, writer) == []


def test_events_are_configured_by_the_environment(pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = pipe
    monkeypatch.setenv("RNNWORKER_EVENTS", str(writer))
    monkeypatch.setenv("RNNWORKER_HANDSHAKE", "1")
    monkeypatch.setattr("sys.stdin", io.StringIO("go\n"))
    from_environment().handshake()
    monkeypatch.delenv("RNNWORKER_HANDSHAKE")
    from_environment().emit("finished")
    assert [event["event"] for event in lines(reader, writer)] == ["handshake", "finished"]


def test_a_phase_is_reported_with_its_times_and_load(pipe) -> None:
    reader, writer = pipe
    phases = phases_of(Events(writer))
    with phases.phase("train", timed=True) as details:
        details["steps"] = 3
        assert phases.current == "train"
    begin, end = lines(reader, writer)
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
    phases = phases_of(Events(pipe[1]))
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
    reader, writer = pipe
    phases = phases_of(Events(writer))
    with pytest.raises(ZeroDivisionError), phases.phase("build"):
        raise ZeroDivisionError
    assert [event["event"] for event in lines(reader, writer)] == ["phase_begin"]
    assert phases.current == "build"


def snapshot(own: float, processors: dict, faults: int = 0, switched: int = 0) -> dict:
    return {
        "own": own,
        "processors": processors,
        "major_faults": faults,
        "switched_out": switched,
    }


def test_load_of_the_run_and_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 2})
    before = snapshot(1.0, {0: (10.0, 0.5), 1: (20.0, 0.0), 2: (30.0, 1.0)}, 3, 5)
    # Processor 1 does not belong to this run and is not counted.
    after = snapshot(4.0, {0: (13.0, 0.75), 1: (99.0, 9.0), 2: (31.5, 1.5)}, 4, 15)
    assert cpu_load.difference(before, after) == {
        "own": 3.0,
        "busy": 4.5,
        "foreign": 1.5,
        "steal": 0.75,
        "major_faults": 1,
        "switched_out": 10,
    }


def test_load_of_others_is_never_negative(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0})
    load = cpu_load.difference(snapshot(0.0, {0: (1.0, 0.0)}), snapshot(2.005, {0: (3.0, 0.0)}))
    assert load["foreign"] == 0.0


def test_load_without_proc_is_left_out() -> None:
    load = cpu_load.difference(snapshot(0.0, {}), snapshot(2.0, {}))
    assert load["own"] == 2.0
    assert not {"busy", "foreign", "steal"} & set(load)


def test_a_processor_that_comes_online_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    before = snapshot(0.0, {0: (1.0, 0.0)})
    after = snapshot(0.0, {0: (2.0, 0.0), 1: (500.0, 5.0)})
    assert cpu_load.difference(before, after)["busy"] == 1.0


def test_work_of_this_process_counts_as_own() -> None:
    before = cpu_load.snapshot()
    total = 0
    while cpu_load.snapshot()["own"] - before["own"] < 0.05:
        total += sum(range(10_000))
    assert cpu_load.difference(before, cpu_load.snapshot())["own"] >= 0.05
