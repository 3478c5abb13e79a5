"""Supervises the worker processes of a round: reads their events, answers their handshakes, gives
them turns, and ends each one that takes too long.

A round has one member or several. What a member does before its first turn is not timed, so some
do it side by side. A member that has come to something timed says ``gate`` and waits; once no
member is at work, one of those that wait gets a turn, and the others sleep until it waits again or
has ended. One that is alone has a single turn for each thing it times.

Standard library only, Python 3.6 syntax: the conductor and bundles use it.
"""

import os
import random
import selectors
import time

from rnnworker import turn_length
from rnnworker.forked_workers import Importers
from rnnworker.frameworks.names import FORKS
from rnnworker.members import Running, event_of
from rnnworker.turn_order import cycles

# Where Python has no pidfd_open, a process that left its pipe to a child is noticed by looking.
LOOK_SECONDS = 1.0
GUESS_BYTES = 1500000000  # of a run that nobody has measured
GUESS_BYTES_OF_CARD = 4000000000  # the same, on a GPU, with its context
SHARE = 0.7  # of the memory that is available
MOST = 16


def takes_turns(config):
    """Whether a run with `config` takes turns with others. On a GPU only where its device says
    ``turns: true``: whether two contexts on one card disturb one another is not known before it is
    measured on a real one."""
    wanted = (config.get("measure") or {}).get("turns", True)
    device = config["device"]
    return bool(wanted) and (device.get("kind") != "gpu" or device.get("turns") is True)


def may_fork(config):
    """Whether runs with `config` may be forked from one process that has imported their framework:
    where that was shown to change nothing (`FORKS`), never with a GPU, and never through a
    launcher, which may have process numbers and descriptors of its own."""
    build = config["build"]
    cpu = config["device"].get("kind") == "cpu"
    return cpu and build["framework"] in FORKS and not build.get("command")


def reference_of(planned, reference):
    """The run (a line of the plan) of a round with which the others are compared, by what the
    experiment names as its `reference` (axis or option → choice); None where it has none."""
    wanted = dict({"alias": ""}, **reference)
    for run in planned:
        choices = {key: str(value) for key, value in run["overrides"].items()}
        choices.update(run["choices"], alias=run["alias"] or "")
        if reference and all(choices.get(axis) == choice for axis, choice in wanted.items()):
            return run
    return None


