"""Phases of a run: what was timed, from when to when, and who used the processors."""

import contextlib
import time

from rnnworker import load
from rnnworker.settled import settle


class Phases:
    """Opens and closes phases and reports them; one at a time, in order."""

    def __init__(self, events):
        self._events = events
        self.current = None

    @contextlib.contextmanager
    def phase(self, name, timed=False):
        """One phase. Yields a dict for details that belong to it. Between phases the
        conductor may work; inside a timed one nothing of ours runs beside it."""
        details = {}
        self.current = name
        self._events.emit("phase_begin", phase=name, timed=timed)
        if timed:
            settle()
        before = load.snapshot()
        start, second_start = time.monotonic(), second_clock()
        yield details
        end, second_end = time.monotonic(), second_clock()
        details["load"] = load.difference(before, load.snapshot())
        if timed and second_start is not None:
            details["second_clock"] = second_end - second_start
        self._events.emit(
            "phase_end", phase=name, start=start, end=end, timed=timed, details=details
        )
        self._events.handshake()


def second_clock():
    """Seconds of the processor's own counter, which nobody sets or slews, as NTP does with the
    monotonic clock (by up to 8 % in chrony, ``maxslewrate``); None where there is none."""
    if not hasattr(time, "CLOCK_MONOTONIC_RAW"):
        return None
    return time.clock_gettime(time.CLOCK_MONOTONIC_RAW)
