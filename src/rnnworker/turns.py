"""Times a run: its phases, its turns within a timed phase, and the training steps of a turn.

A run that trains in turns sleeps before each turn, so the first steps of a turn are slower than
later ones (caches, page tables). These lead-in steps are not timed. Timed are whole steps, from the
beginning of one step to the beginning of another, and separately the rim of an epoch: the time
before its first step and after its last one. The time of an epoch is its rim plus its number of
steps times their mean time. If a single turn covers the whole training, every step is timed, and
the time of an epoch is the elapsed time.
"""

import contextlib
import gc
import os
import time
from typing import Any, Callable, Iterator, NamedTuple, Optional

from rnnworker import cards, processors
from rnnworker.events import Events
from rnnworker.json_types import Json


class Grant(NamedTuple):
    """A turn granted by the supervisor: its index (from 0), the number of untimed lead-in steps,
    and the number of timed steps after them (None: all that are left)."""

    turn: int
    lead: int
    steps: Optional[int]


WHOLE = Grant(0, 0, None)


def grant_of(line: str) -> Grant:
    """Parses the supervisor's answer, such as ``turn 5 3 11``; ``turn 0`` grants all steps that are
    left."""
    numbers = [int(field) for field in line.split()[1:]]
    if len(numbers) == 1:
        return WHOLE._replace(turn=numbers[0])
    return Grant(*numbers)


def second_clock() -> float:
    """Returns seconds of the raw hardware clock, which is not slewed as NTP does with the monotonic
    clock (by up to 8 % in chrony, ``maxslewrate``)."""
    return time.clock_gettime(time.CLOCK_MONOTONIC_RAW)


def collect_and_freeze() -> None:
    """Collects garbage and, from Python 3.7 on, freezes the remaining objects. Timed phases then
    contain no collection of earlier garbage, and later collections skip a framework's modules."""
    gc.collect()
    if hasattr(gc, "freeze"):
        gc.freeze()


def trainings_of(answer: Optional[str]) -> int:
    """Parses the supervisor's answer to the end of a training: ``again 3`` asks for three further
    ones, any other answer for none."""
    words = (answer or "").split()
    if words[:1] == ["again"]:
        return int(words[1])
    return 0


class Phases:
    """Opens, closes and reports the phases of a run, one after another. `answer`: the supervisor's,
    to the end of the last one."""

    def __init__(self, events: Events, turns: "Turns") -> None:
        self._events = events
        self._turns = turns
        self.current: Optional[str] = None
        self.answer: Optional[str] = None

    @contextlib.contextmanager
    def phase(self, name: str, timed: bool = False, **facts: object) -> Iterator[Json]:
        """Context of one phase; yields a dict for its details, which begins with the `facts` that
        its beginning reports. A timed phase works in turns, and the controller works only between
        turns and phases. The detail `second_clock` excludes the time between turns (`waited`)."""
        details = dict(facts)
        self.current = name
        self._events.emit("phase_begin", phase=name, timed=timed, **facts)
        if timed:
            collect_and_freeze()
            self._turns.begin(name)

        before = processors.load_so_far()
        start = time.monotonic()
        second_start = second_clock()

        yield details
        if timed:
            self._turns.end()
        end = time.monotonic()
        second_end = second_clock()

        details["load"] = processors.load_between(before, processors.load_so_far())
        if timed:
            details["load"] = self._turns.load or details["load"]
            details["waited"] = self._turns.waited
            details["second_clock"] = second_end - second_start - self._turns.waited_second

        self._events.emit(
            "phase_end",
            phase=name,
            start=start,
            end=end,
            timed=timed,
            details=details,
        )
        self.answer = self._events.handshake()


