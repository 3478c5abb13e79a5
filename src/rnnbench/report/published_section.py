"""Published results beside measured rows: apart, with their caveats, in no statistic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rnnbench.report import numbers as n
from rnnbench.report.anchors import cell_anchor
from rnnbench.report.section import Section
from rnnbench.report.table_view import Column, Row, TableView
from rnnbench.sources.published import PublishedRow

if TYPE_CHECKING:
    import pandas as pd

WORDS = (
    "Other people's numbers, as they published them, for the same models, cell types and numbers "
    "of samples. They enter no statistic of this page. Most time whole epochs with validation and "
    "start-up, once: read the caveat before comparing."
)
PLACE = ["device", "machine", "variant"]


def beside_section(speed: pd.DataFrame, published: Sequence[PublishedRow]) -> Section:
    """For each measured model, cell type and number of samples the published rows of the same, the
    measured cells' epoch time first. `speed`: the time table. Which rows are of other cells or
    samples is said in words."""
    rows: list[Row] = []
    learnt = speed[speed["not_learning"] == ""]
    beside: set[PublishedRow] = set()
    for key, own in learnt.groupby(["model", "cell", "samples"], sort=False):
        model, cell, samples = str(key[0]), str(key[1]), int(own["samples"].iloc[0])
        theirs = [
            row for row in published if _is_of(row, model, cell) and samples == row.train_samples
        ]
        if not theirs:
            continue
        beside.update(theirs)
        named = ", ".join(filter(None, (model, theirs[0].cell)))
        what = f"{named}, {samples:,} samples an epoch"
        fastest = own.sort_values("epoch_seconds", kind="stable").drop_duplicates(PLACE)
        rows += [_measured(row, what) for row in fastest.to_dict("records")]
        rows += [_published(row, what) for row in theirs]
    columns = (
        Column("device", number=False),
        Column("implementation", number=False),
        Column("s per epoch"),
        Column("µs / sample"),
        Column("train acc"),
        Column("validation acc"),
        Column("build, framework, caveat", number=False, quiet=True),
    )
    words = [WORDS, *_staging(speed, [row for row in published if row not in beside])]
    view = TableView("published", "Side by side", "source", columns, tuple(rows))
    if not rows:
        return Section("beside", "Published results", tuple(words[1:]), told=len(words) > 1)
    return Section("beside", "Published results", tuple(words), (), (view,), "words published")


def _is_of(row: PublishedRow, model: str, cell: str) -> bool:
    """Whether a published row is of this model and cell type; one without a recurrent layer is."""
    return row.model == model and row.cell in ("", cell)


def _staging(speed: pd.DataFrame, rest: Sequence[PublishedRow]) -> Iterator[str]:
    """What was published of the measured models and stands beside nothing, and why."""
    found: dict[tuple[str, str, str], int] = {}
    for row in rest:
        what = (
            f"{row.train_samples:,} samples an epoch" if row.train_samples else "samples not said"
        )
        key = (row.source, ", ".join(filter(None, (row.model, row.cell))), what)
        if row.model in set(speed["model"]):
            found[key] = found.get(key, 0) + 1
    for (source, model, what), count in found.items():
        yield (
            f"Not beside them, as the cell type or the samples are others or not known: "
            f"{n.counted(count, 'row')} of `{model}` ({what}) by {source}."
        )


def _measured(cell: Mapping[Any, Any], what: str) -> Row:
    facts = "; ".join(filter(None, (cell["build"], cell["variant"])))
    return Row(
        "rnnbench",
        (cell["device"], cell["implementation"] or "model", n.seconds(cell["epoch_seconds"]),
         n.plain(cell["us_per_sample"]), n.NOTHING, n.NOTHING,
         f"{facts}; fastest of its device; training alone"),
        f"{what}: measured here",
        ("", "", cell_anchor(cell), cell_anchor(cell), "", "", ""),
    )  # fmt: skip


def _published(row: PublishedRow, what: str) -> Row:
    seconds = row.train_seconds / row.epochs if row.epochs else None
    facts = "; ".join(filter(None, (row.build, row.framework, row.caveat)))
    below = "below " if row.below else ""
    return Row(
        f"{row.source}, {row.year}",
        (row.place, row.implementation or n.NOTHING, f"{below}{n.seconds(seconds)}",
         f"{below}{n.plain(row.us_per_sample)}", n.share(row.acc), n.share(row.val_acc), facts),
        f"{what}: published by others",
    )  # fmt: skip
