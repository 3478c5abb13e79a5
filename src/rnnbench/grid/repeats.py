"""How many times each cell is measured where that is decided while measuring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rnnbench.errors import ConfigError

KEYS = ("least", "most", "until", "budget_s")


@dataclass(frozen=True)
class Repeats:
    """``repeats`` of an experiment: `least` runs of each cell, then more, up to `most`, until it
    is known to ± `until` (0.025: 2.5 %, half its 95 % interval) how the cells of a round compare
    with the reference (of runs alone: what their time is), or until all runs together
    took `budget_s` seconds of their workers' wall time. None: without that limit."""

    least: int
    most: int
    until: float | None
    budget_s: float | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def repeats_of(data: Any, where: str) -> Repeats | None:
    """What an experiment's file says under ``repeats``, or a `ConfigError`."""
    if data is None:
        return None
    if not isinstance(data, Mapping) or not set(data) <= set(KEYS):
        raise ConfigError(
            f"repeats is {data!r}.",
            where=where,
            remedy="write {least: 3, most: 10, until: 0.025, budget_s: 3600}.",
        )
    least: Any = data.get("least", 3)
    most: Any = data.get("most")
    if not _whole(least) or not _whole(most) or not 2 <= least <= most:
        raise ConfigError(
            f"repeats has least: {least!r}, most: {most!r}.",
            where=where,
            remedy="write integers with 2 <= least <= most.",
        )
    limits = [data.get("until"), data.get("budget_s")]
    if limits == [None, None] or not all(limit is None or _positive(limit) for limit in limits):
        raise ConfigError(
            f"repeats has until: {limits[0]!r}, budget_s: {limits[1]!r}.",
            where=where,
            remedy="give at least one of them, above 0: until: 0.025 is ± 2.5 %.",
        )
    return Repeats(least, most, limits[0], limits[1])


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e12
