"""Reports the phases of a run: their times and the CPU load during each."""

import contextlib
import time

from rnnworker import cpu_load
from rnnworker.garbage import collect_and_freeze


class Phases:
    """Opens, closes and reports phases, one after another."""

    def __init__(self, events, turns):
        self._events, self._turns = events, turns
        self.current = None

    @contextlib.contextmanager
    def phase(self, name, timed=False):
        """Context of one phase; yields a dict for its details. A timed phase works in turns, and
        the controller works only between turns and phases. The detail `second_clock` excludes the
        time between turns (`waited`)."""
        details = {}
        self.current = name
        self._events.emit("phase_begin", phase=name, timed=timed)
        if timed:
            collect_and_freeze()
            self._turns.begin(name)
        before = cpu_load.snapshot()
        start, second_start = time.monotonic(), second_clock()
        yield details
        if timed:
            self._turns.end()
        end, second_end = time.monotonic(), second_clock()
        used = self._turns.load if timed else {}
        details["load"] = used or cpu_load.difference(before, cpu_load.snapshot())
        if timed:
            details["waited"] = self._turns.waited
            if second_start is not None:
                details["second_clock"] = second_end - second_start - self._turns.waited_second
        self._events.emit(
            "phase_end", phase=name, start=start, end=end, timed=timed, details=details
        )
        self._events.handshake()


def second_clock():
    """Returns seconds of the raw hardware clock, which is not slewed as NTP does with the monotonic
    clock (by up to 8 % in chrony, ``maxslewrate``); None if there is none."""
    if not hasattr(time, "CLOCK_MONOTONIC_RAW"):
        return None
    return time.clock_gettime(time.CLOCK_MONOTONIC_RAW)
