"""One worker process of a round: starts it, reads its events, and ends it.

Standard library only, Python 3.6 syntax: the controller and bundles use it.
"""

import contextlib
import json
import os
import select
import selectors
import signal
import subprocess
import time

from rnnworker import memory
from rnnworker.memory import SIGKILLED

GRACE_SECONDS = 3.0
LAST_PHASE = "end"
DEADLY = (
    signal.SIGABRT,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGKILL,
    signal.SIGSEGV,
)
DEFAULT_LIMIT = 600


class Outcome:
    """The result of a worker process.

    - `events`: its events, in order.
    - `exit_code`: negative for a signal.
    - `garbage`: number of lines that were not events.
    - `over_limit`: the phase that exceeded its limit, or None.
    - `phase`: its last phase.
    - `cut`: whether it was killed at the end of the time for all members.
    - `turns`: its turns, each ``{"turn", "cycle", "after", "asleep"}``: index of the turn and of
      its cycle (from 0), name of the member that had the previous turn (or None), and {name: CPU
      seconds} that each waiting member used during the turn.
    - `log_tail`: the end of its log.
    - `oom_kill`: whether the kernel killed a process in its control group because memory ran out.
    - `seconds`: its share of the time that its round took, or None.
    """

    def __init__(self, events=(), exit_code=0, garbage=0, over_limit=None, phase="start",
                 turns=(), oom_kill=False, seconds=None, log_tail=""):  # fmt: skip
        self.events = list(events)
        self.exit_code, self.garbage = exit_code, garbage
        self.over_limit, self.phase = over_limit, phase
        self.cut = False
        self.turns = list(turns)
        self.oom_kill, self.seconds, self.log_tail = oom_kill, seconds, log_tail

    @property
    def out_of_memory(self):
        """Whether it ended because memory ran out."""
        return memory.ran_out(self)

    @property
    def is_killed(self):
        """Whether it received a SIGKILL from outside, which says nothing about the run."""
        return self.exit_code == SIGKILLED and not self.over_limit and not self.out_of_memory

    def facts(self):
        """Returns it as JSON, without its events and log."""
        names = ("exit_code", "garbage", "over_limit", "phase", "turns", "oom_kill", "seconds")
        return {name: getattr(self, name) for name in names}


