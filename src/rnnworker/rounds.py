"""Supervises the worker processes of a round: reads their events, answers their handshakes, gives
them turns, and ends each worker that exceeds a limit.

The work of a member before its first turn is not timed, so that several members can do it in
parallel. Before timed work a member sends ``gate`` and waits. Once no member is working, one of the
waiting members gets a turn, and the others sleep until it waits again or has ended. A single member
gets one turn per timed phase.

All members take the same number of steps in each turn, so that they train on the same batches in
one cycle and end in the same cycle. Measurements show that many short turns give better results
than few long ones, and that a process needs some milliseconds after sleeping to reach its
undisturbed speed.
"""

import math
import os
import random
import selectors
import time
from typing import (
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
)

from rnnworker import proc_files
from rnnworker.forked_workers import Importer, Importers
from rnnworker.json_types import Event, Json
from rnnworker.members import Member, Outcome, Running, event_of

# Without pidfd_open, polling detects a process that has ended while a child holds its pipe open.
POLL_SECONDS = 1.0
SLICE_SECONDS = 0.035  # timed work of the fastest member in a turn
LEAD_SECONDS = 0.010  # untimed lead-in of the fastest member in a turn
FIRST = (2, 3)  # the first turn, which determines the length of the others
MOST_TURNS = 200  # per member; more turns gain nothing


class Share(NamedTuple):
    """How long the turns of a round take in all: the members train again from the same weights
    until the turns are the share `of_round` (below 1) of its time, but not if the turns would take
    more than `most_seconds`."""

    of_round: float
    most_seconds: float = math.inf

    def trainings(self, took: float, before: float) -> int:
        """Returns how often members train again, whose first training `took` so many seconds in
        turns, `before` seconds after the round began."""
        took = max(took, 1e-3)
        wanted = math.ceil(before * self.of_round / (1 - self.of_round) / took)
        if self.most_seconds < wanted * took:
            wanted = int(self.most_seconds / took)
        return max(0, wanted - 1)


def supervise(
    members: Sequence[Member],
    seed: int = 0,
    end: Optional[float] = None,
    parse: Callable[[bytes], Optional[Event]] = event_of,
    share: Optional[Share] = None,
    importers: Optional[Importers] = None,
) -> Dict[str, Outcome]:
    """Starts `members` and returns {name: `Outcome`} when they and their children have ended. As
    many start in parallel as there are cores. Raises OSError if a process cannot be started; no
    process is left running then.

    `seed`: of the order of turns. `end`: the monotonic time at which all remaining members are
    killed; None: never. `parse`: converts a line of bytes to an event, or to None if it is not one.
    `share`: a `Share`, if members may train more than once. `importers`: those of a loop over
    rounds; without them, each member starts on its own.
    """
    if importers:
        importers.begin(members)
    round_ = _Round(list(members), random.Random(seed), parse, share, importers)
    begun = time.monotonic()
    kills = proc_files.oom_kills()
    try:
        round_.attend(end)
    finally:
        for member in round_.running:
            member.close_stdin()
        for member in round_.running:
            member.finish()

    killed = kills is not None and proc_files.oom_kills() != kills
    took = time.monotonic() - begun
    outcomes = {}
    for member in round_.running:
        member.outcome.oom_kill = killed
        member.outcome.seconds = took / len(round_.running)
        outcomes[member.name] = member.outcome
    return outcomes


