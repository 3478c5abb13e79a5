"""Which steps of a training are timed, and what an epoch takes. Standard library only.

A run that trains in turns has been asleep before each of them, so its first steps there are slower
than later ones (caches, page tables). They train and are not timed. What is timed is whole steps,
from the begin of one to the begin of another, and apart from them what an epoch needs before its
first step and after its last one. An epoch's time is that and its number of steps times their mean.
Where a turn is all of the training, every step is timed, and an epoch's time is what passed.
"""

import time


class StepClock:
    """Is told of each epoch and each step by whoever trains.

    **Arguments:**

    - `turns`: the run's `Turns`.
    - `steps`: of an epoch.
    - `epochs`: of the training.
    - `finish`: called with what a step takes or gives before the clock is read in the midst of an
      epoch; returns when the device has done all that was asked of it.
    """

    def __init__(self, turns, steps, epochs, finish=lambda values: None):
        self._turns, self._steps, self._finish = turns, steps, finish
        self._left = steps * epochs  # of the training
        self._lead = 0  # steps of the turn that are still not timed
        self._wanted = None  # steps of the turn to be timed; None: all
        self._ends = True  # whether a turn is to be asked for before the next step
        self._slice = None  # what was timed in this turn: start, seconds, steps
        self._mark = None  # when the present stretch of timed steps began, None: none is timed
        self._since = 0  # steps since

    def epoch_begins(self, began=None):
        """`began`: when what belongs to the epoch began, where that was before now."""
        if self._slice is None:
            self._take()
            self.first_wait = self._turns.waited
            began = began and began + self.first_wait
        self.start = time.monotonic() if began is None else began
        self._waited, self._done = self._turns.waited, 0
        self._rim = self._seconds = 0.0
        self._timed = 0

    def before(self, values=None):
        """Right before a step."""
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
        """Right after a step."""
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
        """The epoch's ``start``, its ``seconds`` (None where too few of its steps were timed to
        tell), the seconds that it `took`, untimed steps with it but without what passed at the
        gate, and its `rim`, the seconds that are no step's."""
        now = time.monotonic()
        rim = self._rim + now - self._last
        seconds = None
        if 4 * self._timed >= self._steps:
            seconds = rim + self._seconds * self._steps / self._timed
        took = now - self.start - (self._turns.waited - self._waited)
        return {"start": self.start, "seconds": seconds, "took": took, "rim": rim}

    def ends(self):
        """After the last epoch."""
        self._report()

    def _is_full(self):
        return self._wanted is not None and self._slice["steps"] + self._since >= self._wanted

    def _stop(self, values):
        self._finish(values)
        passed = time.monotonic() - self._mark
        self._seconds += passed
        self._timed += self._since
        self._slice["seconds"] += passed
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
