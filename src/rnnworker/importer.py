"""Imports a framework once and forks workers: those of a round, or of all rounds of a loop.

``python path/to/rnnworker --import JOB.json DESCRIPTOR`` calls the ``preload`` of the job's
framework, or that of `serving.answering` for a job with ``imports``. It imports modules but runs no
op. Then it sends ``ready`` on the socket DESCRIPTOR. For
each message on it (a job file, with the descriptors of the worker's exit code, input, log and
events, and those that it inherits), it forks a process that does the job as a freshly started one
would. It ends when its owner closes the socket. The supervisor's side is
`rnnworker.forked_workers`.
"""

import array
import contextlib
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
import traceback
import warnings
from typing import Dict, List, Optional, Tuple, Union

from rnnworker import proc_files, run, turns
from rnnworker.frameworks.names import FRAMEWORKS

DESCRIPTORS = 16
LONGEST = 65536
STATUS = "/proc/self/status"


def main(job_file: str, descriptor: str) -> int:
    """Serves until the owner closes the socket with this `descriptor`. Returns the exit code of the
    importer; a forked worker ends here with that of its run."""
    with open(job_file) as file:
        job = json.load(file)
    run.die_with_parent(job.get("parent"))

    begin = time.monotonic()
    execute = run.main
    if "imports" in job:
        # By name, so that it does not count towards the digest of a run.
        answering = importlib.import_module("rnnworker.serving.answering")
        execute = answering.main
        begin = time.monotonic()
        answering.preload(job["imports"])
    else:
        config = job["config"]
        framework = FRAMEWORKS[config["build"]["framework"]]
        session = importlib.import_module("rnnworker.frameworks." + framework.module)
        session.preload(config)
    turns.collect_and_freeze()  # no collection in a worker looks at the modules, and copies them
    took = time.monotonic() - begin
    resident = proc_files.memory_bytes("VmRSS", STATUS) or 0

    owner = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=int(descriptor))
    owner.send(b"ready")
    forked_for = _Importer(owner).serve()
    if not forked_for:
        return 0
    left = proc_files.memory_bytes("VmRSS", STATUS) or 0
    imported = run.Imported(took, resident - left)
    code = 1
    try:
        code = execute([forked_for], imported)
    except Exception:  # as the process of a script would print it
        traceback.print_exc()
    run.end_fork(code)


class _Importer:
    """The event loop of the importer over the socket of its owner and the ends of workers."""

    def __init__(self, owner: socket.socket) -> None:
        self.owner = owner
        self.workers: Dict[int, int] = {}  # process → descriptor for its exit code
        # The end of a child makes a descriptor readable.
        self.child_ends, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(writer)

    def serve(self) -> Optional[str]:
        """Forks a process for each message. Returns the job file in a forked process; returns None
        in the importer once the owner has closed its socket."""
        watched: List[Union[int, socket.socket]] = [self.child_ends, self.owner]
        while True:
            ready, _, _ = select.select(watched, [], [])
            if self.child_ends in ready:
                os.read(self.child_ends, 4096)
                _report_exits(self.workers)
            if self.owner in ready:
                job_file, descriptors = _receive(self.owner)
                if not job_file:
                    return None
                if self._is_forked(descriptors):
                    return job_file

    def _is_forked(self, descriptors: List[int]) -> bool:
        """Forks a worker. Returns True in the worker, False in the importer."""
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            # Python 3.12 warns if there are threads; those started by imports hold no lock.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()

        if pid:
            for descriptor in descriptors[1:]:
                os.close(descriptor)
            self.workers[pid] = descriptors[0]
            return False
        self.owner.close()
        for status in self.workers.values():
            os.close(status)
        _become(*descriptors[:4])
        return True


def _report_exits(children: Dict[int, int]) -> None:
    """Reports to the supervisor the exit code of each child that ended, negative for a signal."""
    for pid in list(children):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            if os.WIFSIGNALED(status):
                code = -os.WTERMSIG(status)
            else:
                code = os.WEXITSTATUS(status)
            descriptor = children.pop(pid)
            with contextlib.suppress(BrokenPipeError):  # the supervisor has closed this one
                os.write(descriptor, "{}\n".format(code).encode("ascii"))
            os.close(descriptor)


def _receive(connection: socket.socket) -> Tuple[str, List[int]]:
    """Returns the job file of a message and the descriptors that came with it; "" and none if the
    connection has been closed."""
    descriptors = array.array("i")
    space = socket.CMSG_LEN(DESCRIPTORS * descriptors.itemsize)
    try:
        message, ancillary, _, _ = connection.recvmsg(LONGEST, space)
    except ConnectionError:
        return "", []
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            whole = len(data) - len(data) % descriptors.itemsize
            descriptors.frombytes(data[:whole])
    return message.decode("utf-8"), list(descriptors)


def _become(status: int, answers: int, log: int, events: int) -> None:
    """Gives the forked process the descriptors and settings of a freshly started worker."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    run.die_with_parent(os.getppid())
    os.setsid()
    os.dup2(answers, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ["RNNWORKER_EVENTS"] = str(events)
    os.environ["RNNWORKER_HANDSHAKE"] = "1"
    for descriptor in (answers, log):
        os.close(descriptor)
    os.write(status, "{}\n".format(os.getpid()).encode("ascii"))
    os.close(status)
