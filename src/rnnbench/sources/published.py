"""Published results: other people's numbers, with where they come from and what is wrong with them.

They stand beside measured rows and never enter a statistic.
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

# A workload's name in its source → the model of this project.
MODELS = {"imdb_bidirectional_lstm": "imdb_bilstm", "lstm_text_generation": "lstm_textgen"}
CLAIMS = "claims.csv"  # no rows, but what is said of them
WHOLE = ("year", "vcpus", "epochs", "train_samples")
NUMBERS = ("train_seconds", "loss", "acc", "val_loss", "val_acc", "price_usd_per_hour")
NEEDED = ("source", "year", "workload", "train_seconds", "caveat")


@dataclass(frozen=True)
class PublishedRow:
    """One measurement as published. `train_seconds` is of all `epochs` together, and a bound that
    it stayed `below` where the file says ``<60``; accuracies are shares (0 to 1); None or ``""``
    where the source does not say."""

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
        """The cell type that its layer is of; ``""`` where it names no recurrent layer."""
        layer = self.implementation.upper()
        return next((cell for cell in ("lstm", "gru") if cell.upper() in layer), "")

    @property
    def us_per_sample(self) -> float | None:
        """Microseconds per sample and epoch, with whatever the source timed."""
        if self.epochs is None or self.train_samples is None:
            return None
        return 1e6 * self.train_seconds / self.epochs / self.train_samples

    @property
    def model(self) -> str:
        return MODELS.get(self.workload, self.workload)

    @property
    def place(self) -> str:
        """The device, with its vCPUs."""
        return f"{self.device}, {self.vcpus} vCPUs" if self.vcpus else self.device or "not said"


COLUMNS = tuple(field.name for field in dataclasses.fields(PublishedRow) if field.name != "below")


def parse_row(texts: Mapping[str, Any], where: str) -> PublishedRow:
    """A row from texts by column, checked; a `ConfigError` names the column."""
    given = {key: str(value or "").strip() for key, value in texts.items() if key is not None}
    unknown = [key for key in given if key not in COLUMNS]
    if unknown or None in texts:
        raise _fault(where, f"unknown columns {unknown or 'beyond the last'}")
    values: dict[str, Any] = {name: given.get(name, "") for name in COLUMNS}
    for name in NEEDED:
        if not values[name]:
            raise _fault(where, f"{name} is missing")
    values["below"] = values["train_seconds"].startswith("<")
    values["train_seconds"] = values["train_seconds"].removeprefix("<").strip()
    for name in (*WHOLE, *NUMBERS):
        values[name] = _number(values[name], name, where)
    if not 1990 <= values["year"] <= 2100:
        raise _fault(where, f"year is {values['year']}")
    if not values["train_seconds"] or values["train_seconds"] <= 0:
        raise _fault(where, "train_seconds is not above 0")
    for name in ("acc", "val_acc"):
        if values[name] is not None and not 0 <= values[name] <= 1:
            raise _fault(where, f"{name} is {values[name]}, not a share from 0 to 1")
    for name in (*WHOLE, "price_usd_per_hour"):
        if values[name] is not None and values[name] <= 0:
            raise _fault(where, f"{name} is not above 0")
    return PublishedRow(**values)


def read_published(folder: Path) -> list[PublishedRow]:
    """All rows of ``*.csv`` in `folder`, by file name; none where it does not exist. The claims are
    no rows."""
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
    """Adds `row` to the CSV file, which gets a header when it is new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.parent.parent / ".published.lock"):
        if path.exists() and row in read_published(path.parent):
            raise ConfigError("is there already.", where=str(path), remedy="nothing to do.")
        new = not path.exists()
        with path.open("a", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            if new:
                writer.writerow(COLUMNS)
            texts = {name: getattr(row, name) for name in COLUMNS}
            if row.below:
                texts["train_seconds"] = f"<{row.train_seconds:g}"
            writer.writerow(["" if text is None else text for text in texts.values()])


def _number(text: str, name: str, where: str) -> float | int | None:
    if not text:
        return None
    try:
        value = int(text) if name in WHOLE else float(text)
        finite = math.isfinite(value)
    except (ValueError, OverflowError) as error:
        raise _fault(where, f"{name} is {text!r}, not a number") from error
    if not finite:
        raise _fault(where, f"{name} is {text!r}")
    return value


def _fault(where: str, what: str) -> ConfigError:
    return ConfigError(f"{what}.", where=where, remedy="see reports/published/README.md.")
