"""What everybody repeats of the published results: each claim in its source's words, and on which
published rows it rests (``reports/published/claims.csv``)."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rnnbench.errors import ConfigError
from rnnbench.sources.published import CLAIMS, COLUMNS

MEASURES = ("time", "accuracy", "front")
TESTS = ("every", "most", "mean", "front")


@dataclass(frozen=True)
class Claim:
    """One claim.

    - `claim`: what is repeated, `words`: how its `source` says it, at which `address`.
    - `rows`: the source of the published rows that it rests on. Rows that fit `over` are set
      against those that fit `of` (column → value), which are alike in `paired_by`.
    - `measure`: ``time`` (seconds over / seconds of), ``accuracy`` (validation accuracy over - of)
      or ``front`` (whether none of `over` is faster and cheaper than `of`).
    - `test`: the claim holds where ``every`` such number is from `low` to `high`, where ``most``
      are, or where their geometric ``mean`` is; None is no bound.
    - `ours_a`, `ours_b`: what stands for it here, in the words of ``rnnbench compare`` (how much
      faster is a than b?); ``""``: nothing does. `ours_note`: what is different of it.
    """

    claim: str
    words: str
    source: str
    address: str
    rows: str
    measure: str
    over: Mapping[str, str]
    of: Mapping[str, str]
    paired_by: tuple[str, ...]
    test: str
    low: float | None
    high: float | None
    ours_a: str
    ours_b: str
    ours_note: str


CLAIM_COLUMNS = tuple(field.name for field in fields(Claim))


def read_claims(folder: Path) -> list[Claim]:
    """The claims of ``claims.csv`` in `folder`, none where it is not there. Raises a `ConfigError`
    that names the line."""
    path = folder / CLAIMS
    if not path.is_file():
        return []
    try:
        lines = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")))
        return [_claim(line, f"{path}:{number}") for number, line in enumerate(lines, start=2)]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read ({error}).", where=str(path)) from error


def _claim(line: Mapping[Any, Any], where: str) -> Claim:
    texts = {name: str(line.get(name) or "").strip() for name in CLAIM_COLUMNS}
    if set(line) != set(CLAIM_COLUMNS):
        raise _fault(where, f"the columns are not {', '.join(CLAIM_COLUMNS)}")
    for name in CLAIM_COLUMNS[:6]:
        if not texts[name]:
            raise _fault(where, f"{name} is missing")
    for name, known in (("measure", MEASURES), ("test", TESTS)):
        if texts[name] not in known:
            raise _fault(where, f"{name} is {texts[name]!r}, not one of {', '.join(known)}")
    values: dict[str, Any] = {
        **texts,
        "over": _fitting(texts["over"], where),
        "of": _fitting(texts["of"], where),
        "paired_by": tuple(_column(name, where) for name in texts["paired_by"].split()),
        "low": _bound(texts["low"], "low", where),
        "high": _bound(texts["high"], "high", where),
    }
    return Claim(**values)


def _fitting(text: str, where: str) -> dict[str, str]:
    """``device=Tesla K80; build=pip`` as column → value."""
    pairs = [part.partition("=") for part in text.split(";") if part.strip()]
    return {_column(name.strip(), where): value.strip() for name, _, value in pairs}


def _column(name: str, where: str) -> str:
    if name not in COLUMNS:
        raise _fault(where, f"published rows have no column {name!r}")
    return name


def _bound(text: str, name: str, where: str) -> float | None:
    try:
        value = float(text) if text else None
    except ValueError as error:
        raise _fault(where, f"{name} is {text!r}, not a number") from error
    if value is not None and not math.isfinite(value):
        raise _fault(where, f"{name} is {text!r}")
    return value


def _fault(where: str, what: str) -> ConfigError:
    return ConfigError(f"{what}.", where=where, remedy="see reports/published/README.md.")
