"""Types and limits of the values in a record. No real machine leaves the limits, so a value outside
them is an error or a forgery, and no table has to expect one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from rnnbench.records import timestamps

Moment = Annotated[float, Meta(ge=-1e11, le=1e11)]  # seconds on some clock
Seconds = Annotated[float, Meta(ge=0, le=1e8)]
Duration = Annotated[float, Meta(ge=1e-9, le=1e8)]  # seconds; must be positive
Amount = Annotated[float, Meta(ge=0, le=1e15)]
Number = Annotated[float, Meta(ge=-1e15, le=1e15)]
Share = Annotated[float, Meta(ge=0, le=1.000001)]  # of single-precision sums
Count = Annotated[int, Meta(ge=0, le=2**53)]
Positive = Annotated[int, Meta(ge=1, le=2**53)]
Index = Annotated[int, Meta(ge=0, le=10**6)]
Peak = Annotated[float, Meta(gt=0, le=1e6)]  # TFLOP/s
Section = Mapping[str, object]
Kinds = Mapping[str, object]  # name → the type of the value
Kind = TypeVar("Kind", bound=msgspec.Struct)


class Named(msgspec.Struct, frozen=True):
    name: str = ""


class Model(Named, frozen=True):
    batch: Positive | None = None
    optimizer: Named | None = None
    embedding: object = None


class Rnn(msgspec.Struct, frozen=True):
    about: str | None = None
    options: Section | None = None


class Build(Named, frozen=True):
    framework: str = ""


class Sections(msgspec.Struct, frozen=True):
    """What tables and reports read of a config. Its other keys may have any type."""

    model: Model = Model()
    rnn: Rnn = Rnn()
    dataset: Named = Named()
    build: Build = Build()
    cell: Section = {}
    device: Section = {}
    precision: str = "float32"


TURN: Kinds = {
    "turn": Index,
    "cycle": Index,
    "start": Moment,
    "seconds": Duration,
    "steps": Positive,
    "full": bool,
    "others": Number,
    "took": Duration,
    "cores": Positive,
    "reads": Duration,
}
KNOWN_OF_A_TURN = ("turn", "cycle", "start", "seconds", "steps", "full")
_COLUMNS: Kinds = {
    name: list[kind] if name in KNOWN_OF_A_TURN else list[kind | None]  # type: ignore[valid-type]
    for name, kind in TURN.items()
}


def misfit(name: str, value: object, kinds: Kinds) -> str | None:
    """Why a value does not fit its kind; None if it fits.

    - `name`: of the value; one without a kind fits.
    - `value`: None, which means unknown, fits too.
    - `kinds`: name → type.
    """
    if value is None or name not in kinds:
        return None
    try:
        msgspec.convert(value, kinds[name])
    except msgspec.ValidationError as error:
        return str(error)
    return None


def fitting(values: Mapping[str, object], kinds: Kinds) -> dict[str, object]:
    """The `values` that fit their kinds."""
    return {name: value for name, value in values.items() if not misfit(name, value, kinds)}


def kinds_of(kind: type[msgspec.Struct]) -> Kinds:
    """The types of the fields of `kind`."""
    return {field.name: field.type for field in msgspec.structs.fields(kind)}


def decoded(field: str, values: Mapping[str, object], kind: type[Kind]) -> Kind:
    """Those of the `values` that `kind` has; one that is None gets its default. Raises as `check`
    if one does not fit."""
    known = {name: value for name, value in values.items() if value is not None}
    try:
        return msgspec.convert(known, kind)
    except msgspec.ValidationError:
        check(field, values, kinds_of(kind))
        raise


def check(field: str, values: Mapping[str, object], kinds: Kinds) -> None:
    """Raises a `ValueError` that names the key if one of `values` does not fit its kind."""
    for name, value in values.items():
        why = misfit(name, value, kinds)
        if why:
            raise ValueError(f"{field}.{name}: {why}")


def check_turns(turns: Mapping[str, Any]) -> None:
    """Raises a `ValueError` unless `turns` has the columns of a record's turns, of equal length, or
    none. Older records have no ``reads``."""
    lacking = set(TURN) - {"reads"} - set(turns)
    if turns and lacking:
        raise ValueError(f"turns has no {' and no '.join(sorted(lacking))}")
    lengths = {len(column) for column in turns.values()}
    if len(lengths) > 1:
        raise ValueError("turns is not a mapping of lists of equal length")
    check("turns", turns, _COLUMNS)


def check_path_component(field: str, value: str) -> None:
    """Raises a `ValueError` unless `value` can be the name of a file or folder in its parent."""
    size = len(value.encode("utf-8", "replace"))
    is_plain = not any(letter in "/\\" or ord(letter) < 32 for letter in value)
    if not (0 < size <= 255 and is_plain) or value in (".", ".."):
        raise ValueError(f"{field} is {value[:80]!r}, not a path component")


def check_timestamp(field: str, value: str) -> None:
    """Raises a `ValueError` unless `value` is a timestamp."""
    try:
        timestamps.read(value)
    except ValueError:
        example = "a timestamp such as 20261121T075000_123456Z"
        raise ValueError(f"{field} is {value[:80]!r}, not {example}") from None
