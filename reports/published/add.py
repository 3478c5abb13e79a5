"""Check a published result of your own and append it to own.csv in this folder.

    .venv/bin/python reports/published/add.py --source … --year … --train-seconds …

Reports show it next to measured results. Give the values of its source: the seconds of all epochs
together, accuracies as fractions (0.97), prices in USD per hour.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path

from rnnbench.errors import ConfigError
from rnnbench.locks import locked
from rnnbench.sources.published import (
    COLUMNS,
    FIELDS,
    PublishedRow,
    parse_row,
    read_published,
)

OWN = Path(__file__).with_name("own.csv")
HELP = {
    "source": "author and title of the publication",
    "year": "year of publication",
    "workload": "a name for model and task",
    "dataset": "the dataset's name",
    "implementation": "the recurrent layer, such as CuDNNLSTM",
    "framework": "the framework with its version",
    "build": "where the framework's build comes from, such as pip",
    "device": "the processor or GPU",
    "vcpus": "number of virtual CPUs",
    "epochs": "number of epochs trained",
    "train_seconds": "seconds of all epochs together; <60 means less than 60",
    "train_samples": "samples per epoch",
    "loss": "training loss after the last epoch",
    "acc": "training accuracy, 0 to 1",
    "val_loss": "validation loss after the last epoch",
    "val_acc": "validation accuracy, 0 to 1",
    "price_usd_per_hour": "price of the machine in USD per hour",
    "caveat": "what limits the comparison",
}


def main(argv: Sequence[str]) -> int:
    """Checks the row, appends it and prints the file's path."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for field in FIELDS:
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            default="",
            required=field.required,
            help=HELP[field.name],
        )
    parser.add_argument(
        "--file", type=Path, default=OWN, help="the CSV file to append to (default: %(default)s)"
    )
    options = vars(parser.parse_args(list(argv)))
    file = options.pop("file")
    row = parse_row(options, "add.py")
    append_row(file, row)
    print(f"{file}: added {row.workload} on {row.place}, {row.train_seconds:g} s ({row.source}).")
    return 0


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
