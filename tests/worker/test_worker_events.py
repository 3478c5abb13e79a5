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
    events = Events(pipe.writer)
    events.emit("epoch", loss=float("nan"), message="two\nlines é")
    events.emit("finished")
    first, second = pipe.received()
    assert first.pop("t") <= second.pop("t")
    assert first == {"event": "epoch", "loss": None, "message": "two\nlines é"}
    assert second == {"event": "finished"}


def test_a_held_event_goes_with_the_next_one_or_after_a_second(pipe, monkeypatch) -> None:
    now = [100.0]
    monkeypatch.setattr("rnnworker.events.time.monotonic", lambda: now[0])
    events, written, write = Events(pipe.writer), [], os.write
    monkeypatch.setattr(os, "write", lambda to, data: written.append(data) or write(to, data))
    events.emit("phase_begin")
    for number in range(1, 5):
        now[0] += 0.4
        events.emit_soon("epoch", epoch=number)
    assert len(written) == 2, "the third write comes after a second and includes the held events"
    events.emit("phase_end")
    assert len(written) == 3
    kept = pipe.received()
    assert [event.get("epoch") for event in kept] == [None, 1, 2, 3, 4, None]
    assert [event["t"] for event in kept[1:5]] == pytest.approx([100.4, 100.8, 101.2, 101.6])


def test_a_held_event_is_written_without_a_next_one(pipe, monkeypatch) -> None:
    monkeypatch.setattr("rnnworker.events.HOLD_SECONDS", 0.05)
    events = Events(pipe.writer)
    events._written += 1000  # so that the last write counts as recent even on a slow host
    events.emit_soon("epoch", epoch=1)
    assert select.select([pipe.reader], [], [], 60)[0] == [pipe.reader]
    assert json.loads(os.read(pipe.reader, 4096))["epoch"] == 1


def test_an_event_larger_than_a_pipe_is_written_whole(pipe) -> None:
    received: list[bytes] = []
    collect = threading.Thread(target=lambda: received.extend(os.fdopen(os.dup(pipe.reader), "rb")))
    collect.start()
    Events(pipe.writer).emit("facts", filler="x" * 300_000)
    pipe.end()
    collect.join(timeout=10)
    assert len(json.loads(received[0])["filler"]) == 300_000


def test_a_handshake_waits_for_its_line(pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller that has ended ends the run; without a controller there is no handshake."""
    monkeypatch.setenv("RNNWORKER_EVENTS", str(pipe.writer))
    from_environment().handshake()
    monkeypatch.setenv("RNNWORKER_HANDSHAKE", "1")
    monkeypatch.setattr("sys.stdin", answers := io.StringIO("first\nsecond\n"))
    from_environment().handshake()
    assert answers.read() == "second\n"
    with pytest.raises(SystemExit, match="controller has ended"):
        from_environment().handshake()
    assert [event["event"] for event in pipe.received()] == ["handshake"] * 2
