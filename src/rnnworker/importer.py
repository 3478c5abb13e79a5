"""Imports a framework once and forks the workers of a round.

``python path/to/rnnworker --import DESCRIPTOR JOB.json`` calls the ``preload`` of the job's
framework, which imports modules but runs no op, and sends ``ready`` on the socket DESCRIPTOR. For
each message on the socket (a job file, with the descriptors of its input, log, events and exit
code), it forks a process that does the job as a freshly started one would. The supervisor's side
is `rnnworker.forked_workers`.

Standard library only, except for the framework; Python 3.6 syntax.
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
import warnings

from rnnworker import run

DESCRIPTORS = 4
LONGEST = 65536


def main(arguments):
    """Serves until the supervisor closes the socket. Returns the exit code: 0 in the importer, that
    of the run in a forked worker."""
    control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=int(arguments[0]))
    with open(arguments[1]) as file:
        job = json.load(file)
    run.die_with_parent(job.get("parent"))
    begin = time.monotonic()
    config = job["config"]
    session = importlib.import_module("rnnworker.frameworks." + config["build"]["framework"])
    session.preload(config)
    took, resident = time.monotonic() - begin, _resident()
    control.send(b"ready")
    job_file = _serve(control)
    if not job_file:
        return 0
    return run.main([job_file], run.Imported(took, resident - _resident()))


def _resident():
    """Returns the resident memory of this process in bytes, including mapped files."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _serve(control):
    """Forks a process for each message. Returns the job file in a forked process; returns None in
    the importer once the supervisor has closed the socket."""
    reports, children = _child_exits(), {}
    while True:
        ready, _, _ = select.select([control, reports], [], [])
        if reports in ready:
            os.read(reports, 4096)
            _report_exits(children)
        if control in ready:
            message, descriptors = _receive(control)
            if not message:
                return None
            pid = _fork()
            if pid == 0:
                control.close()
                for status in children.values():
                    os.close(status)
                _become(*descriptors)
                return message
            for descriptor in descriptors[:-1]:
                os.close(descriptor)
            children[pid] = descriptors[-1]


def _child_exits():
    """Returns a descriptor that becomes readable when a child has ended."""
    reports, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(writer)
    return reports


def _report_exits(children):
    """Reports to the supervisor how each child ended: ``exit N``, negative for a signal."""
    for pid in list(children):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            descriptor = children.pop(pid)
            with contextlib.suppress(BrokenPipeError):  # the supervisor has closed this one
                os.write(descriptor, "exit {}\n".format(code).encode("ascii"))
            os.close(descriptor)


def _receive(control):
    descriptors = array.array("i")
    space = socket.CMSG_LEN(DESCRIPTORS * descriptors.itemsize)
    message, ancillary, _, _ = control.recvmsg(LONGEST, space)
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    return message.decode("utf-8"), list(descriptors)


def _fork():
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        # Python 3.12 warns if there are threads; those started by imports hold no lock.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _become(answers, log, events, status):
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
