"""Published results beside measured rows: apart, with their caveats, in no statistic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rnnbench.report import numbers as n
from rnnbench.report.anchors import cell_anchor
from rnnbench.report.section import Section
from rnnbench.report.sheet import Column, Row, Sheet
from rnnbench.sources.published import PublishedRow

if TYPE_CHECKING:
    import pandas as pd

WORDS = (
    "Other people's numbers, as they published them, for the same models. They enter no statistic "
    "of this page. Most time whole epochs with validation and start-up, once: read the caveat "
    "before comparing."
)


def beside_section(speed: pd.DataFrame, published: Sequence[PublishedRow]) -> Section:
    """Rows of the measured models, the measured cells' epoch time first."""
    models = list(dict.fromkeys(speed["model"]))
    rows = []
    for model in models:
        theirs = [row for row in published if row.model == model]
        if not theirs:
            continue
        own = speed[speed["model"] == model].sort_values("epoch_seconds", kind="stable")
        for cell in own.drop_duplicates(["device", "machine"]).to_dict("records"):
            name = cell["implementation"] or "model"
            rows.append(
                Row(
                    "rnnbench",
                    (cell["device"], name, n.seconds(cell["epoch_seconds"]), n.NOTHING, n.NOTHING,
                     f"{cell['build']}; fastest of its device; training alone"),
                    f"{model}: measured here",
                    ("", "", cell_anchor(cell), "", "", ""),
                )
            )  # fmt: skip
        rows += [_published(row, model) for row in theirs]
    columns = (
        Column("device", number=False),
        Column("implementation", number=False),
        Column("s per epoch"),
        Column("train acc"),
        Column("validation acc"),
        Column("build, framework, caveat", number=False, quiet=True),
    )
    sheet = Sheet("published", "Side by side", "source", columns, tuple(rows))
    return Section("beside", "Published results", (WORDS,), (), (sheet,), "words published")


def _published(row: PublishedRow, model: str) -> Row:
    seconds = row.train_seconds / row.epochs if row.epochs else None
    facts = "; ".join(filter(None, (row.build, row.framework, row.caveat)))
    return Row(
        f"{row.source}, {row.year}",
        (row.place, row.implementation or n.NOTHING, n.seconds(seconds), n.share(row.acc),
         n.share(row.val_acc), facts),
        f"{model}: published by others",
    )  # fmt: skip