class _Round:
    """The members of a round, which of them are alive, and whose turn it is."""

    def __init__(
        self,
        members: List[Member],
        stream: random.Random,
        parse: Callable[[bytes], Optional[Event]],
        share: Optional[Share],
        importers: Optional[Importers],
    ) -> None:
        self.planned = members[:]
        self.running: List[Running] = []
        self.importers = importers
        self.stream = stream
        self.parse = parse
        self.share = share
        self.begun = time.monotonic()
        self.first_turn: Optional[float] = None  # when it began
        self.trainings: Optional[int] = None  # after the first one, once that is decided
        self.at_once = len(os.sched_getaffinity(0))
        self.is_single = len(members) == 1
        self.length: Optional[Tuple[int, int]] = None  # of turns, once it has been determined
        self.names: List[str] = []  # of the waiting members for which the orders were drawn
        self.orders: Iterator[List[str]] = iter(())
        self.order: List[str] = []  # of those who still have a turn in this cycle
        self.turn = 0
        self.cycle = 0
        self.last: Optional[Running] = None  # the member that had the previous turn
        # CPU seconds of the waiting members at the start of the turn.
        self.asleep: Dict[str, float] = {}

    def attend(self, end: Optional[float]) -> None:
        """Starts members and gives turns until all have ended, or until the time `end`."""
        with selectors.DefaultSelector() as selector:
            while self._start(selector):
                now = time.monotonic()
                if end is not None and now >= end:
                    for member in self.running:
                        member.cut_short()
                    return
                self._give_turn()
                for key, _ in selector.select(self._timeout(now, end)):
                    key.data.read(selector)
                for process in self.processes():
                    process.check_limit(selector)

    def processes(self) -> List[Union[Running, Importer]]:
        """Returns the members and importers that have been started."""
        importers = self.importers.started() if self.importers else []
        return [*self.running, *importers]

    def _start(self, selector: selectors.BaseSelector) -> bool:
        """Starts as many members as allowed; returns whether any is planned or alive."""
        for member in self.planned[:]:
            working = [process for process in self.processes() if process.is_working]
            if len(working) >= self.at_once:
                break

            importer = None
            if self.importers:
                importer = self.importers.importer_for(member, selector)
            if importer and not importer.ready:
                continue
            self.planned.remove(member)
            try:
                started = Running(member, self.parse, importer, self._answer)
            except OSError:
                if importer is None:
                    raise
                # The importer has ended in the meantime: the member starts on its own.
                importer.gone = True
                started = Running(member, self.parse, answer=self._answer)
            self.running.append(started)
            started.watch(selector)
        return bool(self.planned) or any(member.is_alive for member in self.running)

    def _timeout(self, now: float, end: Optional[float]) -> Optional[float]:
        """Returns the seconds after which a limit has to be checked; None: never."""
        deadlines = [process.deadline for process in self.processes() if process.is_working]
        if end is not None:
            deadlines.append(end)
        if not hasattr(os, "pidfd_open"):
            deadlines.append(now + POLL_SECONDS)
        if not deadlines:
            return None
        return max(0.0, min(deadlines) - now)

    def _give_turn(self) -> None:
        """If no member is working, completes the turn that has ended and gives the next one."""
        if self.planned or any(member.is_working for member in self.running):
            return
        waiting = {member.name: member for member in self.running if member.is_waiting}
        for name, before in self.asleep.items():
            if name in waiting and self.last is not None:
                used = waiting[name].cpu_seconds() - before
                self.last.outcome.turns[-1]["asleep"][name] = round(used, 2)
        if not waiting:
            return

        self.order = [name for name in self.order if name in waiting]
        if not self.order:
            if self.names != sorted(waiting):
                self.names = sorted(waiting)
                self.orders = cycles(self.names, self.stream)
            self.order = next(self.orders)
            self.cycle += 1

        length = self._length(waiting.values())
        chosen = waiting.pop(self.order.pop(0))
        self.asleep = {name: member.cpu_seconds() for name, member in waiting.items()}
        turn: Json = {
            "turn": self.turn,
            "cycle": self.cycle - 1,
            "after": None,
            "asleep": {},
        }
        if self.last:
            turn["after"] = self.last.name
        if self.first_turn is None:
            self.first_turn = time.monotonic()
        chosen.take_turn(turn, *length)
        self.turn += 1
        self.last = chosen

    def _answer(self, ended: Optional[str]) -> str:
        """Returns the answer to a member whose phase `ended` has ended. How often members train is
        decided when the first of them has trained, so that it is the same for all of them."""
        if ended != "train" or self.is_single:
            return "go"
        if self.share is None or self.first_turn is None:
            return "go"
        if self.trainings is None:
            before = self.first_turn - self.begun
            took = time.monotonic() - self.first_turn
            self.trainings = self.share.trainings(took, before)
        if self.trainings:
            return "again {}".format(self.trainings)
        return "go"

    def _length(self, members: Iterable[Running]) -> Tuple[int, ...]:
        """Returns the length of the next turn: `FIRST` until all training members have had one;
        () for a single member, which gets all remaining steps."""
        if self.is_single:
            return ()
        if self.length is None:
            training = [member for member in members if member.gate_event.get("left")]
            step_seconds = [member.step_seconds for member in training if member.step_seconds]
            if training and len(step_seconds) == len(training):
                left = max(member.gate_event["left"] for member in training)
                self.length = turn_length(step_seconds, left)
        return self.length or FIRST


def turn_length(step_seconds: Sequence[float], left: int) -> Tuple[int, int]:
    """Returns the number of steps in a turn, (untimed lead-in, timed), for members whose steps take
    `step_seconds`; `left` is the largest number of steps that any member has left."""
    fastest = max(min(step_seconds), 1e-9)
    lead = math.ceil(LEAD_SECONDS / fastest)
    timed = math.ceil(SLICE_SECONDS / fastest)
    least = math.ceil(left / MOST_TURNS) - lead  # with fewer steps there would be too many turns
    return lead, max(1, timed, least)


def cycles(names: Sequence[str], stream: random.Random) -> Iterator[List[str]]:
    """Yields endless permutations of `names`: the rows of a Williams square (Australian Journal of
    Scientific Research A 2, 1949), in which each name directly follows every other equally often.
    When the rows are used up, a new square is drawn from `stream`."""
    while True:
        labels = list(names)
        stream.shuffle(labels)
        rows = williams(len(labels))
        stream.shuffle(rows)
        for row in rows:
            yield [labels[place] for place in row]


def williams(size: int) -> List[List[int]]:
    """Returns the rows of a Williams square: `size` rows, twice as many for an odd `size`. Over all
    rows, each element directly follows every other equally often."""
    place = 0
    first = [place]
    for step in range(1, size):
        if step % 2:
            place += step
        else:
            place -= step
        first.append(place % size)

    rows = []
    for shift in range(size):
        rows.append([(element + shift) % size for element in first])
    if size % 2 and size > 1:
        rows += [row[::-1] for row in rows]
    return rows
