"""One worker process of a round: how it is started, what it reports, how it is ended.

Standard library only, Python 3.6 syntax: the conductor and bundles use it.
"""

import contextlib
import json
import os
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
    - `forks`: whether it may be forked from an importer (`rounds.may_fork`). The last word of its
      command is its job file then.
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
        """Seconds that it may be at work in `phase`."""
        return float(self.limits.get(phase, self.limits.get("default", DEFAULT_LIMIT)))


def event_of(line):
    """One event, or None where the line is not one."""
    try:
        event = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("event"), str) else None


class Running:
    """A member's process and what is known of it. It `works`, `waits` at the gate, or has ended."""

    def __init__(self, member, parse, importer=None):
        self.member, self.name, self.parse = member, member.name, parse
        self.outcome = Outcome()
        self.works, self.waits = True, False
        self.told = {}  # what it said at the gate
        self.step_seconds = None  # of its training, by the turns so far
        self.deadline = self.left = 0.0  # of its phase; what is left of it while it waits
        self.buffer = b""
        self.pidfd = None
        self.kept = open(str(member.events_file), "ab", buffering=0)  # noqa: SIM115 (see finish)
        self.reader, writer = os.pipe()
        try:
            self.process = importer.fork(member, writer) if importer else _started(member, writer)
        except BaseException:
            self.kept.close()
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
        if kind == "turn" and event.get("steps") and event.get("seconds"):
            self.step_seconds = event["seconds"] / event["steps"]
        if kind == "gate":
            self.told, self.left = event, self.deadline - time.monotonic()
            self.works, self.waits = False, True
        elif kind == "handshake":
            self.member.on_handshake(self.outcome.events)
            self._say("go")
            self._begin(self.outcome.phase)

    def take_turn(self, turn, words=""):
        """Gives it a `turn`; `words` say how long (`turn_length.words`)."""
        self.outcome.turns.append(turn)
        self.works, self.waits = True, False
        self.deadline = time.monotonic() + self.left
        self._say("turn {}{}".format(turn["turn"], words))

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
        self.deadline = time.monotonic() + self.member.limit(phase)

    def _say(self, words):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(words.encode("ascii") + b"\n")
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
