"""One worker process of a round: starts it, reads its events, and ends it."""

import contextlib
import json
import os
import select
import selectors
import signal
import subprocess
import time
from typing import (
    IO,
    TYPE_CHECKING,
    Callable,
    Dict,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Tuple,
    Union,
    cast,
)

from rnnworker import proc_files
from rnnworker.json_types import Event, Json
from rnnworker.user_functions import says_out_of_memory

if TYPE_CHECKING:  # it imports this module
    from rnnworker.forked_workers import Forked, Importer

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
SIGKILLED = -9  # as an exit code
TAIL_BYTES = 8192


class Outcome:
    """The result of a worker process: its `events`, in order, and its `turns`, each ``{"turn",
    "cycle", "after", "asleep"}``: index of the turn and of its cycle (from 0), name of the member
    that had the previous turn (or None), and {name: CPU seconds} that each waiting member used
    during the turn."""

    exit_code = 0  # negative for a signal
    garbage = 0  # number of lines that were not events
    over_limit: Optional[str] = None  # the phase that exceeded its limit
    phase = "start"  # its last phase
    cut = False  # whether it was killed at the end of the time for all members
    log_tail = ""  # the end of its log
    oom_kill = False  # whether the kernel killed a process of its group because memory ran out
    seconds = 0.0  # its share of the time that its round took

    def __init__(
        self,
        events: Iterable[Event] = (),
        turns: Iterable[Json] = (),
        **facts: object,
    ) -> None:
        self.events = list(events)
        self.turns = list(turns)
        for name, value in facts.items():
            getattr(Outcome, name)  # raises for what is no fact
            setattr(self, name, value)

    @property
    def out_of_memory(self) -> bool:
        """Whether it ended because memory ran out, by its messages and the kernel's counters."""
        if self.over_limit:
            return False
        for event in self.events:
            if event["event"] == "error":
                message = "{}: {}".format(event.get("type", ""), event.get("message", ""))
                return says_out_of_memory(message)
        if self.exit_code == SIGKILLED and self.oom_kill:
            return True
        return self.exit_code < 0 and says_out_of_memory(self.log_tail)

    @property
    def is_killed(self) -> bool:
        """Whether it received a SIGKILL from outside, which says nothing about the run."""
        return self.exit_code == SIGKILLED and not self.over_limit and not self.out_of_memory

    def facts(self) -> Json:
        """Returns it as JSON, without its events and log."""
        names = ("exit_code", "garbage", "over_limit", "phase", "turns", "oom_kill", "seconds")
        return {name: getattr(self, name) for name in names}