class Turns:
    """Waits for turns and accounts for a timed phase: `waited` are the seconds spent at the gate or
    reading the GPU's state (`waited_second`: by the second clock), `load` is the CPU load over its
    turns. `read_card` (`cards.card_reader`) and `reads` (`processors.RandomReads`) are called
    before and after each turn."""

    def __init__(
        self,
        events: Events,
        read_card: Callable[[], Optional[Json]] = cards.no_card,
        reads: Callable[[], Optional[float]] = lambda: None,
    ) -> None:
        self._events = events
        self._read_card = read_card
        self._reads = reads
        self.begin(None)

    def begin(self, phase: Optional[str]) -> None:
        """Begins to account for a timed phase."""
        self._phase = phase
        self._turn: Optional[Json] = None
        self.waited = 0.0
        self.waited_second = 0.0
        self.load: processors.Load = {}

    def take(self, **fields: object) -> Grant:
        """Ends the current turn and waits for the next one; `fields` are sent to the supervisor."""
        with self._waiting():
            self._report()
            line = self._events.gate(phase=self._phase, **fields)
            grant = WHOLE
            if line:
                grant = grant_of(line)
            self._card_before = self._read_card()
            self._reads_before = self._reads()
            self._load_before = processors.load_so_far()
            self._turn = {
                "turn": grant.turn,
                "lead": grant.lead,
                "begin": time.monotonic(),
            }
        return grant

    def timed(self, **measured: object) -> None:
        """Adds the measurement of this turn: `start`, `seconds` and `steps`."""
        if self._turn is None:
            raise RuntimeError("no turn was taken")
        self._turn.update(measured)

    def end(self) -> None:
        """Ends the last turn of the phase."""
        with self._waiting():
            self._report()

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        """Context of what is not work of the run."""
        start = time.monotonic()
        second_start = second_clock()
        yield
        self.waited += time.monotonic() - start
        self.waited_second += second_clock() - second_start

    def _report(self) -> None:
        """Reports the turn that ends, if there is one, with the load during it."""
        turn = self._turn
        if turn is None:
            return
        self._turn = None

        used = processors.load_between(self._load_before, processors.load_so_far())
        self.load = processors.total_load(self.load, used)
        if self._card_before is not None:
            turn["card"] = [self._card_before, self._read_card()]
        turn["cores"] = len(os.sched_getaffinity(0))
        turn["reads"] = processors.mean_reads(self._reads_before, self._reads())
        turn.update(used)
        self._events.emit_later("turn", phase=self._phase, **turn)


class Slice:
    """The timed steps of a turn."""

    def __init__(self) -> None:
        self.start: Optional[float] = None  # when the first of them began
        self.seconds = 0.0
        self.steps = 0


class StepClock:
    """Times steps and epochs; the training loop calls a method at each beginning and end.

    **Arguments:** the run's `Turns`; the numbers of `steps` per epoch and of `epochs`; `finish`
    is called with the inputs or outputs of a step before the clock is read within an epoch, and
    returns when the device has finished all its work.
    """

    def __init__(
        self,
        turns: Turns,
        steps: int,
        epochs: int,
        finish: Callable[[Any], object] = lambda values: None,
    ) -> None:
        self._turns = turns
        self._steps = steps
        self._finish = finish
        self._left = steps * epochs  # steps left in the training
        self._lead = 0  # lead-in steps left in this turn
        self._wanted: Optional[int] = None  # number of steps to be timed in this turn; None: all
        self._ends = True  # whether to request a turn before the next step
        self._has_turn = False
        self._slice = Slice()  # of this turn
        self._mark: Optional[float] = None  # when the current stretch of timed steps began
        self._since = 0  # steps since then

    def epoch_begins(self, began: Optional[float] = None) -> None:
        """Begins an epoch; `began` is the time at which its work began, if earlier than now."""
        if not self._has_turn:
            self._take()
            self.first_wait = self._turns.waited
            if began is not None:
                began += self.first_wait
        if began is None:
            began = time.monotonic()
        self.start = began
        self._waited = self._turns.waited
        self._rim = 0.0
        self._seconds = 0.0  # of the timed steps
        self._done = 0  # steps
        self._timed = 0  # steps

    def before(self, values: object = None) -> None:
        """Comes before each training step. Ends a turn that has all of its steps, waits for the
        next one, and begins to time after the lead-in. `values`: the step's inputs."""
        if not self._done:
            self._rim += time.monotonic() - self.start
        if self._mark is not None and self._is_full():
            self._stop(values, self._mark)
            self._ends = True
        if self._ends:
            self._take()
        if self._mark is None and self._lead <= 0:
            self._finish(values)
            self._mark = time.monotonic()
            self._since = 0
            if self._slice.start is None:
                self._slice.start = self._mark

    def after(self, values: object = None) -> None:
        """Comes after each training step. The last one of an epoch ends a stretch of timed steps,
        because what follows belongs to the rim. `values`: the step's outputs."""
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
                self._stop(values, self._mark)
                self._ends = self._is_full()
            self._last = time.monotonic()

    def epoch_ends(self) -> Json:
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

    def ends(self) -> None:
        """Reports the measurement of this turn, if there is one."""
        if self._has_turn:
            self._turns.timed(
                full=self._wanted is None or self._ends,
                start=self._slice.start,
                seconds=self._slice.seconds,
                steps=self._slice.steps,
            )
            self._has_turn = False

    def _is_full(self) -> bool:
        """Returns whether all steps of this turn have been timed."""
        return self._wanted is not None and self._slice.steps + self._since >= self._wanted

    def _stop(self, values: object, began: float) -> None:
        """Ends a stretch of timed steps, which `began` then."""
        self._finish(values)
        elapsed = time.monotonic() - began
        self._seconds += elapsed
        self._timed += self._since
        self._slice.seconds += elapsed
        self._slice.steps += self._since
        self._mark = None
        self._since = 0

    def _take(self) -> None:
        """Waits for the next turn."""
        self.ends()
        grant = self._turns.take(left=self._left)
        self._lead = grant.lead
        self._wanted = grant.steps
        self._has_turn = True
        self._slice = Slice()
        self._ends = False
