"""Phases of a run: what was timed, from when to when, and who used the processors."""

import contextlib
import time

from rnnworker import load


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
        before = load.snapshot()
        start = time.monotonic()
        yield details
        end = time.monotonic()
        details["load"] = load.difference(before, load.snapshot())
        self._events.emit(
            "phase_end", phase=name, start=start, end=end, timed=timed, details=details
        )
        self._events.handshake()
