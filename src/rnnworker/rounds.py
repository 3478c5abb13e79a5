"""Supervises the worker processes of a round: reads their events, answers their handshakes, gives
them turns, and ends each worker that exceeds a limit.

A round has one or more members. The work of a member before its first turn is not timed, so that
several members can do it in parallel. Before timed work a member sends ``gate`` and waits. Once no
member is working, one of the waiting members gets a turn, and the others sleep until it waits again
or has ended. A single member gets one turn per timed phase.

Standard library only, Python 3.6 syntax: the controller and bundles use it.
"""

import os
import random
import selectors
import time

from rnnworker import memory, turn_length
from rnnworker.forked_workers import Importers
from rnnworker.frameworks.names import FORKABLE
from rnnworker.members import Running, event_of
from rnnworker.turn_order import cycles

# Without pidfd_open, polling detects a process that has ended while a child holds its pipe open.
POLL_SECONDS = 1.0


def may_fork(config):
    """Returns whether runs with `config` may be forked from a process that has imported their
    framework: only if that was shown to change nothing (`FORKABLE`), never with a GPU, and never
    through a launcher, which may use separate process numbers and descriptors."""
    build = config["build"]
    cpu = config["device"].get("kind") == "cpu"
    return cpu and build["framework"] in FORKABLE and not build.get("command")


def supervise(members, seed=0, end=None, parse=None):
    """Starts `members` and returns {name: `Outcome`} when they and their children have ended. As
    many start in parallel as there are cores.

    **Arguments:**

    - `seed`: seed of the order of turns.
    - `end`: monotonic time at which all remaining members are killed; None: never.
    - `parse`: converts a line of bytes to an event, or None if it is not one.

    Raises OSError if a process cannot be started; no process is left running then.
    """
    running, importers = [], Importers(members)
    begun, kills = time.monotonic(), memory.oom_kills()
    try:
        _Round(members, running, importers, seed, end, parse or event_of).attend()
    finally:
        for member in running:
            member.close_stdin()
        for member in running:
            member.finish()
        importers.finish()
    killed = kills is not None and memory.oom_kills() != kills
    for member in running:
        member.outcome.oom_kill = killed
        member.outcome.seconds = (time.monotonic() - begun) / len(running)
    return {member.name: member.outcome for member in running}


class _Round:
    """The event loop over all members of a round; appends started members to `running`."""

    def __init__(self, members, running, importers, seed, end, parse):
        self.planned, self.running, self.end = list(members), running, end
        self.importers = importers
        self.parse, self.at_once = parse, len(os.sched_getaffinity(0))
        self.single, self.length = len(self.planned) == 1, None
        self.stream = random.Random(seed)
        self.members, self.orders, self.order = [], None, []
        self.turn = self.cycle = 0
        self.last = None  # the member that had the previous turn
        self.asleep = {}  # CPU seconds of the waiting members at the start of the turn

    def attend(self):
        with selectors.DefaultSelector() as selector:
            while self._start(selector):
                now = time.monotonic()
                if self.end is not None and now >= self.end:
                    for member in self.running:
                        member.cut_short()
                    return
                self._give_turn()
                for key, _ in selector.select(self._timeout(now)):
                    key.data.read(selector)
                for process in self.running + self.importers.importing():
                    process.check_limit(selector)

    def _start(self, selector):
        """Starts as many members as allowed; returns whether any is planned or alive."""
        for member in list(self.planned):
            importing = len(self.importers.importing())
            if sum(other.is_working for other in self.running) + importing >= self.at_once:
                break
            importer = self.importers.importer_for(member, selector)
            if importer is None or importer.ready:
                self.planned.remove(member)
                started = self._running(member, importer)
                self.running.append(started)
                started.watch(selector)
        return bool(self.planned) or any(member.is_alive for member in self.running)

    def _running(self, member, importer):
        try:
            return Running(member, self.parse, importer)
        except OSError:
            if importer is None:
                raise
            # The importer has ended in the meantime: the member starts on its own.
            importer.gone = True
            return Running(member, self.parse)

    def _timeout(self, now):
        """Returns the seconds until the next deadline; None if there is none."""
        deadlines = [member.deadline for member in self.running if member.is_working]
        deadlines += [importer.deadline for importer in self.importers.importing()]
        deadlines += [] if self.end is None else [self.end]
        timeout = max(0.0, min(deadlines) - now) if deadlines else None
        if hasattr(os, "pidfd_open"):
            return timeout
        return POLL_SECONDS if timeout is None else min(timeout, POLL_SECONDS)

    def _give_turn(self):
        """If no member is working, completes the turn that has ended and gives the next one."""
        if self.planned or any(member.is_working for member in self.running):
            return
        waiting = {member.name: member for member in self.running if member.is_waiting}
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
        self.asleep = {name: member.cpu_seconds() for name, member in waiting.items()}
        after = self.last.name if self.last else None
        turn = {"turn": self.turn, "cycle": self.cycle - 1, "after": after, "asleep": {}}
        chosen.take_turn(turn, turn_length.text(self.single, self._length(waiting, chosen)))
        self.turn, self.last = self.turn + 1, chosen

    def _length(self, others, chosen):
        """Returns the length of turns; None until all training members have had a first turn."""
        if self.length is None:
            members = [chosen, *others.values()]
            training = [member for member in members if member.gate_event.get("left")]
            if training and all(member.step_seconds for member in training):
                left = max(member.gate_event["left"] for member in training)
                self.length = turn_length.length([member.step_seconds for member in training], left)
        return self.length
