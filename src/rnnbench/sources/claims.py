"""Popular claims about the published results, each with a quotation from its source and the
published rows that it rests on (``reports/published/claims.csv``)."""

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

    - `claim`: the claim in short; `words`: the quotation from its `source`, published at `address`.
    - `rows`: the source of the published rows that the claim rests on. Rows that match `over`
      (column → value) are compared with rows that match `of` and have equal values in the
      `paired_by` columns.
    - `measure`: ``time`` (seconds of `over` / seconds of `of`), ``accuracy`` (validation accuracy
      of `over` - that of `of`) or ``front`` (whether no row of `over` is both faster and cheaper
      than its `of`).
    - `test`: the claim holds if ``every`` such number, or ``most`` of them, or their geometric
      ``mean`` lies between `low` and `high`; a bound of None is open.
    - `ours_a`, `ours_b`: the equivalent measured runs, as selections of ``rnnbench compare`` (how
      much faster is a than b?); ``""`` if there is no equivalent. `ours_note`: how they differ from
      the published rows.
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
    """The claims in ``claims.csv`` of `folder`; an empty list if the file does not exist. Raises a
    `ConfigError` that names the line."""
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
        raise _error(where, f"the columns must be {', '.join(CLAIM_COLUMNS)}")
    for name in CLAIM_COLUMNS[:6]:
        if not texts[name]:
            raise _error(where, f"{name} is missing")
    for name, choices in (("measure", MEASURES), ("test", TESTS)):
        if texts[name] not in choices:
            raise _error(where, f"{name} is {texts[name]!r}; must be one of {', '.join(choices)}")
    values: dict[str, Any] = {
        **texts,
        "over": _conditions(texts["over"], where),
        "of": _conditions(texts["of"], where),
        "paired_by": tuple(_column(name, where) for name in texts["paired_by"].split()),
        "low": _bound(texts["low"], "low", where),
        "high": _bound(texts["high"], "high", where),
    }
    return Claim(**values)


def _conditions(text: str, where: str) -> dict[str, str]:
    """``device=Tesla K80; build=pip`` as column → value."""
    pairs = [part.partition("=") for part in text.split(";") if part.strip()]
    return {_column(name.strip(), where): value.strip() for name, _, value in pairs}


def _column(name: str, where: str) -> str:
    if name not in COLUMNS:
        raise _error(where, f"published rows have no column {name!r}")
    return name


def _bound(text: str, name: str, where: str) -> float | None:
    try:
        value = float(text) if text else None
    except ValueError as error:
        raise _error(where, f"{name} is {text!r}, not a number") from error
    if value is not None and not math.isfinite(value):
        raise _error(where, f"{name} is {text!r}, not a finite number")
    return value


def _error(where: str, message: str) -> ConfigError:
    return ConfigError(f"{message}.", where=where, remedy="see reports/published/README.md.")
