"""One worker process, supervised: a round of one.

The process that waits here is asleep while the worker is timed; it imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rnnbench.records import strict
from rnnworker import rounds
from rnnworker.members import SIGKILLED, Member, Outcome

__all__ = ["SIGKILLED", "Event", "Outcome", "parse", "supervise"]

Event = dict[str, Any]
ALONE = "worker"


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
    """Starts `command` and returns when it and its children are gone; the arguments are those of
    `Member`."""
    member = Member(
        ALONE,
        list(command),
        environment,
        log,
        events_file,
        limits,
        inherit,
        on_event,
        on_handshake,
    )
    return rounds.supervise([member], parse=parse)[ALONE]


def parse(line: bytes) -> Event | None:
    """One event, or None where the line is none."""
    try:
        event = strict.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and isinstance(event.get("event"), str) else None
