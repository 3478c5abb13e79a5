"""Supervises the worker processes of a round: reads their events, answers their handshakes, gives
them turns, and ends each one that takes too long.

A round has one member or several. What a member does outside its turns is not timed, so members do
it side by side. A member that has come to something timed says ``gate`` and waits; once no member
is at work, one of those that wait gets a turn, and the others sleep until it waits again or has
ended.

Standard library only, Python 3.6 syntax: the conductor and bundles use it.
"""

import contextlib
import json
import os
import random
import select
import selectors
import signal
import subprocess
import time

GRACE_SECONDS = 3.0
LAST_PHASE = "end"
SIGKILLED = -9
DEADLY = (
    signal.SIGABRT,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGKILL,
    signal.SIGSEGV,
)
DEFAULT_LIMIT = 600
# Where Python has no pidfd_open, a process that left its pipe to a child is noticed by looking.
LOOK_SECONDS = 1.0


class Outcome:
    """What a worker process left behind.

    - `events`: what it reported, in order.
    - `exit_code`: negative for a signal.
    - `garbage`: how many lines were not events.
    - `over_limit`: the phase that took too long, or None.
    - `phase`: the phase it was in last.
    - `cut`: whether the end of the time for all ended it.
    - `turns`: its turns, each ``{"turn", "cycle", "after", "asleep"}``: numbers of the turn and of
      its cycle from 0, who had the turn before it (None: nobody), and the CPU seconds that each
      member which waited used meanwhile, by name.
    """

    def __init__(self, events=(), exit_code=0, garbage=0, over_limit=None, phase="start"):
        self.events = list(events)
        self.exit_code, self.garbage = exit_code, garbage
        self.over_limit, self.phase = over_limit, phase
        self.cut = False
        self.turns = []


class Member:
    """One worker process to be started.

    **Arguments:**

    - `name`: unique in its round.
    - `command`, `environment`: of the process; the whole environment.
    - `log`: path of the file that takes its standard output and error.
    - `events_file`: path of the file that takes its events as they come.
    - `limits`: seconds of work by phase; ``default`` for the others. Waiting for a turn is none.
    - `inherit`: file descriptors (locks) that it holds too.
    - `on_event`, `on_handshake`: called with each event, and with all events while it waits at a
      handshake.
    """

    def __init__(
        self,
        name,
        command,
        environment,
        log,
        events_file,
        limits,
        inherit=(),
        on_event=lambda event: None,
        on_handshake=lambda events: None,
    ):
        self.name, self.command, self.environment = name, command, environment
        self.log, self.events_file, self.limits = log, events_file, limits
        self.inherit, self.on_event, self.on_handshake = inherit, on_event, on_handshake


def supervise(members, seed=0, end=None, parse=None):
    """Starts `members` and returns {name: `Outcome`} when they and their children are gone.

    **Arguments:**

    - `seed`: of the order of turns.
    - `end`: when (monotonic seconds) all that still live are killed; None: never.
    - `parse`: makes an event of a line of bytes, None where the line is not one.

    Raises `OSError` where a process cannot be started; then none is left.
    """
    running = []
    try:
        for member in members:
            running.append(_Running(member, parse or event_of))
        _Round(running, seed, end).attend()
    finally:
        for one in running:
            one.hang_up()
        for one in running:
            one.finish()
    return {one.name: one.outcome for one in running}


def event_of(line):
    """One event, or None where the line is not one."""
    try:
        event = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("event"), str) else None


def cycles(names, stream):
    """Endless orders of `names`, each once in each order: rows of a Williams square (Australian
    Journal of Scientific Research A 2, 1949), in which everyone follows every other equally often,
    drawn anew from `stream` (a ``random.Random``) when its rows are used up."""
    while True:
        labels = list(names)
        stream.shuffle(labels)
        rows = williams(len(labels))
        stream.shuffle(rows)
        for row in rows:
            yield [labels[place] for place in row]


def williams(size):
    """The rows of a Williams square of `size`: `size` rows, twice as many for an odd size; in all
    of them together everyone directly follows every other equally often."""
    first = [0]
    for step in range(1, size):
        first.append((first[-1] + (step if step % 2 else -step)) % size)
    rows = [[(place + shift) % size for place in first] for shift in range(size)]
    return rows + [row[::-1] for row in rows] if size % 2 and size > 1 else rows


class _Round:
    """The loop over all members of a round."""

    def __init__(self, running, seed, end):
        self.running, self.end = running, end
        self.stream = random.Random(seed)
        self.members, self.orders, self.order = [], None, []
        self.turn = self.cycle = 0
        self.last = None  # who had the turn before
        self.asleep = {}  # CPU seconds of those that wait, at the start of the turn

    def attend(self):
        with selectors.DefaultSelector() as selector:
            for one in self.running:
                one.watch(selector)
            while any(one.lives for one in self.running):
                now = time.monotonic()
                if self.end is not None and now >= self.end:
                    for one in self.running:
                        one.cut_short()
                    return
                self._give_turn()
                for key, _ in selector.select(self._patience(now)):
                    key.data.read(selector)
                for one in self.running:
                    one.check_limit(selector)

    def _patience(self, now):
        """Seconds until something may be over its limit."""
        moments = [one.deadline for one in self.running if one.works]
        moments += [] if self.end is None else [self.end]
        patience = max(0.0, min(moments) - now) if moments else None
        if hasattr(os, "pidfd_open"):
            return patience
        return LOOK_SECONDS if patience is None else min(patience, LOOK_SECONDS)

    def _give_turn(self):
        """Where nobody is at work: completes the turn that has ended and gives the next one."""
        if any(one.works for one in self.running):
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
        chosen.take_turn(turn)
        self.turn, self.last = self.turn + 1, chosen


