"""What the processes of `rnnworker.serving` write, one line or file of JSON for each."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from rnnbench.errors import RunError
from rnnbench.records.predictions import Validation

Message = TypeVar("Message", bound=msgspec.Struct)


class Fault(msgspec.Struct, frozen=True):
    """``prepared.json`` of a model that cannot be prepared, and why."""

    fault: str | None = None


class Exported(msgspec.Struct, frozen=True):
    """The files of a runtime.

    - `refused`: why there are none, or None.
    - `folder`: with them; `imports`: modules that are imported before the fork.
    """

    refused: str | None = None
    folder: str | None = None
    imports: tuple[str, ...] = ()


class Case(msgspec.Struct, frozen=True):
    """What is asked. `batch`: its number of samples; `is_timed`: whether it has turns."""

    name: str
    batch: int
    is_timed: bool


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """What is read here of ``prepared.json``, where `rnnworker.serving.prepare` writes it.

    - `reference`, `biases_changed`, `bounds`, `lower_bounds`, `validation`, `steps`: as in
      `Results`.
    - `runtimes`: by name.
    """

    reference: str
    biases_changed: int
    bounds: list[float]
    lower_bounds: dict[str, list[float]]
    validation: Validation | None
    cases: tuple[Case, ...]
    steps: int | None
    runtimes: dict[str, Exported]


class Difference(msgspec.Struct, frozen=True):
    """How far an output of a call is from what it should be.

    - `case`: the name of what was asked; `call`: from 0.
    - `bound`: the largest `difference` that counts as equal.
    - `error`: why there is no difference, or None.
    """

    case: str
    call: int
    difference: float = 0.0
    bound: float = 0.0
    error: str | None = None

    @property
    def asked(self) -> str:
        """What was asked, in words."""
        return self.case if self.call == 0 else f"{self.case}, asked again"


class Said(msgspec.Struct, frozen=True):
    """What the process of a runtime says first: why it is `refused`, or the facts of `Runtime` and
    its `differences`."""

    refused: str | None = None
    differences: tuple[Difference, ...] = ()
    load_seconds: float | None = None
    bytes: int | None = None
    versions: dict[str, str] = {}
    code: str | None = None
    validation: float | None = None

    @property
    def unequal(self) -> list[Difference]:
        """The answers that differ from what they should be."""
        found = []
        for each in self.differences:
            if each.error is not None or each.difference > each.bound:
                found.append(each)
        return found


class Timed(msgspec.Struct, frozen=True):
    """What the process of a runtime says after a turn: nanoseconds of each of its `calls`, CPU
    seconds of them, CPU seconds of the process when the turn began (`slept`) and had `ended`, its
    `peak` of memory in bytes, and the number of its threads with a share in the calls."""

    calls: tuple[int, ...]
    cpu: float
    threads: int
    slept: float
    ended: float
    peak: int


def read(content: bytes, kind: type[Message], where: str) -> Message:
    """A message. Raises `RunError` if it is none of its `kind`; `where`: its log or file."""
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.DecodeError as error:
        raise RunError(f"its process wrote what cannot be read: {error}", where=where) from error
