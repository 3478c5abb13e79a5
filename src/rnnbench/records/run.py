"""One run, from the plan to its record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from rnnbench.records import bounds
from rnnbench.records.checks import check_path_component


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run as it is planned, as a line of the plan holds it, and as its record keeps it.

    - `name`: a label, valid as a file name; made of the choices, overrides, seed and repeat.
    - `order`, `block`: position in the planned, interleaved order.
    - `digest`: SHA-256 of everything that decides whether the run must be measured again: its
      `config` without documentation and limits, and its `identity`.
    - `round`: name of the round in which it is planned (None in records of schema 1 and 2).
    - `identity`: the MD5 of its dataset, the lock of its build and the digest of the worker's code.
    - `choices`: axis → choice, in the axes' fixed order.
    - `overrides`: dotted key → value, for values that differ from the choice's default.
    - `config`: the resolved config.
    - `certificate`: key of the certificate of its function, or None.
    """

    name: str
    order: bounds.Index
    block: bounds.Index
    digest: str
    round: str | None = None
    identity: Mapping[str, Any]
    choices: Mapping[str, str]
    overrides: Mapping[str, Any]
    seed: Annotated[int, Meta(ge=-(2**53), le=2**53)]
    repeat: bounds.Index
    alias: str | None
    config: Mapping[str, Any]
    certificate: str | None = None

    def __post_init__(self) -> None:
        check_path_component("name", self.name)
        bounds.check("config", self.config, bounds.CONFIG)

    @property
    def configuration(self) -> str:
        """The name without seed and repeat."""
        return self.name.removesuffix(f"-s{self.seed}-r{self.repeat}")

    def as_dict(self) -> dict[str, Any]:
        return msgspec.structs.asdict(self)

    def line(self) -> bytes:
        """The run's line of a plan."""
        return msgspec.json.encode(self) + b"\n"


class RunHead(msgspec.Struct, frozen=True):
    """What is read of a line of a plan if the rest, which is much longer, is not needed."""

    name: str
    digest: str
    choices: Mapping[str, str]
    round: str | None = None
