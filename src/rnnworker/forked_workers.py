"""The supervisor's side of workers that are forked from an `importer`.

Standard library only, Python 3.6 syntax: the controller and bundles use it.
"""

import array
import hashlib
import os
import select
import selectors
import socket
import subprocess
import time

from rnnworker.members import SIGKILLED

# The folder with the sockets of the importers that a workflow has started for all of its jobs.
FOLDER = "RNNBENCH_IMPORTERS"
# These differ between the processes of a workflow and change nothing that an import reads.
VARIABLE = ("_", "SHLVL", "PWD", "OLDPWD", "TMPDIR", "TMP", "TEMP", "TEMPDIR")


def kind_of(start, environment):
    """Returns the name of the socket of an importer for members with the command `start` (without
    the job file) and `environment`."""
    kept = sorted(
        (name, value)
        for name, value in environment.items()
        if name not in VARIABLE and not name.startswith("RNNBENCH_")
    )
    return hashlib.sha256(repr((list(start), kept)).encode("utf-8")).hexdigest()[:16]


class Importers:
    """The importers of a round's members: the workflow's, or one for each group of two or more
    members with the same command and environment."""

    def __init__(self, members):
        kinds = [_kind(member) for member in members if member.forks]
        self._wanted = {kind for kind in kinds if kinds.count(kind) > 1 or _address(kind)}
        self._started = {}

    def importer_for(self, member, selector):
        """Returns the importer from which to fork `member`, started if necessary; it can fork once
        it is `ready`. Returns None if `member` is to be started on its own."""
        kind = _kind(member)
        if not member.forks or kind not in self._wanted:
            return None
        if kind not in self._started:
            self._started[kind] = _joined(kind, member) or Importer(member)
            self._started[kind].watch(selector)
        importer = self._started[kind]
        return None if importer.gone else importer

    def importing(self):
        """Returns the importers that are not ready yet."""
        importers = self._started.values()
        return [importer for importer in importers if not importer.ready and not importer.gone]

    def finish(self):
        for importer in self._started.values():
            importer.finish()


def _kind(member):
    return kind_of(member.command[:-1], member.environment)


def _address(kind):
    """Returns the socket file of the workflow's importer of this `kind`; None if there is none."""
    path = os.path.join(os.environ.get(FOLDER, ""), kind)
    return path if os.environ.get(FOLDER) and os.path.exists(path) else None


def _joined(kind, member):
    """Returns the workflow's importer of this `kind`, if it has one that is alive."""
    address = _address(kind)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.connect(address or "")
    except OSError:
        connection.close()
        return None
    return Importer(member, connection)


class Importer:
    """One importer process, started for `member` and logging to its file, or the one at the other
    end of `connection`. With the socket `listener`, it also serves those that connect to it."""

    def __init__(self, member, connection=None, listener=None):
        self.ready = self.gone = False
        self.deadline = time.monotonic() + member.limit("import")
        self._process = None
        if connection:
            self._socket = connection
            return
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        start, job_file = list(member.command[:-1]), member.command[-1]
        passed = [theirs.fileno()] + ([listener.fileno()] if listener else [])
        arguments = ["--import", str(passed[0]), job_file] + [str(fd) for fd in passed[1:]]
        with theirs, open(str(member.log), "ab") as output:
            self._process = subprocess.Popen(
                start + arguments,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=member.environment,
                pass_fds=tuple(passed) + tuple(member.inherit),
                start_new_session=True,
            )

    def watch(self, selector):
        selector.register(self._socket, selectors.EVENT_READ, self)

    def read(self, selector):
        """Reads from the socket that the importer is ready, or that it has ended."""
        selector.unregister(self._socket)
        self.ready = self._socket.recv(64) == b"ready"
        self.gone = not self.ready

    def check_limit(self, selector):
        """Kills the importer at its limit; its members then start on their own."""
        if not self.ready and not self.gone and time.monotonic() > self.deadline:
            selector.unregister(self._socket)
            self.gone = True
            if self._process:
                self._process.kill()

    def fork(self, member, events):
        """Forks a process that does the job of `member` and writes to the descriptor `events`.
        Raises OSError if the importer has ended."""
        answers, stdin = os.pipe()
        reports, status = os.pipe()
        try:
            with open(str(member.log), "ab") as output:
                passed = array.array("i", [status, answers, output.fileno(), events])
                passed.extend(member.inherit)
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)]
                self._socket.sendmsg([member.command[-1].encode("utf-8")], rights)
        except BaseException:
            os.close(stdin)
            os.close(reports)
            raise
        finally:
            os.close(answers)
            os.close(status)
        return Forked(stdin, reports)

    def finish(self):
        """Ends the importer. Its children have ended by then, or are killed with it."""
        self._socket.close()
        if not self._process:
            return
        try:
            self._process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Forked:
    """A child of the importer, with the part of `subprocess.Popen`'s interface that
    `members.Running` needs. Its descriptor `ended` becomes readable at its end; the caller closes
    it."""

    def __init__(self, stdin, reports):
        self.stdin = os.fdopen(stdin, "wb")
        self.ended = reports
        self._buffer = b""
        self._code = None
        self.pid = self._read_pid()

    def _read_pid(self):
        line = self._read_line()
        if line is None:
            self.stdin.close()
            os.close(self.ended)
            raise OSError("the importer process has ended")
        return int(line)

    def poll(self):
        """Returns the exit code; None while running, -9 if its importer has ended (killing it)."""
        if self._code is None and self._ready(0):
            line = self._read_line()
            self._code = SIGKILLED if line is None else int(line.split()[1])
        return self._code

    def wait(self, timeout=None):
        if self._code is None:
            self._ready(timeout)
        if self.poll() is None:
            raise subprocess.TimeoutExpired("a forked worker", timeout)
        return self._code

    def _ready(self, timeout):
        return b"\n" in self._buffer or select.select([self.ended], [], [], timeout)[0]

    def _read_line(self):
        """Returns the next line of the importer's report on the process; None at the end."""
        while b"\n" not in self._buffer:
            data = os.read(self.ended, 64)
            if not data:
                return None
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode("ascii")
