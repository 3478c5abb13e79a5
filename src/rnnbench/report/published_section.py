"""Published results next to measured rows: marked as such, with caveats, in no statistic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from rnnbench.report import numbers as n
from rnnbench.report.anchors import configuration_anchor
from rnnbench.report.section import Section
from rnnbench.report.table_view import Column, view_of
from rnnbench.sources.published import PublishedRow

WORDS = (
    "Results published by others for the same models, cell types and numbers of samples. They are "
    "in no statistic of this page. Most are single runs whose times include validation and "
    "start-up: read the caveat before comparing."
)
COLUMNS = (
    Column("device", "device", number=False),
    Column("implementation", "implementation", number=False),
    Column("s per epoch", "seconds"),
    Column("µs / sample", "us_per_sample"),
    Column("train acc", "acc", linked=False),
    Column("validation acc", "val_acc", linked=False),
    Column("build, framework, caveat", "facts", number=False, quiet=True),
)
PLACE = ["device", "machine", "variant"]


def published_results_section(speed: pd.DataFrame, published: Sequence[PublishedRow]) -> Section:
    """The published rows of each measured model, cell type and number of samples, after the fastest
    measured rows of the same. `speed`: the time table. Text lists the published rows of measured
    models that are not shown."""
    rows: list[dict[str, Any]] = []
    learning = speed[speed["not_learning"] == ""]
    rest = [row for row in published if row.model in set(speed["model"])]
    for (model, cell, _), own in learning.groupby(["model", "cell", "samples"], sort=False):
        samples = int(own["samples"].iloc[0])
        # A row without a recurrent layer has no cell.
        matching = [
            row for row in published
            if (row.model, row.train_samples) == (model, samples) and row.cell in ("", cell)
        ]  # fmt: skip
        if not matching:
            continue
        rest = [row for row in rest if row not in matching]
        group = f"{_name(matching[0])}, {samples:,} samples per epoch"
        fastest = own.sort_values("epoch_seconds", kind="stable").drop_duplicates(PLACE)
        rows += [_measured(row, group) for row in fastest.to_dict("records")]
        rows += [_published(row, group) for row in matching]
    not_shown = tuple(_not_shown(rest))
    if not rows:
        return Section("beside", "Published results", not_shown, text_only=bool(not_shown))
    view = view_of(pd.DataFrame(rows), "published", "Measured and published results", "source",
                   "source", COLUMNS, "group")  # fmt: skip
    words = (WORDS, *not_shown)
    return Section("beside", "Published results", words, (), (view,), "words published")


def _name(row: PublishedRow) -> str:
    return ", ".join(filter(None, (row.model, row.cell)))


def _not_shown(rows: Sequence[PublishedRow]) -> Iterator[str]:
    """Sentences on the published rows of measured models that match no measured row."""
    counts = Counter((row.source, _name(row), row.train_samples) for row in rows)
    for (source, model, samples), count in counts.items():
        number = f"{samples:,} samples per epoch" if samples else "number of samples not given"
        yield (
            "Not shown, because the cell type or the number of samples differs or is unknown: "
            f"{n.counted(count, 'row')} of `{model}` ({number}) by {source}."
        )


def _measured(row: Mapping[Any, Any], group: str) -> dict[str, str]:
    facts = "; ".join(filter(None, (row["build"], str(row["variant"]))))
    return {
        "source": "rnnbench",
        "device": row["device"],
        "implementation": row["implementation"] or "model",
        "seconds": n.seconds(row["epoch_seconds"]),
        "us_per_sample": n.plain(row["us_per_sample"]),
        "acc": n.NOTHING,
        "val_acc": n.NOTHING,
        "facts": f"{facts}; fastest on its device; training only",
        "group": f"{group}: measured here",
        "anchor": configuration_anchor(row),
    }


def _published(row: PublishedRow, group: str) -> dict[str, str]:
    seconds = row.train_seconds / row.epochs if row.epochs else None
    below = "below " if row.below else ""
    return {
        "source": f"{row.source}, {row.year}",
        "device": row.place,
        "implementation": row.implementation or n.NOTHING,
        "seconds": f"{below}{n.seconds(seconds)}",
        "us_per_sample": f"{below}{n.plain(row.us_per_sample)}",
        "acc": n.share(row.acc),
        "val_acc": n.share(row.val_acc),
        "facts": "; ".join(filter(None, (row.build, row.framework, row.caveat))),
        "group": f"{group}: published by others",
        "anchor": "",
    }
