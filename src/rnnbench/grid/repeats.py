"""The stopping rule's settings, if the number of repeats is decided while measuring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rnnbench.errors import ConfigError

KEYS = ("least", "most", "until", "budget_s")


@dataclass(frozen=True)
class Repeats:
    """The key ``repeats`` of an experiment.

    - `least`, `most`: minimum and maximum number of runs of each configuration.
    - `until`: stop when half the relative 95 % interval is at most this (0.025: ± 2.5 %), of the
      ratio to the reference in a round, or of the time of runs that do not take turns; or None.
    - `budget_s`: stop when the workers of all runs have used this wall time in seconds; or None.
    """

    least: int
    most: int
    until: float | None
    budget_s: float | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def repeats_of(data: Any, where: str) -> Repeats | None:
    """Parses the key ``repeats`` of the experiment file `where`. Raises a `ConfigError` if it is
    invalid."""
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
    if type(least) is not int or type(most) is not int or not 2 <= least <= most:
        raise ConfigError(
            f"repeats has least: {least!r}, most: {most!r}.",
            where=where,
            remedy="write integers with 2 ≤ least ≤ most.",
        )
    limits = [data.get("until"), data.get("budget_s")]
    if limits == [None, None] or not all(limit is None or _positive(limit) for limit in limits):
        raise ConfigError(
            f"repeats has until: {limits[0]!r}, budget_s: {limits[1]!r}.",
            where=where,
            remedy="give at least one of them, as a number > 0; until: 0.025 means ± 2.5 %.",
        )
    return Repeats(least, most, limits[0], limits[1])


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e12