def starting_order(runs):
    """The `runs` (lines of the plan) of one sitting in the order in which they start. It is random,
    and of every second repeat the reverse of the one before: who starts first trains slower for all
    its life (by 0.4 % on one machine), and nobody, the reference least of all, may always be it."""
    cells = sorted(runs, key=lambda run: run["name"].rpartition("-r")[0])
    repeat = cells[0].get("repeat", 0) if cells else 0
    words = [run["name"].rpartition("-r")[0] for run in cells] + [str(repeat // 2)]
    random.Random(" ".join(words)).shuffle(cells)
    return cells[::-1] if repeat % 2 else cells


def room(available, each=GUESS_BYTES):
    """How many runs of `each` bytes may live at the same time where `available` bytes are free;
    None: nobody knows."""
    return MOST if available is None else max(1, min(MOST, int(SHARE * available // each)))


def room_on_card(card, each=GUESS_BYTES_OF_CARD):
    """How many runs that take `each` bytes of it may be on a GPU at the same time. `card`: as
    `cards.ask_contexts` tells; None, or a card for one process only (compute mode): one."""
    if card is None or card["mode"] != "Default":
        return 1
    return room(card["free_bytes"], each)


def supervise(members, seed=0, end=None, parse=None, at_once=None):
    """Starts `members` and returns {name: `Outcome`} when they and their children are gone.

    **Arguments:**

    - `seed`: of the order of turns.
    - `at_once`: how many may start side by side; None: all.
    - `end`: when (monotonic seconds) all that still live are killed; None: never.
    - `parse`: makes an event of a line of bytes, None where the line is not one.

    Raises `OSError` where a process cannot be started; then none is left.
    """
    running, importers = [], Importers(members)
    try:
        _Round(members, running, importers, seed, end, parse or event_of, at_once).attend()
    finally:
        for one in running:
            one.hang_up()
        for one in running:
            one.finish()
        importers.finish()
    return {one.name: one.outcome for one in running}


class _Round:
    """The loop over all members of a round; those that were started are put into `running`."""

    def __init__(self, members, running, importers, seed, end, parse, at_once):
        self.planned, self.running, self.end = list(members), running, end
        self.importers = importers
        self.parse, self.at_once = parse, at_once or len(self.planned)
        self.alone, self.length = len(self.planned) == 1, None
        self.stream = random.Random(seed)
        self.members, self.orders, self.order = [], None, []
        self.turn = self.cycle = 0
        self.last = None  # who had the turn before
        self.asleep = {}  # CPU seconds of those that wait, at the start of the turn

    def attend(self):
        with selectors.DefaultSelector() as selector:
            while self._start(selector):
                now = time.monotonic()
                if self.end is not None and now >= self.end:
                    for one in self.running:
                        one.cut_short()
                    return
                self._give_turn()
                for key, _ in selector.select(self._patience(now)):
                    key.data.read(selector)
                for one in self.running + self.importers.importing():
                    one.check_limit(selector)

    def _start(self, selector):
        """Starts those for whom there is room; returns whether anybody lives."""
        for member in list(self.planned):
            importing = len(self.importers.importing())
            if sum(one.works for one in self.running) + importing >= self.at_once:
                break
            importer = self.importers.of(member, selector)
            if importer is None or importer.ready:
                self.planned.remove(member)
                one = self._running(member, importer)
                self.running.append(one)
                one.watch(selector)
        return bool(self.planned) or any(one.lives for one in self.running)

    def _running(self, member, importer):
        try:
            return Running(member, self.parse, importer)
        except OSError:
            if importer is None:
                raise
            # Its importer has ended since: it starts by itself.
            importer.gone = True
            return Running(member, self.parse)

    def _patience(self, now):
        """Seconds until something may be over its limit."""
        moments = [one.deadline for one in self.running if one.works]
        moments += [one.deadline for one in self.importers.importing()]
        moments += [] if self.end is None else [self.end]
        patience = max(0.0, min(moments) - now) if moments else None
        if hasattr(os, "pidfd_open"):
            return patience
        return LOOK_SECONDS if patience is None else min(patience, LOOK_SECONDS)

    def _give_turn(self):
        """Where nobody is at work: completes the turn that has ended and gives the next one."""
        if self.planned or any(one.works for one in self.running):
            return
        waiting = {one.name: one for one in self.running if one.waits}
        if self.asleep:
            before, self.asleep = self.asleep, {}
            self.last.outcome.turns[-1]["asleep"] = {
                name: round(waiting[name].cpu_seconds() - used, 2)
                for name, used in before.items()
                if name in waiting
            }
        if not waiting:
            return
        self.order = [name for name in self.order if name in waiting]
        if not self.order:
            if self.members != sorted(waiting):
                self.members = sorted(waiting)
                self.orders = cycles(self.members, self.stream)
            self.order = next(self.orders)
            self.cycle += 1
        chosen = waiting.pop(self.order.pop(0))
        self.asleep = {name: one.cpu_seconds() for name, one in waiting.items()}
        after = self.last.name if self.last else None
        turn = {"turn": self.turn, "cycle": self.cycle - 1, "after": after, "asleep": {}}
        chosen.take_turn(turn, turn_length.words(self.alone, self._length(waiting, chosen)))
        self.turn, self.last = self.turn + 1, chosen

    def _length(self, others, chosen):
        """The length of turns, decided once, when all that train have had a first one."""
        if self.length is None:
            train = [one for one in [chosen, *others.values()] if one.told.get("left")]
            if train and all(one.step_seconds for one in train):
                left = max(one.told["left"] for one in train)
                self.length = turn_length.length([one.step_seconds for one in train], left)
        return self.length