class Member:
    """One worker process to be started.

    **Arguments:**

    - `name`: unique in its round.
    - `command`, `environment`: of the process; the environment is complete.
    - `log`: path of the file for its standard output and error.
    - `events_file`: path of the file for its events, appended as they arrive.
    - `limits`: {phase: seconds of work}, with ``default`` for other phases; waiting for a turn does
      not count.
    - `inherit`: further file descriptors (locks) that it inherits.
    - `on_event`: called with each event.
    - `on_handshake`: called with all events so far while the worker waits at a handshake.
    - `forks`: whether it may be forked from an importer (`rounds.may_fork`). If so, the last
      argument of its command is its job file.
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
        forks=False,
    ):
        self.name, self.command, self.environment = name, command, environment
        self.log, self.events_file, self.limits = log, events_file, limits
        self.inherit, self.on_event, self.on_handshake = inherit, on_event, on_handshake
        self.forks = forks

    def limit(self, phase):
        """Returns the seconds that it may work in `phase`."""
        return float(self.limits.get(phase, self.limits.get("default", DEFAULT_LIMIT)))


def event_of(line):
    """Parses a line of bytes as an event; returns None if it is not one."""
    try:
        event = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("event"), str) else None


class Running:
    """A member's process and its state: `is_working`, `is_waiting` (at the gate) or ended."""

    def __init__(self, member, parse, importer=None):
        self.member, self.name, self.parse = member, member.name, parse
        self.outcome = Outcome()
        self.is_working, self.is_waiting = True, False
        self.gate_event = {}  # the last one
        self.step_seconds = None  # seconds per training step in the last turn that has any
        self.deadline = self.left = 0.0  # of its phase; the seconds left of it while it waits
        self.buffer = b""
        self.pidfd = None
        self.log = open(str(member.events_file), "ab", buffering=0)  # noqa: SIM115 (see finish)
        self.reader, writer = os.pipe()
        try:
            self.process = importer.fork(member, writer) if importer else _started(member, writer)
        except BaseException:
            self.log.close()
            os.close(self.reader)
            raise
        finally:
            os.close(writer)
        self._pipe = select.poll()
        self._pipe.register(self.reader, select.POLLIN | select.POLLHUP)
        if importer:
            self.pidfd = self.process.ended
        elif hasattr(os, "pidfd_open"):
            self.pidfd = os.pidfd_open(self.process.pid)
        self._begin("start")

    @property
    def is_alive(self):
        return self.is_working or self.is_waiting

    def watch(self, selector):
        for descriptor in (self.reader, self.pidfd):
            if descriptor is not None:
                selector.register(descriptor, selectors.EVENT_READ, self)

    def read(self, selector):
        """Reads what the process has written; if it has ended, also ends its children."""
        if not self.is_alive:
            return
        # The process may have ended while a child of it still holds the empty pipe open.
        data = os.read(self.reader, 65536) if self._pipe.poll(0) else b""
        if not data:
            self.close(selector)
            return
        self.log.write(data)
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
        if kind == "turn" and event.get("steps") and event.get("seconds"):
            self.step_seconds = event["seconds"] / event["steps"]
        if kind == "gate":
            self.gate_event, self.left = event, self.deadline - time.monotonic()
            self.is_working, self.is_waiting = False, True
        elif kind == "handshake":
            self.member.on_handshake(self.outcome.events)
            self._send("go")
            self._begin(self.outcome.phase)

    def take_turn(self, turn, length=""):
        """Gives it a `turn` of this `length` (`turn_length.text`)."""
        self.outcome.turns.append(turn)
        self.is_working, self.is_waiting = True, False
        self.deadline = time.monotonic() + self.left
        self._send("turn {}{}".format(turn["turn"], length))

    def check_limit(self, selector):
        """Ends the member if it exceeds its limit, even if it never stops writing, or if its
        process has ended while a child of it holds the pipe open."""
        if self.is_working and time.monotonic() > self.deadline:
            self.outcome.over_limit = self.outcome.phase
            self.close(selector)
        elif self.is_alive and self.pidfd is None and self.process.poll() is not None:
            self.close(selector)

    def cut_short(self):
        if self.is_alive:
            self.outcome.cut = True
            _signal_group(self.process.pid, signal.SIGKILL)

    def close(self, selector):
        for descriptor in (self.reader, self.pidfd):
            if descriptor is not None:
                selector.unregister(descriptor)
        self.finish()

    def close_stdin(self):
        """Closes its standard input; a worker that waits for an answer then exits."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()

    def finish(self):
        """Ends the process and its children, and closes all descriptors. Idempotent."""
        if self.log is None:
            return
        self.is_working = self.is_waiting = False
        try:
            self.close_stdin()
            _end(self.process)
            self.outcome.exit_code = _as_signal(self.process.wait())
            self.outcome.log_tail = memory.tail(self.member.log)
        finally:
            self.log.close()
            self.log = None
            os.close(self.reader)
            if self.pidfd is not None:
                os.close(self.pidfd)

    def cpu_seconds(self):
        """Returns the CPU seconds used by the process and its threads, to a clock tick."""
        try:
            with open("/proc/{}/stat".format(self.process.pid)) as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / float(os.sysconf("SC_CLK_TCK"))

    def _begin(self, phase):
        self.outcome.phase = phase
        self.deadline = time.monotonic() + self.member.limit(phase)

    def _send(self, line):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(line.encode("ascii") + b"\n")
            self.process.stdin.flush()


def _started(member, writer):
    with open(str(member.log), "ab") as output:
        return subprocess.Popen(
            member.command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=dict(member.environment, RNNWORKER_EVENTS=str(writer), RNNWORKER_HANDSHAKE="1"),
            pass_fds=(writer,) + tuple(member.inherit),
            start_new_session=True,
        )


def _end(process):
    """Ends a process and its children: SIGTERM, then SIGKILL."""
    try:
        process.wait(timeout=GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        _signal_group(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=GRACE_SECONDS)
    _signal_group(process.pid, signal.SIGKILL)


def _as_signal(exit_code):
    """Returns the exit code, negative for a signal. A launcher (a shell, a container) exits with
    128 + the number of the signal that ended its child."""
    return 128 - exit_code if exit_code - 128 in DEADLY else exit_code


def _signal_group(group, number):
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
