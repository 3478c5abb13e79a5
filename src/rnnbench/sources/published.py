"""Published results: measurements by others, with their source and caveats.

Reports show them next to measured rows; they never enter a statistic.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from rnnbench.errors import ConfigError
from rnnbench.locks import locked
from rnnbench.validation import converted

# Workload name in the source → model name in this project.
MODELS = {"imdb_bidirectional_lstm": "imdb_bilstm", "lstm_text_generation": "lstm_textgen"}
CLAIMS = "claims.csv"  # holds claims about the rows, not rows
REMEDY = "see reports/published/README.md."

Finite = Annotated[float, Meta(ge=-1e300, le=1e300)]
Positive = Annotated[float, Meta(gt=0, le=1e300)]
Count = Annotated[int, Meta(gt=0)]
Share = Annotated[float, Meta(ge=0, le=1)]


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


def parse_row(texts: Mapping[str, Any], where: str) -> PublishedRow:
    """The validated row of `texts` (column → text). Raises a `ConfigError` naming the column."""
    stripped = {key: str(value or "").strip() for key, value in texts.items()}
    values: dict[str, Any] = {key: text for key, text in stripped.items() if text}
    seconds = values.get("train_seconds", "")
    if seconds.startswith("<"):
        values |= {"train_seconds": seconds[1:].strip(), "below": True}
    return converted(values, PublishedRow, where, REMEDY, strict=False)


def read_published(folder: Path) -> list[PublishedRow]:
    """All rows of ``*.csv`` in `folder`, sorted by file name; an empty list if it does not exist.
    ``claims.csv`` is skipped."""
    files = sorted(path for path in folder.glob("*.csv") if path.name != CLAIMS)
    return [parse_row(line, where) for path in files for where, line in csv_lines(path)]


def csv_lines(path: Path) -> list[tuple[str, dict[str, str]]]:
    """The lines of a CSV file, each with its location for errors."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read ({error}).", where=str(path)) from error
    lines = csv.DictReader(io.StringIO(text), restkey="more columns than the header")
    return [(f"{path}:{number}", line) for number, line in enumerate(lines, start=2)]


def append_row(path: Path, row: PublishedRow) -> None:
    """Appends `row` to the CSV file; a new file gets a header first. Raises a `ConfigError` if the
    folder already has the same row."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.parent.parent / ".published.lock"):
        if path.exists() and row in read_published(path.parent):
            raise ConfigError("already has this row.", where=str(path), remedy="nothing to do.")
        is_new = not path.exists()
        with path.open("a", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            if is_new:
                writer.writerow(COLUMNS)
            texts = {name: getattr(row, name) for name in COLUMNS}
            if row.below:
                texts["train_seconds"] = f"<{row.train_seconds:g}"
            writer.writerow(["" if text is None else text for text in texts.values()])
