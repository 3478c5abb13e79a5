"""CPU seconds of a process of tests. Forked scripts import this: it imports next to nothing."""

from __future__ import annotations

import os

# Of `gc.set_threshold`: a process of tests ends before what it could free counts, and collections
# take about a twentieth of its time.
SELDOM = (50_000, 20, 10)
elsewhere: list[float] = []  # of processes that are no children of this one


def seconds() -> float:
    """CPU seconds that this process, the children it has waited for and those `elsewhere` have used
    so far."""
    times = os.times()
    own = times.user + times.system + times.children_user + times.children_system
    return own + sum(elsewhere)
