"""The stopping rule's settings, if the number of repeats is decided while measuring."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

Number = Annotated[int, Meta(ge=2)]
Limit = Annotated[float, Meta(gt=0, lt=1e12)]


class Repeats(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The key ``repeats`` of an experiment.

    - `least`, `most`: minimum and maximum number of runs of each configuration.
    - `until`: stop when half the relative 95 % interval is at most this (0.025: ± 2.5 %), of the
      ratio to the reference in a round, or of the time of runs that do not take turns; or None.
    - `budget_s`: stop when the workers of all runs have used this wall time in seconds; or None.
    """

    least: Number = 3
    most: Number
    until: Limit | None = None
    budget_s: Limit | None = None

    def __post_init__(self) -> None:
        if self.most < self.least:
            raise ValueError(f"most is {self.most}, but must not be below least, {self.least}")
        if self.until is None and self.budget_s is None:
            raise ValueError("needs until, budget_s or both; until: 0.025 means ± 2.5 %")

    def as_dict(self) -> dict[str, Any]:
        return msgspec.structs.asdict(self)
