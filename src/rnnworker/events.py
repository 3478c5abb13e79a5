"""Sends events to the controller as JSON lines and waits for it between phases."""

import json
import math
import os
import sys
import threading
import time
import typing

HOLD_SECONDS = 1.0


def to_json_data(value: object) -> object:
    """Returns `value` as JSON data: NumPy scalars become numbers, and numbers that are not finite
    become None (JSON has no NaN)."""
    if isinstance(value, dict):
        return {str(key): to_json_data(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json_data(item) for item in value]
    if isinstance(value, (str, bool, int)) or value is None:
        return value
    if hasattr(value, "tolist") and not isinstance(value, float):
        return to_json_data(value.tolist())
    try:
        number = float(typing.cast(typing.SupportsFloat, value))
    except (TypeError, ValueError):
        return str(value)
    if math.isfinite(number):
        return number
    return None


class Events:
    """Writes events to a file descriptor and waits for answers of the controller. `answers`: text
    stream on which the controller answers each handshake and gate with a line; None if there is no
    controller."""

    def __init__(self, descriptor: int, answers: typing.Optional[typing.TextIO] = None) -> None:
        self._descriptor = descriptor
        self._answers = answers
        self._held = b""
        self._written = time.monotonic()
        self._late = None  # type: typing.Optional[threading.Timer]
        self._lock = threading.Lock()

    def emit(self, event: str, **fields: object) -> None:
        """Writes an event at once, with those that were held."""
        self.emit_later(event, **fields)
        self._write()

    def emit_soon(self, event: str, **fields: object) -> None:
        """As `emit`, but writes at most once per second, because each write wakes the reader up
        next to timed work. A held event is written with the next event, or after two seconds if
        there is none. A crash in native code loses it."""
        self.emit_later(event, **fields)
        if time.monotonic() - self._written >= HOLD_SECONDS:
            self._write()
        elif self._late is None:
            self._late = threading.Timer(2 * HOLD_SECONDS, self._write)
            self._late.daemon = True
            self._late.start()

    def emit_later(self, event: str, **fields: object) -> None:
        """Holds an event until the next one is written."""
        fields["event"] = event
        fields["t"] = time.monotonic()
        line = json.dumps(to_json_data(fields)) + "\n"
        with self._lock:
            self._held += line.encode("utf-8")

    def _write(self) -> None:
        with self._lock:
            if self._late is not None:
                self._late.cancel()
                self._late = None
            while self._held:
                written = os.write(self._descriptor, self._held)
                self._held = self._held[written:]
            self._written = time.monotonic()

    def handshake(self) -> typing.Optional[str]:
        """Waits until the controller has finished its work between phases. Returns its answer;
        None if there is no controller."""
        return self._ask("handshake")

    def gate(self, **fields: object) -> typing.Optional[str]:
        """Waits until the supervisor gives this process a turn. Returns the supervisor's answer;
        None if there is no supervisor."""
        return self._ask("gate", **fields)

    def _ask(self, event: str, **fields: object) -> typing.Optional[str]:
        """Writes an event and returns the answer; ends this process if nobody is left to answer."""
        if self._answers is None:
            return None
        self.emit(event, **fields)
        answer = self._answers.readline()
        if not answer:
            sys.exit("The controller has ended, so the results of this run would be lost.")
        return answer


def from_environment() -> Events:
    """Returns the `Events` that the environment variables of this process describe."""
    descriptor = int(os.environ.get("RNNWORKER_EVENTS", "1"))
    answers = None
    if os.environ.get("RNNWORKER_HANDSHAKE") == "1":
        answers = sys.stdin
    return Events(descriptor, answers)
