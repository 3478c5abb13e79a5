"""Provenance: machines, builds and datasets of the records."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from rnnbench.records.record import Record
from rnnbench.tables.frame import flat_text

COLUMNS = ["what", "which", "fact", "value"]
ORDER = {"machine": 0, "build": 1, "dataset": 2}
# Longer values (package lists, flags) are only in the record.
MAX_LENGTH = 400


def provenance(records: Iterable[Record]) -> pd.DataFrame:
    """One row per fact: `what` (machine, build, dataset), `which` (its name), `fact`, `value`
    (text). A fact with different values in different records has one row per value. Source:
    ``hardware``, ``environment`` and ``identity`` of the records."""
    rows: dict[tuple[str, str, str, str], None] = {}
    for record in records:
        build = record.run.choices.get("build", "")
        facts = [
            ("machine", record.machine, fact, value) for fact, value in record.hardware.items()
        ]
        facts += [("build", build, fact, value) for fact, value in record.environment.items()]
        facts.append(("build", build, "lock", record.run.identity.get("build_lock")))
        facts.append(("dataset", _dataset(record), "md5", record.run.identity.get("dataset_md5")))
        for what, which, fact, value in facts:
            text = flat_text(value)
            if text and len(text) <= MAX_LENGTH:
                rows[(what, which, fact, text)] = None
    ordered = sorted(rows, key=lambda row: (ORDER[row[0]], row[1]))
    return pd.DataFrame(ordered, columns=COLUMNS)


def _dataset(record: Record) -> str:
    dataset = record.run.config.get("dataset")
    name = dataset.get("name") if isinstance(dataset, dict) else None
    return str(name or record.run.choices.get("dataset", ""))
