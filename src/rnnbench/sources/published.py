"""Published results: measurements by others, with their source and caveats.

Reports show them next to measured rows; they never enter a statistic.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rnnbench.errors import ConfigError
from rnnbench.locks import locked

# Workload name in the source → model name in this project.
MODELS = {"imdb_bidirectional_lstm": "imdb_bilstm", "lstm_text_generation": "lstm_textgen"}
CLAIMS = "claims.csv"  # holds claims about the rows, not rows
INTEGER_COLUMNS = ("year", "vcpus", "epochs", "train_samples")
FLOAT_COLUMNS = ("train_seconds", "loss", "acc", "val_loss", "val_acc", "price_usd_per_hour")
REQUIRED_COLUMNS = ("source", "year", "workload", "train_seconds", "caveat")


@dataclass(frozen=True)
class PublishedRow:
    """One published measurement. `train_seconds` is the total over all `epochs`; if the file has
    ``<60``, `below` is True and it is an upper bound. Accuracies are shares (0 to 1). A value that
    the source does not state is None or ``""``."""

    source: str
    year: int
    workload: str
    dataset: str
    implementation: str
    framework: str
    build: str
    device: str
    vcpus: int | None
    epochs: int | None
    train_seconds: float
    train_samples: int | None
    loss: float | None
    acc: float | None
    val_loss: float | None
    val_acc: float | None
    price_usd_per_hour: float | None
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


COLUMNS = tuple(field.name for field in dataclasses.fields(PublishedRow) if field.name != "below")


def parse_row(texts: Mapping[str, Any], where: str) -> PublishedRow:
    """The validated row of `texts` (column → text). Raises a `ConfigError` naming the column."""
    given = {key: str(value or "").strip() for key, value in texts.items() if key is not None}
    unknown = [key for key in given if key not in COLUMNS]
    if unknown or None in texts:
        raise _error(where, f"unknown columns: {', '.join(unknown) or 'after the last one'}")
    values: dict[str, Any] = {name: given.get(name, "") for name in COLUMNS}
    for name in REQUIRED_COLUMNS:
        if not values[name]:
            raise _error(where, f"{name} is missing")
    values["below"] = values["train_seconds"].startswith("<")
    values["train_seconds"] = values["train_seconds"].removeprefix("<").strip()
    for name in (*INTEGER_COLUMNS, *FLOAT_COLUMNS):
        values[name] = _number(values[name], name, where)
    if not 1990 <= values["year"] <= 2100:
        raise _error(where, f"year is {values['year']}, not between 1990 and 2100")
    if not values["train_seconds"] or values["train_seconds"] <= 0:
        raise _error(where, "train_seconds must be a number > 0")
    for name in ("acc", "val_acc"):
        if values[name] is not None and not 0 <= values[name] <= 1:
            raise _error(where, f"{name} is {values[name]}; must be a share between 0 and 1")
    for name in (*INTEGER_COLUMNS, "price_usd_per_hour"):
        if values[name] is not None and values[name] <= 0:
            raise _error(where, f"{name} must be a number > 0")
    return PublishedRow(**values)


def read_published(folder: Path) -> list[PublishedRow]:
    """All rows of ``*.csv`` in `folder`, sorted by file name; an empty list if it does not exist.
    ``claims.csv`` is skipped."""
    rows: list[PublishedRow] = []
    for path in sorted(path for path in folder.glob("*.csv") if path.name != CLAIMS):
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot be read ({error}).", where=str(path)) from error
        reader = csv.DictReader(io.StringIO(text))
        rows += [parse_row(row, f"{path}:{number}") for number, row in enumerate(reader, start=2)]
    return rows


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


def _number(text: str, name: str, where: str) -> float | int | None:
    if not text:
        return None
    try:
        value = int(text) if name in INTEGER_COLUMNS else float(text)
        is_finite = math.isfinite(value)
    except (ValueError, OverflowError) as error:
        raise _error(where, f"{name} is {text!r}, not a number") from error
    if not is_finite:
        raise _error(where, f"{name} is {text!r}, not a finite number")
    return value


def _error(where: str, message: str) -> ConfigError:
    return ConfigError(f"{message}.", where=where, remedy="see reports/published/README.md.")
