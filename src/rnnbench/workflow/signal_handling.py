"""Ends Snakemake and all its descendants within seconds of SIGINT, SIGTERM or SIGHUP.

Snakemake 9.27 does not. Its SIGTERM handler acquires the scheduler's lock, which is not reentrant,
in the thread that holds it while it selects jobs. With 2,000 ready jobs that is most of the time,
and the process deadlocks. Otherwise the handler waits for the running job, however long that takes,
as it does after a SIGINT that only Snakemake received.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress

import psutil

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SIGTERM_SECONDS = 7.0  # a controller gives its worker twice three seconds


def install(last_message: Callable[[], str], local: bool) -> None:
    """Installs handlers with which a signal ends this process, its jobs and their descendants.
    `last_message` returns the last line to print; `local` is False if jobs run on a cluster, where
    Snakemake cancels them itself."""

    def stop(number: int, frame: object) -> None:
        for other in SIGNALS:
            signal.signal(other, _at_once if local else signal.SIG_DFL)
        if not local:
            raise KeyboardInterrupt

        logging.getLogger("snakemake.logging").disabled = True
        end_descendants(os.getpid())
        # Not through `sys.stderr`, which the signal may have interrupted during a write.
        with suppress(OSError):
            os.write(2, f"rnnbench: interrupted: {last_message()}\n".encode())
        _exit(number)

    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, stop)


def end_descendants(pid: int, seconds: float = SIGTERM_SECONDS) -> None:
    """Sends SIGTERM to the children of the process and, after at most `seconds`, SIGKILL to all
    descendants that are left."""
    process = psutil.Process(pid)
    before = process.children(recursive=True)
    for child in process.children():
        _quietly(child.terminate)
    deadline = time.monotonic() + seconds
    # Not psutil.wait_procs: it takes the exit codes, without which Snakemake reads success.
    while any(map(is_running, process.children())) and time.monotonic() < deadline:
        time.sleep(0.05)
    for descendant in {*before, *process.children(recursive=True)}:
        _quietly(descendant.kill)


def is_running(process: psutil.Process) -> bool:
    """Whether the process exists and is not a zombie."""
    with suppress(psutil.NoSuchProcess):
        return process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    return False


def _quietly(send: Callable[[], None]) -> None:
    with suppress(psutil.Error):
        send()


def _at_once(number: int, frame: object) -> None:
    """The handler of a second signal."""
    for descendant in psutil.Process().children(recursive=True):
        _quietly(descendant.kill)
    _exit(number)


def _exit(number: int) -> None:
    """Ends without Snakemake's cleanup: its threads and locks may be in any state. Incomplete
    files are made again (``rerun-incomplete``), and rnnbench's locks end with this process."""
    with suppress(OSError, ValueError, RuntimeError):
        sys.stdout.flush()
    os._exit(128 + number)
