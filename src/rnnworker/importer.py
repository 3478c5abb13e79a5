"""Imports a framework once and forks workers: those of a round, or of all rounds of a loop.

``python path/to/rnnworker --import JOB.json DESCRIPTOR`` calls the ``preload`` of the job's
framework, or that of `serving.answering` for a job with ``imports``. It imports modules but runs no
op. Then it sends ``ready`` on the socket DESCRIPTOR. For each message on it (a job file, with the
descriptors of the worker's exit code, input, log and events, and those that it inherits), it forks
a process that does the job as a freshly started one would. It ends when its owner closes the
socket. The supervisor's side is `rnnworker.forked_workers`.
"""

import contextlib
import importlib
import json
import os
import select
import socket
import sys
import time
import traceback
import warnings
from typing import Dict, Optional, Tuple

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
        begin = time.monotonic()  # of what the runtime needs, without this project's modules
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
    forked_for = serve(owner)
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


def serve(owner: socket.socket) -> Optional[str]:
    """Forks a worker for each message of the `owner`, and reports the exit code of each that ends.
    Returns the job file in a worker; in the importer None, once the owner has closed its socket."""
    # Descriptor that is readable once a worker has ended → its process, and the descriptor for its
    # exit code.
    workers: Dict[int, Tuple[int, int]] = {}
    while True:
        ready, _, _ = select.select([owner.fileno(), *workers], [], [])
        for ended in workers.keys() & set(ready):
            _report_exit(*workers.pop(ended))
            os.close(ended)
        if owner.fileno() not in ready:
            continue
        try:
            message, descriptors, _, _ = socket.recv_fds(owner, LONGEST, DESCRIPTORS)
        except ConnectionError:
            return None
        if not message:
            return None
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            # Python 3.12 warns if there are threads; those started by imports hold no lock.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if not pid:
            owner.close()
            for ended, (_, status) in workers.items():
                os.close(ended)
                os.close(status)
            _become(*descriptors[:4])
            return message.decode("utf-8")
        for descriptor in descriptors[1:]:
            os.close(descriptor)
        workers[os.pidfd_open(pid)] = pid, descriptors[0]


def _report_exit(pid: int, descriptor: int) -> None:
    """Writes the exit code of a worker that has ended, negative for a signal."""
    _, status = os.waitpid(pid, 0)
    code = os.WEXITSTATUS(status)
    if os.WIFSIGNALED(status):
        code = -os.WTERMSIG(status)
    with contextlib.suppress(BrokenPipeError):  # the supervisor has closed this one
        os.write(descriptor, "{}\n".format(code).encode("ascii"))
    os.close(descriptor)


def _become(status: int, answers: int, log: int, events: int) -> None:
    """Gives the forked process the descriptors and settings of a freshly started worker."""
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
