"""Supervises the worker processes of a round from the controller.

The controller sleeps while a worker is timed and imports no large packages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rnnbench.records import strict_json
from rnnworker import rounds
from rnnworker.members import Member, Outcome

__all__ = ["Event", "Outcome", "parse", "supervise"]

Event = dict[str, Any]


def supervise(members: Sequence[Member], seed: int = 0) -> dict[str, Outcome]:
    """Calls `rnnworker.rounds.supervise`, and reads events strictly."""
    return rounds.supervise(members, seed, parse=parse)


def parse(line: bytes) -> Event | None:
    """The event in `line`, or None if it is not an event."""
    try:
        event = strict_json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and isinstance(event.get("event"), str) else None