class _Running:
    """A member's process and what is known of it. It `works`, `waits` at the gate, or has ended."""

    def __init__(self, member, parse):
        self.member, self.name, self.parse = member, member.name, parse
        self.outcome = Outcome()
        self.works, self.waits = True, False
        self.deadline = self.left = 0.0  # of its phase; what is left of it while it waits
        self.buffer = b""
        self.pidfd = self.kept = None
        self.reader, writer = os.pipe()
        try:
            with open(str(member.log), "ab") as output:
                self.process = subprocess.Popen(
                    member.command,
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=output,
                    env=dict(
                        member.environment, RNNWORKER_EVENTS=str(writer), RNNWORKER_HANDSHAKE="1"
                    ),
                    pass_fds=(writer,) + tuple(member.inherit),
                    start_new_session=True,
                )
        except BaseException:
            os.close(self.reader)
            raise
        finally:
            os.close(writer)
        self.kept = open(str(member.events_file), "ab", buffering=0)  # noqa: SIM115 (see finish)
        self._pipe = select.poll()
        self._pipe.register(self.reader, select.POLLIN | select.POLLHUP)
        if hasattr(os, "pidfd_open"):
            self.pidfd = os.pidfd_open(self.process.pid)
        self._begin("start")

    @property
    def lives(self):
        return self.works or self.waits

    def watch(self, selector):
        for descriptor in (self.reader, self.pidfd):
            if descriptor is not None:
                selector.register(descriptor, selectors.EVENT_READ, self)

    def read(self, selector):
        """Takes what the process wrote; at its end, ends it and its children."""
        if not self.lives:
            return
        # The process may be gone and the pipe empty, yet held open by a child of it.
        data = os.read(self.reader, 65536) if self._pipe.poll(0) else b""
        if not data:
            self.close(selector)
            return
        self.kept.write(data)
        lines = (self.buffer + data).split(b"\n")
        self.buffer = lines.pop()
        for line in lines:
            self._take(self.parse(line))

    def _take(self, event):
        if event is None:
            self.outcome.garbage += 1
            return
        self.outcome.events.append(event)
        kind = event["event"]
        if kind in ("phase_begin", "phase_end"):
            self._begin(LAST_PHASE if kind == "phase_end" else str(event.get("phase")))
        self.member.on_event(event)
        if kind == "gate":
            self.left = self.deadline - time.monotonic()
            self.works, self.waits = False, True
        elif kind == "handshake":
            self.member.on_handshake(self.outcome.events)
            self._say("go")
            self._begin(self.outcome.phase)

    def take_turn(self, turn):
        self.outcome.turns.append(turn)
        self.works, self.waits = True, False
        self.deadline = time.monotonic() + self.left
        self._say("turn {}".format(turn["turn"]))

    def check_limit(self, selector):
        """Ends a member that is over its limit, also one that writes without end, and one whose
        process is gone while a child of it holds the pipe."""
        if self.works and time.monotonic() > self.deadline:
            self.outcome.over_limit = self.outcome.phase
            self.close(selector)
        elif self.lives and self.pidfd is None and self.process.poll() is not None:
            self.close(selector)

    def cut_short(self):
        if self.lives:
            self.outcome.cut = True
            _signal_group(self.process.pid, signal.SIGKILL)

    def close(self, selector):
        for descriptor in (self.reader, self.pidfd):
            if descriptor is not None:
                selector.unregister(descriptor)
        self.finish()

    def hang_up(self):
        """Closes its standard input, at which a worker that waits ends by itself."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()

    def finish(self):
        """Ends the process and all it started, and gives back what was opened for it."""
        if self.kept is None:
            return
        self.works = self.waits = False
        try:
            self.hang_up()
            _end(self.process)
            self.outcome.exit_code = _as_signal(self.process.wait())
        finally:
            self.kept.close()
            self.kept = None
            os.close(self.reader)
            if self.pidfd is not None:
                os.close(self.pidfd)

    def cpu_seconds(self):
        """CPU seconds of the process so far, its threads included, to a clock tick."""
        try:
            with open("/proc/{}/stat".format(self.process.pid)) as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / float(os.sysconf("SC_CLK_TCK"))

    def _begin(self, phase):
        self.outcome.phase = phase
        limits = self.member.limits
        self.deadline = time.monotonic() + float(
            limits.get(phase, limits.get("default", DEFAULT_LIMIT))
        )

    def _say(self, words):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(words.encode("ascii") + b"\n")
            self.process.stdin.flush()


def _end(process):
    """Ends a process and all it started: SIGTERM first, SIGKILL where that is not enough."""
    try:
        process.wait(timeout=GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        _signal_group(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=GRACE_SECONDS)
    _signal_group(process.pid, signal.SIGKILL)


def _as_signal(exit_code):
    """A launcher that stays between (a shell, a container) ends with 128 + the number of the
    signal that ended what it started."""
    return 128 - exit_code if exit_code - 128 in DEADLY else exit_code


def _signal_group(group, number):
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
