"""The supervisor's side of workers that are forked from an `importer`."""

import hashlib
import os
import select
import selectors
import socket
import subprocess
import time
from typing import Dict, List, Optional, Sequence, Set

from rnnworker.frameworks.names import FRAMEWORKS
from rnnworker.json_types import Config
from rnnworker.members import SIGKILLED, Member

# These differ between the processes of a workflow and change nothing that an import reads.
VARIABLE = ("_", "SHLVL", "PWD", "OLDPWD", "TMPDIR", "TMP", "TEMP", "TEMPDIR")


def may_fork(config: Config) -> bool:
    """Returns whether runs with `config` may be forked from a process that has imported their
    framework: only if that was shown to change nothing (`can_fork`), never with a GPU, and never
    through a launcher, which may use separate process numbers and descriptors. Not by a Python
    before 3.9, which cannot pass descriptors on."""
    build = config["build"]
    if not hasattr(socket, "send_fds"):
        return False
    if config["device"].get("kind") != "cpu" or build.get("command"):
        return False
    known = FRAMEWORKS.get(build["framework"])
    return known is not None and known.can_fork


def kind_of(member: Member) -> str:
    """Returns what an importer for `member` has in common with it: a digest of the command, without
    the job file, and of the environment."""
    kept = []
    for name, value in sorted(member.environment.items()):
        if name not in VARIABLE and not name.startswith("RNNBENCH_"):
            kept.append((name, value))
    process = repr((member.command[:-1], kept))
    return hashlib.sha256(process.encode("utf-8")).hexdigest()[:16]


class Importers:
    """The importers of a loop over rounds, one for each kind of its members that may be forked, as
    many as there are cores: for another one, one that the round does not need ends. They last until
    `end`."""

    def __init__(self) -> None:
        # Kind → its importer, the one that was needed last at the end.
        self._kept: Dict[str, Importer] = {}
        self._kinds: Set[str] = set()  # of the round's members
        self._asked: Dict[str, Importer] = {}  # kind → importer that this round has asked for

    def begin(self, members: Sequence[Member]) -> None:
        """Begins a round of `members`."""
        self._kinds = {kind_of(member) for member in members if member.forks}
        self._asked = {}

    def importer_for(
        self, member: Member, selector: selectors.BaseSelector
    ) -> Optional["Importer"]:
        """Returns the importer from which to fork `member`, started if necessary; it can fork once
        it is `ready`. Returns None if `member` is to be started on its own."""
        if not member.forks:
            return None
        kind = kind_of(member)
        if kind not in self._asked:
            self._asked[kind] = self._obtained(kind, member)
            if self._asked[kind].is_working:
                self._asked[kind].watch(selector)
        importer = self._asked[kind]
        return None if importer.gone else importer

    def _obtained(self, kind: str, member: Member) -> "Importer":
        """Returns an importer of this `kind`, started for `member` if there is none."""
        kept = self._kept.pop(kind, None)
        if kept and kept.gone and kept.ready:  # it has died
            kept.finish()
            kept = None
        if kept is None:
            others = [other for other in self._kept if other not in self._kinds]
            most = len(os.sched_getaffinity(0))
            while others and len(self._kept) >= most:
                self._kept.pop(others.pop(0)).finish()
            kept = Importer(member._replace(inherit=()))  # it outlives the locks of this round
        self._kept[kind] = kept
        return kept

    def started(self) -> List["Importer"]:
        """Returns the importers that this round has asked for."""
        return list(self._asked.values())

    def end(self) -> None:
        """Ends all of them."""
        for importer in self._kept.values():
            importer.finish()
        self._kept = {}


class Importer:
    """One importer process, started for `member` and logging to its file."""

    def __init__(self, member: Member) -> None:
        self.ready = False
        self.gone = False
        self.deadline = time.monotonic() + member.limit("import")
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = list(member.command)
        command.insert(-1, "--import")
        command.append(str(theirs.fileno()))
        with theirs, open(str(member.log), "ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=member.environment,
                pass_fds=[theirs.fileno()] + list(member.inherit),
                start_new_session=True,
            )

    @property
    def is_working(self) -> bool:
        return not self.ready and not self.gone

    def watch(self, selector: selectors.BaseSelector) -> None:
        selector.register(self._socket, selectors.EVENT_READ, self)

    def read(self, selector: selectors.BaseSelector) -> None:
        """Reads from the socket that the importer is ready, or that it has ended."""
        selector.unregister(self._socket)
        self._read()

    def check_limit(self, selector: selectors.BaseSelector) -> None:
        """Kills the importer at its limit; its members then start on their own."""
        if self.is_working and time.monotonic() > self.deadline:
            selector.unregister(self._socket)
            self._kill()

    def wait(self) -> bool:
        """Waits until the importer is `ready`, has ended, or is killed at its limit. Returns
        whether it was not too late."""
        seconds = max(0.0, self.deadline - time.monotonic())
        in_time, _, _ = select.select([self._socket], [], [], seconds)
        if in_time:
            self._read()
        else:
            self._kill()
        return bool(in_time)

    def _read(self) -> None:
        self.ready = self._socket.recv(64) == b"ready"
        self.gone = not self.ready

    def _kill(self) -> None:
        self.gone = True
        self._process.kill()

    def fork(self, member: Member, events: int) -> "Forked":
        """Forks a process that does the job of `member` and writes to the descriptor `events`.
        Raises OSError if the importer has ended."""
        answers, stdin = os.pipe()
        reports, status = os.pipe()
        try:
            with open(str(member.log), "ab") as output:
                passed = [status, answers, output.fileno(), events, *member.inherit]
                socket.send_fds(self._socket, [member.command[-1].encode("utf-8")], passed)
        except BaseException:
            os.close(stdin)
            os.close(reports)
            raise
        finally:
            os.close(answers)
            os.close(status)
        return Forked(stdin, reports)

    def finish(self) -> None:
        """Ends the importer. Its children have ended by then, or are killed with it."""
        self._socket.close()
        try:
            self._process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Forked:
    """A child of the importer, with the part of `subprocess.Popen`'s interface that
    `members.Running` needs. Its descriptor `ended`, on which the importer writes the lines PID and
    exit code, becomes readable at its end; the caller closes it."""

    def __init__(self, stdin: int, ended: int) -> None:
        self.stdin = os.fdopen(stdin, "wb")
        self.ended = ended
        self._lines = os.fdopen(ended, "rb", 0, closefd=False)  # without a buffer, for `select`
        self._code: Optional[int] = None
        line = self._lines.readline()
        if not line:
            self.stdin.close()
            os.close(ended)
            raise OSError("the importer process has ended")
        self.pid = int(line)

    def poll(self, timeout: Optional[float] = 0) -> Optional[int]:
        """Returns the exit code; None while running, -9 if its importer has ended (killing it)."""
        if self._code is None:
            has_ended, _, _ = select.select([self.ended], [], [], timeout)
            if has_ended:
                self._code = int(self._lines.readline() or SIGKILLED)
        return self._code

    def wait(self, timeout: Optional[float] = None) -> int:
        """Returns the exit code. Raises `subprocess.TimeoutExpired` after `timeout` seconds."""
        code = self.poll(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("a forked worker", timeout or 0.0)
        return code
