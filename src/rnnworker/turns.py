"""The turns of one run: when it may work beside the others of its round, and who used the
processors meanwhile. Standard library only, Python 3.6 syntax."""

import collections
import time

from rnnworker import card_look, cpu_load
from rnnworker.phases import second_clock

Grant = collections.namedtuple("Grant", "turn lead steps")
Grant.__doc__ = """What the supervisor grants: the number of the turn (from 0), how many steps are
trained in it that are not timed, and how many are then timed; None: all that are left."""

WHOLE = Grant(0, 0, None)


def grant_of(line):
    """The grant in the supervisor's answer, such as ``turn 5 3 11``; ``turn 0`` grants everything
    that is left."""
    number, *rest = (int(word) for word in line.split()[1:])
    return Grant(number, *rest) if rest else WHOLE._replace(turn=number)


class Turns:
    """Waits for turns and keeps account of a timed phase: `waited` seconds of it passed at the
    gate, or while the card was looked at (`waited_second` by the second clock), and `load` is the
    sum over its turns. `look` is called before and after each turn (`card_look.opened`)."""

    def __init__(self, events, look=card_look.nothing):
        self._events, self._look = events, look
        self.begin(None)

    def begin(self, phase):
        """A phase begins, outside of any turn."""
        self._phase, self._turn = phase, None
        self.waited = self.waited_second = 0.0
        self.load = {}

    def take(self, **told):
        """Ends the turn that it has, and waits for the next one. `told` goes to the supervisor."""
        start, second_start = time.monotonic(), second_clock() or 0.0
        self._end()
        line = self._events.gate(phase=self._phase, **told)
        grant = grant_of(line) if line else WHOLE
        self._seen = self._look()
        self._before, begin = cpu_load.snapshot(), time.monotonic()
        self._turn = {"turn": grant.turn, "lead": grant.lead, "begin": begin}
        self.waited += begin - start
        self.waited_second += (second_clock() or 0.0) - second_start
        return grant

    def timed(self, **measured):
        """Keeps what was timed in this turn: `start`, `seconds` and `steps`."""
        self._turn.update(measured)

    def end(self):
        """Ends the turn, if there is one, and reports it with the next event."""
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
        if self._seen is not None:
            turn["card"] = [self._seen, self._look()]
        self._events.emit_later("turn", phase=self._phase, **dict(turn, **used))
