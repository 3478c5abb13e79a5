"""The turns of one run, with the CPU load of each. Standard library only, Python 3.6 syntax."""

import collections
import time

from rnnworker import card_look, cpu_load, random_reads
from rnnworker.phases import second_clock

Grant = collections.namedtuple("Grant", "turn lead steps")
Grant.__doc__ = """A turn granted by the supervisor: its index (from 0), the number of untimed
lead-in steps, and the number of timed steps after them (None: all that are left)."""

WHOLE = Grant(0, 0, None)


def grant_of(line):
    """Parses the supervisor's answer, such as ``turn 5 3 11``; ``turn 0`` grants all steps that are
    left."""
    number, *rest = (int(field) for field in line.split()[1:])
    return Grant(number, *rest) if rest else WHOLE._replace(turn=number)


class Turns:
    """Waits for turns and accounts for a timed phase: `waited` are the seconds spent at the gate or
    reading the GPU's state (`waited_second`: by the second clock), `load` is the CPU load over its
    turns. `read_card` (`card_look.card_reader`) and `reads` (`random_reads.timer`) are called
    before and after each turn."""

    def __init__(self, events, read_card=card_look.no_card, reads=lambda: None):
        self._events, self._read_card, self._reads = events, read_card, reads
        self.begin(None)

    def begin(self, phase):
        """Begins a phase, outside of any turn."""
        self._phase, self._turn = phase, None
        self.waited = self.waited_second = 0.0
        self.load = {}

    def take(self, **fields):
        """Ends the current turn and waits for the next one; `fields` are sent to the supervisor."""
        start, second_start = time.monotonic(), second_clock() or 0.0
        self._end()
        line = self._events.gate(phase=self._phase, **fields)
        grant = grant_of(line) if line else WHOLE
        self._card_before, self._reads_before = self._read_card(), self._reads()
        self._before, begin = cpu_load.snapshot(), time.monotonic()
        self._turn = {"turn": grant.turn, "lead": grant.lead, "begin": begin}
        self.waited += begin - start
        self.waited_second += (second_clock() or 0.0) - second_start
        return grant

    def timed(self, **measured):
        """Adds the measurement of this turn: `start`, `seconds` and `steps`."""
        self._turn.update(measured)

    def end(self):
        """Ends the current turn, if any, and reports it with the next event."""
        start, second_start = time.monotonic(), second_clock() or 0.0
        self._end()
        self.waited += time.monotonic() - start
        self.waited_second += (second_clock() or 0.0) - second_start

    def _end(self):
        if self._turn is None:
            return
        turn, self._turn = self._turn, None
        used = cpu_load.difference(self._before, cpu_load.snapshot())
        self.load = cpu_load.total(self.load, used)
        if self._card_before is not None:
            turn["card"] = [self._card_before, self._read_card()]
        turn["cores"] = len(cpu_load.processors()) or None
        turn["reads"] = random_reads.mean(self._reads_before, self._reads())
        self._events.emit_later("turn", phase=self._phase, **dict(turn, **used))
