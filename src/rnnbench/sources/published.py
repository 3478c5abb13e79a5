"""Published results: measurements by others with their caveats, and what each source compares them
with (``reports/published/*.csv``).

Reports show them next to measured rows; they never enter a statistic.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from rnnbench.errors import ConfigError, converted

# Workload name in the source → model name in this project.
MODELS = {"imdb_bidirectional_lstm": "imdb_bilstm", "lstm_text_generation": "lstm_textgen"}
SOURCES = "sources.csv"  # about the rows; the other files have rows
REMEDY = "see reports/published/README.md."

Finite = Annotated[float, Meta(ge=-1e300, le=1e300)]
Positive = Annotated[float, Meta(gt=0, le=1e300)]
Count = Annotated[int, Meta(gt=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Text = Annotated[str, Meta(min_length=1)]
Kind = TypeVar("Kind")


class PublishedRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One published measurement. A value that the source does not state is None or ``""``.

    - `train_seconds`: the total over all `epochs`.
    - `below`: whether it is an upper bound (``<60`` in the file).
    - `acc`, `val_acc`: shares (0 to 1).
    - `caveat`: what limits the comparison with other rows.
    """

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
        for cell in ("lstm", "gru"):
            if cell.upper() in layer:
                return cell
        return ""

    @property
    def us_per_sample(self) -> float | None:
        """Microseconds per sample and epoch, including everything that the source timed."""
        if self.epochs is None or self.train_samples is None:
            return None
        return 1e6 * self.train_seconds / self.epochs / self.train_samples

    @property
    def model(self) -> str:
        """The name of its workload in this project."""
        return MODELS.get(self.workload, self.workload)

    @property
    def place(self) -> str:
        """The device and its number of vCPUs."""
        if self.vcpus:
            return f"{self.device}, {self.vcpus} vCPUs"
        return self.device or "not stated"


FIELDS = [field for field in msgspec.structs.fields(PublishedRow) if field.name != "below"]
COLUMNS = tuple(field.name for field in FIELDS)


class Comparison(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows of a `source` set against others of it.

    - `rows`: the conditions that they match; all rows if empty.
    - `base`: the conditions of the others.
    - `by`: the columns in which both have the same values.
    """

    source: Text
    rows: str = ""
    base: str = ""
    by: str = ""

    def __post_init__(self) -> None:
        require_columns([*conditions(self.rows), *conditions(self.base), *self.by.split()])
        if bool(self.base) != bool(self.by):
            raise ValueError("`base` needs `by`, and `by` needs `base`")


class Source(Comparison, frozen=True, kw_only=True):
    """What to tell about the rows of a source: a `title` and `words`.

    `base`: the row that the source compares with.
    """

    title: Text
    words: str = ""


def conditions(text: str) -> dict[str, list[str]]:
    """Column → its accepted values.

    `text`: of the form ``device=Tesla K80; vcpus=8|16``.
    """
    accepted = {}
    for part in text.split(";"):
        if part.strip():
            name, _, values = part.strip().partition("=")
            accepted[name] = values.split("|")
    return accepted


def require_columns(names: Iterable[str]) -> None:
    """Raises a `ValueError` for a name that is no column of published rows."""
    for name in names:
        if name not in COLUMNS:
            raise ValueError(f"published rows have no column {name!r}")


def parse_row(texts: Mapping[str, Any], where: str) -> PublishedRow:
    """A validated row.

    - `texts`: column → text.
    - `where`: its location, for errors.

    Raises a `ConfigError` that names the column.
    """
    texts = dict(texts)
    seconds = str(texts.get("train_seconds") or "").strip()
    if seconds.startswith("<"):
        texts["train_seconds"] = seconds[1:]
        texts["below"] = "true"
    return _parsed(texts, PublishedRow, where)


def read_published(folder: Path) -> list[PublishedRow]:
    """All rows of ``*.csv`` in `folder`, sorted by file name; an empty list if it does not exist.

    Raises a `ConfigError` that names the line.
    """
    rows = []
    for path in sorted(folder.glob("*.csv")):
        if path.name == SOURCES:
            continue
        for where, line in _lines(path):
            rows.append(parse_row(line, where))
    return rows


def read_sources(folder: Path) -> list[Source]:
    """The sources in ``sources.csv`` of `folder`, as `read_published`."""
    return [_parsed(line, Source, where) for where, line in _lines(folder / SOURCES)]


def _parsed(
    texts: Mapping[str, Any],
    kind: type[Kind],
    where: str,
) -> Kind:
    """`texts` (column → text) without blank ones as this kind of row."""
    given = {}
    for key, value in texts.items():
        text = str(value or "").strip()
        if text:
            given[key] = text
    return converted(given, kind, where, REMEDY, strict=False)


def _lines(path: Path) -> list[tuple[str, dict[str, str]]]:
    """The lines of a CSV file (column → text), each with its location for errors.

    There are none if there is no file. Raises `ConfigError` if it cannot be read.
    """
    try:
        if not path.exists():
            return []
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read ({error}).", where=str(path)) from error
    lines = csv.DictReader(io.StringIO(text), restkey="more columns than the header")
    return [(f"{path}:{number}", line) for number, line in enumerate(lines, start=2)]
