"""Decides which training steps are timed, and computes the time of an epoch.

Standard library only. A run that trains in turns sleeps before each turn, so the first steps of a
turn are slower than later ones (caches, page tables). These lead-in steps are not timed. Timed are
whole steps, from the beginning of one step to the beginning of another, and separately the rim of
an epoch: the time before its first step and after its last one. The time of an epoch is its rim
plus its number of steps times their mean time. If a single turn covers the whole training, every
step is timed, and the time of an epoch is the elapsed time.
"""

import time


class StepClock:
    """Times steps and epochs; the training loop calls a method at each beginning and end.

    **Arguments:**

    - `turns`: the run's `Turns`.
    - `steps`: number of steps per epoch.
    - `epochs`: number of epochs.
    - `finish`: called with the inputs or outputs of a step before the clock is read within an
      epoch; returns when the device has finished all its work.
    """

    def __init__(self, turns, steps, epochs, finish=lambda values: None):
        self._turns, self._steps, self._finish = turns, steps, finish
        self._left = steps * epochs  # steps left in the training
        self._lead = 0  # lead-in steps left in this turn
        self._wanted = None  # number of steps to be timed in this turn; None: all
        self._ends = True  # whether to request a turn before the next step
        self._slice = None  # measurement of this turn: start, seconds, steps
        self._mark = None  # time at which the current stretch of timed steps began, or None
        self._since = 0  # steps since then

    def epoch_begins(self, began=None):
        """Begins an epoch; `began` is the time at which its work began, if earlier than now."""
        if self._slice is None:
            self._take()
            self.first_wait = self._turns.waited
            began = began and began + self.first_wait
        self.start = time.monotonic() if began is None else began
        self._waited, self._done = self._turns.waited, 0
        self._rim = self._seconds = 0.0
        self._timed = 0

    def before(self, values=None):
        """To be called right before a step."""
        if not self._done:
            self._rim += time.monotonic() - self.start
        if self._mark is not None and self._is_full():
            self._stop(values)
            self._ends = True
        if self._ends:
            self._take()
        if self._mark is None and self._lead <= 0:
            self._finish(values)
            self._mark, self._since = time.monotonic(), 0
            if self._slice["start"] is None:
                self._slice["start"] = self._mark

    def after(self, values=None):
        """To be called right after a step."""
        self._done += 1
        self._left -= 1
        if self._mark is None:
            self._lead -= 1
        else:
            self._since += 1
        if self._done == self._steps:
            if self._mark is None:
                self._finish(values)
            else:
                self._stop(values)
                self._ends = self._is_full()
            self._last = time.monotonic()

    def epoch_ends(self):
        """Returns the epoch's ``start``, its ``seconds`` (None if less than a quarter of its steps
        were timed), the seconds that it ``took`` including untimed steps but not the waiting for
        turns, and its ``rim`` in seconds."""
        now = time.monotonic()
        rim = self._rim + now - self._last
        seconds = None
        if 4 * self._timed >= self._steps:
            seconds = rim + self._seconds * self._steps / self._timed
        took = now - self.start - (self._turns.waited - self._waited)
        return {"start": self.start, "seconds": seconds, "took": took, "rim": rim}

    def ends(self):
        """To be called after the last epoch."""
        self._report()

    def _is_full(self):
        return self._wanted is not None and self._slice["steps"] + self._since >= self._wanted

    def _stop(self, values):
        self._finish(values)
        elapsed = time.monotonic() - self._mark
        self._seconds += elapsed
        self._timed += self._since
        self._slice["seconds"] += elapsed
        self._slice["steps"] += self._since
        self._mark, self._since = None, 0

    def _take(self):
        self._report()
        grant = self._turns.take(left=self._left)
        self._lead, self._wanted = grant.lead, grant.steps
        self._slice = {"start": None, "seconds": 0.0, "steps": 0}
        self._ends = False

    def _report(self):
        if self._slice is not None:
            self._turns.timed(full=self._wanted is None or self._ends, **self._slice)
            self._slice = None
