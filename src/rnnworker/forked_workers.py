"""Workers that are forked from an `importer`, as their supervisor sees them.

Standard library only, Python 3.6 syntax: the conductor and bundles use it.
"""

import array
import os
import select
import selectors
import socket
import subprocess
import time

from rnnworker.members import SIGKILLED


class Importers:
    """The importers of a round: one for all members that are started alike, where there are two
    or more of them."""

    def __init__(self, members):
        kinds = [_kind(member) for member in members if member.forks]
        self._wanted = {kind for kind in kinds if kinds.count(kind) > 1}
        self._started = {}

    def of(self, member, selector):
        """The importer that `member` is forked from, started now where it was not; None where it
        is to be started by itself. Its `ready` says whether it can be asked already."""
        kind = _kind(member)
        if not member.forks or kind not in self._wanted:
            return None
        if kind not in self._started:
            self._started[kind] = one = Importer(member)
            one.watch(selector)
        found = self._started[kind]
        return None if found.gone else found

    def importing(self):
        """Those that have not said yet that they are ready."""
        return [one for one in self._started.values() if not one.ready and not one.gone]

    def finish(self):
        for one in self._started.values():
            one.finish()


def _kind(member):
    return (tuple(member.command[:-1]), tuple(sorted(member.environment.items())), member.inherit)


class Importer:
    """One importer process. What it prints goes to the log of the member it was started for."""

    def __init__(self, member):
        self.ready = self.gone = False
        self.deadline = time.monotonic() + member.limit("import")
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        start, job_file = list(member.command[:-1]), member.command[-1]
        with theirs, open(str(member.log), "ab") as output:
            self._process = subprocess.Popen(
                start + ["--import", str(theirs.fileno()), job_file],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=member.environment,
                pass_fds=(theirs.fileno(),) + tuple(member.inherit),
                start_new_session=True,
            )

    def watch(self, selector):
        selector.register(self._socket, selectors.EVENT_READ, self)

    def read(self, selector):
        """It has said that it is ready, or it has ended."""
        selector.unregister(self._socket)
        self.ready = self._socket.recv(64) == b"ready"
        self.gone = not self.ready

    def check_limit(self, selector):
        """One that imports for longer than a worker may is given up; its members start by
        themselves."""
        if not self.ready and not self.gone and time.monotonic() > self.deadline:
            selector.unregister(self._socket)
            self.gone = True
            self._process.kill()

    def fork(self, member, events):
        """A process that does the job of `member` and writes to the descriptor `events`. Raises
        `OSError` where the importer is gone."""
        answers, told = os.pipe()
        reports, status = os.pipe()
        try:
            with open(str(member.log), "ab") as output:
                passed = array.array("i", [answers, output.fileno(), events, status])
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)]
                self._socket.sendmsg([member.command[-1].encode("utf-8")], rights)
        except BaseException:
            os.close(told)
            os.close(reports)
            raise
        finally:
            os.close(answers)
            os.close(status)
        return Forked(told, reports)

    def finish(self):
        """Ends it. Its children are gone by then, or are killed with it."""
        self._socket.close()
        try:
            self._process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Forked:
    """As much of `subprocess.Popen` as `members.Running` needs, of another's child. `ended` is a
    descriptor that can be read when the process has ended; its owner closes it."""

    def __init__(self, told, reports):
        self.stdin = os.fdopen(told, "wb")
        self.ended = reports
        self._told = b""
        self._code = None
        self.pid = self._first()

    def _first(self):
        line = self._line()
        if line is None:
            self.stdin.close()
            os.close(self.ended)
            raise OSError("the process that imports for the others has ended")
        return int(line)

    def poll(self):
        """The exit code, None while it runs; without its importer it has been killed."""
        if self._code is None and self._ready(0):
            line = self._line()
            self._code = SIGKILLED if line is None else int(line.split()[1])
        return self._code

    def wait(self, timeout=None):
        if self._code is None:
            self._ready(timeout)
        if self.poll() is None:
            raise subprocess.TimeoutExpired("a forked worker", timeout)
        return self._code

    def _ready(self, timeout):
        return b"\n" in self._told or select.select([self.ended], [], [], timeout)[0]

    def _line(self):
        """The next line of its report; None at the end."""
        while b"\n" not in self._told:
            data = os.read(self.ended, 64)
            if not data:
                return None
            self._told += data
        line, _, self._told = self._told.partition(b"\n")
        return line.decode("ascii")
