"""Popular claims about the published results, each with a quotation from its source and the
published rows that it rests on (``reports/published/claims.csv``)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from rnnbench.errors import ConfigError
from rnnbench.sources.published import CLAIMS, COLUMNS, REMEDY, Finite, csv_lines
from rnnbench.validation import converted

Text = Annotated[str, Meta(min_length=1)]


class Claim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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

    claim: Text
    words: Text
    source: Text
    address: Text
    rows: Text
    measure: Literal["time", "accuracy", "front"]
    over: Mapping[str, str]
    of: Mapping[str, str]
    paired_by: tuple[str, ...]
    test: Literal["every", "most", "mean", "front"]
    low: Finite | None
    high: Finite | None
    ours_a: str
    ours_b: str
    ours_note: str


def read_claims(folder: Path) -> list[Claim]:
    """The claims in ``claims.csv`` of `folder`; an empty list if the file does not exist. Raises a
    `ConfigError` that names the line."""
    path = folder / CLAIMS
    return [_claim(line, where) for where, line in csv_lines(path)] if path.is_file() else []


def _claim(line: Mapping[str, Any], where: str) -> Claim:
    values: dict[str, Any] = {key: str(value or "").strip() for key, value in line.items()}
    values |= {key: _conditions(values.get(key, ""), where) for key in ("over", "of")}
    values["paired_by"] = [_column(name, where) for name in values.get("paired_by", "").split()]
    values |= {key: values.get(key) or None for key in ("low", "high")}
    return converted(values, Claim, where, REMEDY, strict=False)


def _conditions(text: str, where: str) -> dict[str, str]:
    """``device=Tesla K80; build=pip`` as column → value."""
    pairs = [part.partition("=") for part in text.split(";") if part.strip()]
    return {_column(name.strip(), where): value.strip() for name, _, value in pairs}


def _column(name: str, where: str) -> str:
    if name not in COLUMNS:
        message = f"published rows have no column {name!r}."
        raise ConfigError(message, where=where, remedy=REMEDY)
    return name
