"""Published results: measurements by others with their caveats, what each source compares them
with, and claims about them (``reports/published/*.csv``).

Reports show them next to measured rows; they never enter a statistic.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from rnnbench.errors import ConfigError, converted

# Workload name in the source → model name in this project.
MODELS = {"imdb_bidirectional_lstm": "imdb_bilstm", "lstm_text_generation": "lstm_textgen"}
SOURCES, CLAIMS = "sources.csv", "claims.csv"  # about the rows; the other files have rows
REMEDY = "see reports/published/README.md."

Finite = Annotated[float, Meta(ge=-1e300, le=1e300)]
Positive = Annotated[float, Meta(gt=0, le=1e300)]
Count = Annotated[int, Meta(gt=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Text = Annotated[str, Meta(min_length=1)]
Kind = TypeVar("Kind")


class PublishedRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One published measurement. `train_seconds` is the total over all `epochs`; if the file has
    ``<60``, `below` is True and it is an upper bound. Accuracies are shares (0 to 1). A value that
    the source does not state is None or ``""``."""

    source: str
    year: Annotated[int, Meta(ge=1990, le=2100)]
    workload: str
    dataset: str = ""
    implementation: str = ""
    framework: str = ""
    build: str = ""
    device: str = ""
    vcpus: Count | None = None
    epochs: Count | None = None
    train_seconds: Positive
    train_samples: Count | None = None
    loss: Finite | None = None
    acc: Share | None = None
    val_loss: Finite | None = None
    val_acc: Share | None = None
    price_usd_per_hour: Positive | None = None
    caveat: str
    below: bool = False

    @property
    def cell(self) -> str:
        """The RNN cell of the layer; ``""`` if `implementation` names no recurrent layer."""
        layer = self.implementation.upper()
        return next((cell for cell in ("lstm", "gru") if cell.upper() in layer), "")

    @property
    def us_per_sample(self) -> float | None:
        """Microseconds per sample and epoch, including everything that the source timed."""
        if self.epochs is None or self.train_samples is None:
            return None
        return 1e6 * self.train_seconds / self.epochs / self.train_samples

    @property
    def model(self) -> str:
        return MODELS.get(self.workload, self.workload)

    @property
    def place(self) -> str:
        """The device and its number of vCPUs."""
        return f"{self.device}, {self.vcpus} vCPUs" if self.vcpus else self.device or "not stated"


FIELDS = [field for field in msgspec.structs.fields(PublishedRow) if field.name != "below"]
COLUMNS = tuple(field.name for field in FIELDS)
REQUIRED_COLUMNS = tuple(field.name for field in FIELDS if field.required)


class Comparison(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows of a `source` set against others of it: those that match the conditions `rows` (all, if
    empty) against those that match `base` and have the same values in the columns `by`."""

    source: Text
    rows: str = ""
    base: str = ""
    by: str = ""

    def __post_init__(self) -> None:
        require_columns([*conditions(self.rows), *conditions(self.base), *self.by.split()])
        if bool(self.base) != bool(self.by):
            raise ValueError("`base` needs `by`, and `by` needs `base`")


class Source(Comparison, frozen=True, kw_only=True):
    """What to tell about the rows of a source: a `title` and `words`. `base` is the row that the
    source compares with."""

    title: Text
    words: str = ""


class Claim(Comparison, frozen=True, kw_only=True):
    """One claim.

    - `claim`: the claim in short; `words`: the quotation from its `source`, published at `address`.
    - `ratio`: what of `rows` is divided by that of `base`: the ``time``, the ``cost`` of the
      training, the ``price`` of an hour, or the ``larger`` of the first two ratios. The geometric
      mean over the pairs must lie between `low` and `high`, apart for each value of the columns
      `each` (of `base`: with the suffix ``_base``).
    - `answer`: the verdict if it does (default: ``holds``). A claim without `base` is not computed;
      `answer` is its verdict.
    - `note`: how the words are read, and what limits the verdict.
    - `ours`: the equivalent measured runs, ``a / b``, as selections of ``rnnbench compare``.
    """

    claim: Text
    words: Text
    address: Text
    ratio: Literal["time", "cost", "price", "larger"] = "time"
    each: str = ""
    low: Finite = -math.inf
    high: Finite = math.inf
    answer: str = ""
    note: str = ""
    ours: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_columns(name.removesuffix("_base") for name in self.each.split())
        if not self.base and not (self.answer and self.note):
            raise ValueError("a claim without `base` needs `answer` and `note`")
        if self.ours and not all(self.ours.partition(" / ")):
            raise ValueError("`ours` is not of the form `a / b`")


def conditions(text: str) -> dict[str, list[str]]:
    """``device=Tesla K80; vcpus=8|16`` as column → accepted values. Raises a `ValueError`."""
    pairs = [part.strip().partition("=") for part in text.split(";") if part.strip()]
    return {name: values.split("|") for name, _, values in pairs}


def require_columns(names: Iterable[str]) -> None:
    for name in names:
        if name not in COLUMNS:
            raise ValueError(f"published rows have no column {name!r}")


def parse_row(texts: Mapping[str, Any], where: str) -> PublishedRow:
    """The validated row of `texts` (column → text). Raises a `ConfigError` naming the column."""
    seconds = str(texts.get("train_seconds") or "").strip()
    bound = {"train_seconds": seconds[1:], "below": "true"} if seconds.startswith("<") else {}
    return _parsed({**texts, **bound}, PublishedRow, where)


def read_published(folder: Path) -> list[PublishedRow]:
    """All rows of ``*.csv`` in `folder`, sorted by file name; an empty list if it does not exist.
    Raises a `ConfigError` that names the line."""
    files = sorted(path for path in folder.glob("*.csv") if path.name not in (SOURCES, CLAIMS))
    return [parse_row(line, where) for path in files for where, line in _lines(path)]


def read_sources(folder: Path) -> list[Source]:
    """The sources in ``sources.csv`` of `folder`, as `read_published`."""
    return [_parsed(line, Source, where) for where, line in _lines(folder / SOURCES)]


def read_claims(folder: Path) -> list[Claim]:
    """The claims in ``claims.csv`` of `folder`, as `read_published`."""
    return [_parsed(line, Claim, where) for where, line in _lines(folder / CLAIMS)]


def _parsed(texts: Mapping[str, Any], kind: type[Kind], where: str) -> Kind:
    stripped = {key: str(value or "").strip() for key, value in texts.items()}
    given = {key: text for key, text in stripped.items() if text}
    return converted(given, kind, where, REMEDY, strict=False)


def _lines(path: Path) -> list[tuple[str, dict[str, str]]]:
    """The lines of a CSV file, each with its location for errors; [] if there is no file."""
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read ({error}).", where=str(path)) from error
    lines = csv.DictReader(io.StringIO(text), restkey="more columns than the header")
    return [(f"{path}:{number}", line) for number, line in enumerate(lines, start=2)]
