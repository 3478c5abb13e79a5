"""A process that imports a framework once and forks the workers of a round from itself.

``python path/to/rnnworker --import DESCRIPTOR JOB.json``: imports what the framework of the job
names in its ``preload``, which runs nothing, says ``ready`` on the socket DESCRIPTOR, and for each
message there (a job file, with the descriptors of its input, log, events and exit code) forks a
process that does the job as a freshly started one would. The other side is
`rnnworker.forked_workers`.

Standard library only, Python 3.6 syntax, but for the framework.
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
    """Serves until the supervisor closes the socket. Returns an exit code: of a forked worker
    that of its run."""
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
    """Bytes of memory that this process has, files that it has mapped included."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _serve(control):
    """Forks for each message. Returns the job file in a forked process, None in this one once the
    supervisor has gone."""
    reports, children = _exits(), {}
    while True:
        ready, _, _ = select.select([control, reports], [], [])
        if reports in ready:
            os.read(reports, 4096)
            _report(children)
        if control in ready:
            message, descriptors = _message(control)
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


def _exits():
    """A descriptor that can be read when a child has ended."""
    reports, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(writer)
    return reports


def _report(children):
    """Tells the supervisor how each child ended: ``exit N``, negative for a signal."""
    for pid in list(children):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            descriptor = children.pop(pid)
            with contextlib.suppress(BrokenPipeError):  # nobody asks any more; others live on
                os.write(descriptor, "exit {}\n".format(code).encode("ascii"))
            os.close(descriptor)


def _message(control):
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
        # Python 3.12 warns where there are threads; those that importing started hold no lock.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _become(answers, log, events, status):
    """Makes the forked process what a freshly started worker is."""
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
