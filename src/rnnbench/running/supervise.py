"""Supervises the worker processes of a round from the controller.

The controller sleeps while a worker is timed and imports no large packages.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from rnnbench.records import strict_json
from rnnworker import rounds
from rnnworker.members import SIGKILLED, Member, Outcome

__all__ = ["SIGKILLED", "Event", "Outcome", "parse", "supervise"]

Event = dict[str, Any]


def supervise(members: Sequence[Member], seed: int = 0) -> dict[str, Outcome]:
    """Calls `rnnworker.rounds.supervise`; as many members start in parallel as there are cores."""
    at_once = len(os.sched_getaffinity(0))
    return rounds.supervise(members, seed, parse=parse, at_once=at_once)


def parse(line: bytes) -> Event | None:
    """The event in `line`, or None if it is not an event."""
    try:
        event = strict_json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and isinstance(event.get("event"), str) else None
