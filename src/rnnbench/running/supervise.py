"""Runs one worker process: reads its events, answers its handshakes, ends it at a limit.

The process that waits here is asleep while the worker is timed; it imports nothing heavy.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rnnbench.records import strict

Event = dict[str, Any]
GRACE_SECONDS = 3.0
LAST_PHASE = "end"
SIGKILLED = -9
DEADLY = (
    signal.SIGABRT,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGKILL,
    signal.SIGSEGV,
)


@dataclass
class Outcome:
    """What a worker process left behind. `exit_code` is negative for a signal; `garbage`
    counts lines that were no events; `over_limit` names the phase that took too long."""

    events: list[Event] = field(default_factory=list)
    exit_code: int = 0
    garbage: int = 0
    over_limit: str | None = None
    phase: str = "start"


def supervise(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    log: Path,
    events_file: Path,
    limits: Mapping[str, float],
    inherit: Sequence[int] = (),
    on_event: Callable[[Event], None] = lambda event: None,
    on_handshake: Callable[[list[Event]], None] = lambda events: None,
) -> Outcome:
    """Starts `command` and returns when it and its children are gone.

    **Arguments:**

    - `environment`: the whole environment of the worker.
    - `log`: takes its standard output and error.
    - `events_file`: takes its events as they come.
    - `limits`: seconds by phase; ``default`` for the others.
    - `inherit`: descriptors (locks) the worker holds too.
    - `on_event`, `on_handshake`: called at each event, and while the worker waits.
    """
    reader, writer = os.pipe()
    outcome = Outcome()
    try:
        with log.open("ab") as output:
            worker = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={**environment, "RNNWORKER_EVENTS": str(writer), "RNNWORKER_HANDSHAKE": "1"},
                pass_fds=(writer, *inherit),
                start_new_session=True,
            )
        os.close(writer)
        writer = -1
        with events_file.open("ab", buffering=0) as kept:
            try:
                _follow(worker, reader, kept, limits, outcome, on_event, on_handshake)
            finally:
                _end(worker)
        outcome.exit_code = _as_signal(worker.wait())
    finally:
        os.close(reader)
        if writer >= 0:
            os.close(writer)
    return outcome


def _follow(worker, reader, kept, limits, outcome, on_event, on_handshake) -> None:
    """Reads events until the worker closes the pipe, ends, or is over a limit."""
    process = os.pidfd_open(worker.pid)
    deadline = time.monotonic() + _limit(limits, outcome.phase)
    buffer = b""
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(reader, selectors.EVENT_READ)
            selector.register(process, selectors.EVENT_READ)
            while True:
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    outcome.over_limit = outcome.phase
                    return
                files = {key.fd for key, _ in ready}
                data = os.read(reader, 65536) if reader in files else b""
                if not data:
                    return
                kept.write(data)
                *lines, buffer = (buffer + data).split(b"\n")
                for line in lines:
                    event = parse(line)
                    if event is None:
                        outcome.garbage += 1
                        continue
                    outcome.events.append(event)
                    if event["event"] in ("phase_begin", "phase_end"):
                        ended = event["event"] == "phase_end"
                        outcome.phase = LAST_PHASE if ended else str(event.get("phase"))
                        deadline = time.monotonic() + _limit(limits, outcome.phase)
                    on_event(event)
                    if event["event"] == "handshake":
                        on_handshake(outcome.events)
                        with suppress(BrokenPipeError):
                            worker.stdin.write(b"go\n")
                            worker.stdin.flush()
                        deadline = time.monotonic() + _limit(limits, outcome.phase)
                # A worker that writes without end is never found silent.
                if time.monotonic() > deadline:
                    outcome.over_limit = outcome.phase
                    return
    finally:
        os.close(process)


def _end(worker: subprocess.Popen) -> None:
    """Ends the worker and all it started: kindly, then not."""
    with suppress(BrokenPipeError):
        worker.stdin.close()  # type: ignore[union-attr]
    try:
        worker.wait(timeout=GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        _signal_group(worker.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            worker.wait(timeout=GRACE_SECONDS)
    _signal_group(worker.pid, signal.SIGKILL)


def _as_signal(exit_code: int) -> int:
    """A launcher that stays between (a shell, a container) ends with 128 + the number of the
    signal that ended what it started."""
    return 128 - exit_code if exit_code - 128 in DEADLY else exit_code


def _signal_group(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _limit(limits: Mapping[str, float], phase: str) -> float:
    return float(limits.get(phase, limits.get("default", 600)))


def parse(line: bytes) -> Event | None:
    """One event, or None where the line is none."""
    try:
        event = strict.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and isinstance(event.get("event"), str) else None