def tail(log: Union[str, "os.PathLike[str]"]) -> str:
    """Returns the last `TAIL_BYTES` of a log; empty if it cannot be read."""
    try:
        with open(str(log), "rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - TAIL_BYTES))
            content = file.read()
    except OSError:
        return ""
    return content.decode("utf-8", "replace")


class Member(NamedTuple):
    """One worker process to be started."""

    name: str  # unique in its round
    command: List[str]  # if it `forks`, its last argument is the job file
    environment: Dict[str, str]  # complete
    log: str  # path of the file for its standard output and error
    events_file: str  # path of the file for its events, appended as they arrive
    # Phase → seconds of work, with ``default``; waiting for a turn does not count.
    limits: Mapping[str, float]
    inherit: Tuple[int, ...] = ()  # further file descriptors (locks) that it inherits
    on_event: Callable[[Event], object] = lambda event: None  # called with each event
    forks: bool = False  # whether it may be forked from an importer (`forked_workers.may_fork`)

    def limit(self, phase: str) -> float:
        """Returns the seconds that it may work in `phase`."""
        if phase == "train_again":
            phase = "train"
        default = self.limits.get("default", DEFAULT_LIMIT)
        return float(self.limits.get(phase, default))


def event_of(line: bytes) -> Optional[Event]:
    """Parses a line of bytes as an event; returns None if it is not one."""
    try:
        event = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    if isinstance(event, dict) and isinstance(event.get("event"), str):
        return event
    return None


class Running:
    """A member's process and its state: `is_working`, `is_waiting` (at the gate) or ended."""

    def __init__(
        self,
        member: Member,
        parse: Callable[[bytes], Optional[Event]],
        importer: Optional["Importer"] = None,
        answer: Callable[[Optional[str]], str] = lambda ended: "go",
    ) -> None:
        self.member = member
        self.answer = answer  # a function: the phase that has ended → the answer to its handshake
        self.ended: Optional[str] = None  # that phase
        self.name = member.name
        self.parse = parse
        self.outcome = Outcome()
        self.is_working = True
        self.is_waiting = False

        self.gate_event: Event = {}  # the last one
        self.step_seconds: Optional[float] = None  # in the last turn that has training steps
        self.deadline = 0.0  # of its phase
        self.left = 0.0  # the seconds left of its phase while it waits
        self.buffer = b""

        self.log = open(str(member.events_file), "ab", buffering=0)  # noqa: SIM115 (see finish)
        self.reader, writer = os.pipe()
        self.process: Union[Forked, "subprocess.Popen[bytes]"]
        self.pidfd: Optional[int] = None
        try:
            if importer:
                forked = importer.fork(member, writer)
                self.process = forked
                self.pidfd = forked.ended
            else:
                self.process = _started(member, writer)
        except BaseException:
            self.log.close()
            os.close(self.reader)
            raise
        finally:
            os.close(writer)

        self._stdin = cast(IO[bytes], self.process.stdin)  # a pipe, which Popen may not have
        if not importer and hasattr(os, "pidfd_open"):
            self.pidfd = os.pidfd_open(self.process.pid)
        self._descriptors = [self.reader]
        if self.pidfd is not None:
            self._descriptors.append(self.pidfd)
        self._begin("start")

    @property
    def is_alive(self) -> bool:
        return self.is_working or self.is_waiting

    def watch(self, selector: selectors.BaseSelector) -> None:
        """Has `selector` report what the process writes, and its end."""
        for descriptor in self._descriptors:
            selector.register(descriptor, selectors.EVENT_READ, self)

    def read(self, selector: selectors.BaseSelector) -> None:
        """Reads what the process has written; if it has ended, also ends its children."""
        if not self.is_alive:
            return
        # The process may have ended while a child of it still holds the empty pipe open.
        data = b""
        readable, _, _ = select.select([self.reader], [], [], 0)
        if readable:
            data = os.read(self.reader, 65536)
        if not data:
            self.close(selector)
            return

        self.log.write(data)
        lines = (self.buffer + data).split(b"\n")
        self.buffer = lines.pop()
        for line in lines:
            self._take(self.parse(line))

    def _take(self, event: Optional[Event]) -> None:
        """Notes an event, which may ask for an answer. None: a line that was no event."""
        if event is None:
            self.outcome.garbage += 1
            return
        self.outcome.events.append(event)
        kind = event["event"]
        if kind == "phase_begin":
            self._begin(str(event.get("phase")))
        elif kind == "phase_end":
            self.ended = event.get("phase")
            self._begin(LAST_PHASE)
        self.member.on_event(event)

        if kind == "turn" and event.get("steps") and event.get("seconds"):
            self.step_seconds = event["seconds"] / event["steps"]
        if kind == "gate":
            self.gate_event = event
            self.left = self.deadline - time.monotonic()
            self.is_working = False
            self.is_waiting = True
        elif kind == "handshake":
            self._send(self.answer(self.ended))
            self.ended = None
            self._begin(self.outcome.phase)

    def take_turn(self, turn: Json, *length: int) -> None:
        """Gives it a `turn` of this `length`, in steps: the untimed lead-in, then the timed ones;
        all that are left if it is not given."""
        self.outcome.turns.append(turn)
        self.is_working = True
        self.is_waiting = False
        self.deadline = time.monotonic() + self.left
        line = "turn {}".format(turn["turn"])
        for steps in length:
            line += " {}".format(steps)
        self._send(line)

    def check_limit(self, selector: selectors.BaseSelector) -> None:
        """Ends the member if it exceeds its limit, even if it never stops writing, or if its
        process has ended while a child of it holds the pipe open."""
        if self.is_working and time.monotonic() > self.deadline:
            self.outcome.over_limit = self.outcome.phase
            self.close(selector)
        elif self.is_alive and self.pidfd is None and self.process.poll() is not None:
            self.close(selector)

    def cut_short(self) -> None:
        """Kills the process, because the time for all members is over."""
        if self.is_alive:
            self.outcome.cut = True
            _signal_group(self.process.pid, signal.SIGKILL)

    def close(self, selector: selectors.BaseSelector) -> None:
        """Ends the process, which `selector` no longer watches."""
        for descriptor in self._descriptors:
            selector.unregister(descriptor)
        self.finish()

    def close_stdin(self) -> None:
        """Closes its standard input; a worker that waits for an answer then exits."""
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()

    def finish(self) -> None:
        """Ends the process and its children, and closes all descriptors. Idempotent."""
        if self.log.closed:
            return
        self.is_working = False
        self.is_waiting = False
        try:
            self.close_stdin()
            end_process(self.process)
            self.outcome.exit_code = self.process.wait()
            # A launcher (a shell, a container) exits with 128 + the number of the signal that
            # ended its child.
            if self.outcome.exit_code - 128 in DEADLY:
                self.outcome.exit_code = 128 - self.outcome.exit_code
            self.outcome.log_tail = tail(self.member.log)
        finally:
            self.log.close()
            for descriptor in self._descriptors:
                os.close(descriptor)

    def cpu_seconds(self) -> float:
        """Returns the CPU seconds used by the process and its threads, to a clock tick."""
        stat = proc_files.text("/proc/{}/stat".format(self.process.pid)) or ""
        fields = stat.rpartition(")")[2].split()
        ticks = sum(int(field) for field in fields[11:13])
        return ticks / float(os.sysconf("SC_CLK_TCK"))

    def _begin(self, phase: str) -> None:
        """Begins a phase, which has a limit of its own."""
        self.outcome.phase = phase
        self.deadline = time.monotonic() + self.member.limit(phase)

    def _send(self, line: str) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._stdin.write(line.encode("ascii") + b"\n")
            self._stdin.flush()


def _started(member: Member, writer: int) -> "subprocess.Popen[bytes]":
    """Starts the process of `member`, which writes its events to the descriptor `writer`."""
    environment = dict(member.environment)
    environment["RNNWORKER_EVENTS"] = str(writer)
    environment["RNNWORKER_HANDSHAKE"] = "1"
    with open(str(member.log), "ab") as output:
        return subprocess.Popen(
            member.command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=environment,
            pass_fds=(writer,) + member.inherit,
            start_new_session=True,
        )


def end_process(process: Union["Forked", "subprocess.Popen[bytes]"]) -> None:
    """Ends a process and its children: SIGTERM, then SIGKILL."""
    try:
        process.wait(timeout=GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        _signal_group(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=GRACE_SECONDS)
    _signal_group(process.pid, signal.SIGKILL)


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
