"""An estimate with its interval, in results and in tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """An estimate with its interval.

    - `estimate`: in the unit of what is estimated, as are the ends.
    - `low`, `high`: the ends; None for a single value.
    """

    estimate: float
    low: float | None
    high: float | None

    @classmethod
    def around(cls, estimate: float, half: float | None) -> Interval:
        """A symmetric interval.

        - `estimate`: its middle.
        - `half`: its half-width; None for a single value, which has no interval.
        """
        if half is None:
            return Interval(estimate, None, None)
        return Interval(estimate, estimate - half, estimate + half)

    def map(self, function: Callable[[float], float]) -> Interval:
        """The interval of a monotonic `function` of the estimate."""
        if self.low is None or self.high is None:
            return Interval(function(self.estimate), None, None)
        low, high = sorted((function(self.low), function(self.high)))
        return Interval(function(self.estimate), low, high)

    def scaled(self, factor: float) -> Interval:
        """The interval of `factor` times the estimate."""
        return self.map(lambda value: value * factor)

    def excludes(self, value: float) -> bool:
        """Whether the interval exists and does not contain `value`."""
        if self.low is None or self.high is None:
            return False
        return not self.low <= value <= self.high

    def columns(self, name: str, low: str = "", high: str = "") -> dict[str, float | None]:
        """The estimate and the ends as columns.

        - `name`: of the column of the estimate.
        - `low`, `high`: of those of the ends; ``NAME_low`` and ``NAME_high`` if empty.
        """
        return {
            name: self.estimate,
            low or f"{name}_low": self.low,
            high or f"{name}_high": self.high,
        }
