from __future__ import annotations

import io
import json
import os
import select
import threading

import numpy
import pytest

from rnnworker.events import Events, from_environment, to_json_data


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


def test_an_event_is_one_line(pipe) -> None:
    _, writer, received = pipe
    events = Events(writer)
    events.emit("epoch", loss=float("nan"), message="two\nlines é")
    events.emit("finished")
    first, second = received()
    assert (first["event"], first["loss"], first["message"]) == ("epoch", None, "two\nlines é")
    assert first["t"] <= second["t"]


def test_a_held_event_goes_with_the_next_one_or_after_a_second(pipe, monkeypatch) -> None:
    _, writer, received = pipe
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
    kept = received()
    assert [event.get("epoch") for event in kept] == [None, 1, 2, 3, 4, None]
    assert [event["t"] for event in kept[1:5]] == pytest.approx([100.4, 100.8, 101.2, 101.6])


def test_a_held_event_is_written_without_a_next_one(pipe, monkeypatch) -> None:
    reader, writer, _ = pipe
    monkeypatch.setattr("rnnworker.events.HOLD_SECONDS", 0.05)
    events = Events(writer)
    events._written += 1000  # so that the last write counts as recent even on a slow host
    events.emit_soon("epoch", epoch=1)
    assert select.select([reader], [], [], 60)[0] == [reader]
    assert json.loads(os.read(reader, 4096))["epoch"] == 1


def test_an_event_larger_than_a_pipe_is_written_whole(pipe) -> None:
    reader, writer, _ = pipe
    received: list[bytes] = []
    collect = threading.Thread(target=lambda: received.extend(os.fdopen(os.dup(reader), "rb")))
    collect.start()
    Events(writer).emit("facts", filler="x" * 300_000)
    os.close(writer)
    collect.join(timeout=10)
    assert len(json.loads(received[0])["filler"]) == 300_000


def test_a_handshake_waits_for_its_line(pipe) -> None:
    _, writer, received = pipe
    answers = io.StringIO("go\ngo\n")
    Events(writer, answers).handshake()
    assert answers.read() == "go\n"
    assert [event["event"] for event in received()] == ["handshake"]


def test_a_handshake_with_a_dead_controller_ends_the_run_and_without_answers_there_is_none(
    pipe,
) -> None:
    _, writer, received = pipe
    Events(writer).handshake()
    with pytest.raises(SystemExit, match="controller has ended"):
        Events(writer, io.StringIO("")).handshake()
    assert [event["event"] for event in received()] == ["handshake"]


def test_events_are_configured_by_the_environment(pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    _, writer, received = pipe
    monkeypatch.setenv("RNNWORKER_EVENTS", str(writer))
    monkeypatch.setenv("RNNWORKER_HANDSHAKE", "1")
    monkeypatch.setattr("sys.stdin", io.StringIO("go\n"))
    from_environment().handshake()
    monkeypatch.delenv("RNNWORKER_HANDSHAKE")
    from_environment().emit("finished")
    assert [event["event"] for event in received()] == ["handshake", "finished"]
