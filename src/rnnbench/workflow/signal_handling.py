"""Ends Snakemake and all it started within seconds of Ctrl-C, SIGTERM or a closed terminal.

Snakemake 9.27 does not. Its handler of SIGTERM asks for the scheduler's lock, which is not
reentrant, in the very thread that holds it while it chooses among the ready jobs: with 2,000
ready that is most of the time, and the process waits for itself for ever. Where it does not, it
waits for the running job, however long that takes, and so does its answer to a SIGINT that only
it received.
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
KIND_SECONDS = 7.0  # a conductor gives its worker twice three seconds


def install(last_words: Callable[[], str], local: bool) -> None:
    """From now on a signal ends this process, its jobs and what these started.

    **Arguments:**

    - `last_words`: makes the last line a person reads.
    - `local`: False where jobs are on a cluster: Snakemake knows how to cancel them there.
    """

    def stop(number: int, frame: object) -> None:
        for other in SIGNALS:
            signal.signal(other, _at_once if local else signal.SIG_DFL)
        if not local:
            raise KeyboardInterrupt
        logging.getLogger("snakemake.logging").disabled = True
        end_descendants(os.getpid())
        _say(f"rnnbench: interrupted: {last_words()}\n")
        _leave(number)

    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup would have it
            signal.signal(number, stop)


def end_descendants(process: int, seconds: float = KIND_SECONDS) -> None:
    """SIGTERM to the children of `process`, and SIGKILL to whatever of all its descendants is
    there after `seconds`."""
    all_of_them = [_handle(pid) for pid in descendants(process)]
    for child in children(process):
        _send(_handle(child), signal.SIGTERM)
    deadline = time.monotonic() + seconds
    while children(process) and time.monotonic() < deadline:
        time.sleep(0.05)
    later = [_handle(pid) for pid in descendants(process)]
    for handle in (*all_of_them, *later):
        _send(handle, signal.SIGKILL)


def descendants(process: int) -> list[int]:
    found = list(children(process))
    for child in found:
        found += children(child)
    return found


def children(process: int) -> list[int]:
    """The living children of `process`, whichever of its threads started them."""
    found: list[int] = []
    for task in _tasks(process):
        with suppress(OSError):
            found += [int(pid) for pid in (task / "children").read_text().split()]
    return [pid for pid in found if _lives(pid)]


def _tasks(process: int) -> Iterable[Path]:
    try:
        return list(Path(f"/proc/{process}/task").iterdir())
    except OSError:
        return ()


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def _handle(pid: int) -> int | None:
    """A descriptor of this very process: its number alone may be given to another one."""
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
    _leave(number)


def _leave(number: int) -> None:
    """Without Snakemake's own end: its threads and locks may be in any state. What it marked
    as incomplete is made again (``rerun-incomplete``), our locks end with this process."""
    with suppress(OSError, ValueError, RuntimeError):
        sys.stdout.flush()
    os._exit(128 + number)


def _say(text: str) -> None:
    """Past sys.stderr, which the signal may have interrupted in the midst of a write."""
    with suppress(OSError):
        os.write(2, text.encode())
