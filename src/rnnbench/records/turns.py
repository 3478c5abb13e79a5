"""The turns of the members of a round, and which of their cycles were disturbed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

DISTURBED_SHARE = 0.10  # of the cores' time, used by other processes
TICK = 0.01  # seconds to which the kernel rounds CPU time
Turns = Mapping[str, Sequence[Any]]  # column → one value per turn, as in a record


def disturbed_cycles(members: Mapping[str, Turns]) -> frozenset[int]:
    """The cycles in which other processes or the hypervisor used more than `DISTURBED_SHARE` of the
    time of the members' cores, and more than two standard deviations of the kernel's rounding.

    The rule is about whole cycles, so that it is the same for members with short and long turns,
    and it does not depend on how long the timed steps took. The CPU time of a core in a turn of
    `took` seconds is a number of ticks. Its variance is at most (1 + took / TICK) / 4 ticks²: 1/4
    from the ends of the turn, and took / TICK binomial draws if the core is busy half of the time.
    Records of schema 3 and earlier only have the turns' own flags (``good``)."""
    totals: dict[int, list[float]] = {}  # others, core seconds, variance in ticks²
    flagged: set[int] = set()
    for turns in members.values():
        if "good" in turns:
            pairs = zip(turns["cycle"], turns["good"], strict=True)
            flagged |= {cycle for cycle, good in pairs if not good}
        elif turns:
            rows = zip(*(turns[name] for name in ("cycle", "others", "took", "cores")), strict=True)
            for cycle, others, took, cores in rows:
                if None not in (others, took, cores):
                    parts = (others, cores * took, cores * (1 + took / TICK) / 4)
                    known = totals.get(cycle, [0.0, 0.0, 0.0])
                    totals[cycle] = [a + b for a, b in zip(known, parts, strict=True)]
    return frozenset(
        flagged
        | {
            cycle
            for cycle, (others, available, variance) in totals.items()
            if others > max(DISTURBED_SHARE * available, 2 * TICK * math.sqrt(variance))
        }
    )
