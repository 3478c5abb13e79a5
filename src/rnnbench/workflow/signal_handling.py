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
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SIGTERM_SECONDS = 7.0  # a controller gives its worker twice three seconds


def install(last_message: Callable[[], str], local: bool) -> None:
    """Installs handlers with which a signal ends this process, its jobs and their descendants.

    **Arguments:**

    - `last_message`: returns the last line to print.
    - `local`: False if jobs run on a cluster, where Snakemake cancels them itself.
    """

    def stop(number: int, frame: object) -> None:
        for other in SIGNALS:
            signal.signal(other, _at_once if local else signal.SIG_DFL)
        if not local:
            raise KeyboardInterrupt
        logging.getLogger("snakemake.logging").disabled = True
        end_descendants(os.getpid())
        _print_error(f"rnnbench: interrupted: {last_message()}\n")
        _exit(number)

    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, stop)


def end_descendants(process: int, seconds: float = SIGTERM_SECONDS) -> None:
    """Sends SIGTERM to the children of `process` and, after at most `seconds`, SIGKILL to all
    descendants that are left."""
    before = [_handle(pid) for pid in descendants(process)]
    for child in children(process):
        _send(_handle(child), signal.SIGTERM)
    deadline = time.monotonic() + seconds
    while children(process) and time.monotonic() < deadline:
        time.sleep(0.05)
    after = [_handle(pid) for pid in descendants(process)]
    for handle in (*before, *after):
        _send(handle, signal.SIGKILL)


def descendants(process: int) -> list[int]:
    pids = children(process)
    for pid in pids:  # grows while it is read
        pids += children(pid)
    return pids


def children(process: int) -> list[int]:
    """The running children of all threads of `process`."""
    pids: list[int] = []
    for task in _tasks(process):
        with suppress(OSError):
            pids += [int(pid) for pid in (task / "children").read_text().split()]
    return [pid for pid in pids if _is_running(pid)]


def _tasks(process: int) -> Iterable[Path]:
    try:
        return list(Path(f"/proc/{process}/task").iterdir())
    except OSError:
        return ()


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def _handle(pid: int) -> int | None:
    """A descriptor of the process: its number alone may be reused for another one."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def _send(handle: int | None, number: int) -> None:
    with suppress(OSError):
        if handle is not None:
            signal.pidfd_send_signal(handle, number)


def _at_once(number: int, frame: object) -> None:
    for pid in descendants(os.getpid()):
        _send(_handle(pid), signal.SIGKILL)
    _exit(number)


def _exit(number: int) -> None:
    """Ends without Snakemake's cleanup: its threads and locks may be in any state. Incomplete
    files are made again (``rerun-incomplete``), and rnnbench's locks end with this process."""
    with suppress(OSError, ValueError, RuntimeError):
        sys.stdout.flush()
    os._exit(128 + number)


def _print_error(text: str) -> None:
    """Bypasses `sys.stderr`, which the signal may have interrupted during a write."""
    with suppress(OSError):
        os.write(2, text.encode())
