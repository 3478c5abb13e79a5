"""The section on threads: how measured configurations scale, and published ones."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pandas as pd

from rnnbench.axes import GROUP
from rnnbench.report import charts
from rnnbench.report import numbers as n
from rnnbench.report.figures import Figure, figure
from rnnbench.report.labels import DRAWN, colours, joined, with_labels
from rnnbench.report.section import WORDS, Section
from rnnbench.report.tables import Tables
from rnnbench.report.views import Column, interval_of, view_of
from rnnbench.tables.scaling import published_scaling

THREAD_COLUMNS = (
    Column("threads", "threads", linked=False),
    Column("speed-up", "speedup", n.ratio),
    Column("95 % CI", text=interval_of("speedup", n.ratio_span)),
    Column("efficiency", "efficiency", "{:.0%}".format),
    Column("runs", "runs"),
)
PUBLISHED_THREAD_COLUMNS = (
    Column("vCPUs", "threads", n.whole),
    Column("s", "seconds", n.precise),
    Column("speed-up", "speedup", n.ratio),
    Column("efficiency", "efficiency", "{:.0%}".format),
)


def threads_section(m: Tables) -> Section:
    """The scaling of the measured configurations with threads, and of published ones."""
    words = WORDS["threads"]
    measured = with_labels(m.scaling)
    rows = published_scaling(m.frame, m.inputs.published)
    published = rows.assign(
        efficiency=rows["speedup"] / rows["ideal"],
        series=rows["build"].str.split(" ").str[0],
        group=rows["model"] + ", published by " + rows["source"],
    )

    paragraphs = []
    if len(measured):
        paragraphs.append(words["text"])
    elif len(published):
        paragraphs.append(words["too_few"])
    views = (
        view_of(
            measured,
            "threads-table",
            "Thread scaling",
            "implementation",
            "series",
            THREAD_COLUMNS,
            GROUP,
        ),
        view_of(
            published,
            "threads-published",
            "Published speed-up",
            "build",
            "build",
            PUBLISHED_THREAD_COLUMNS,
            ["group"],
            (words["published"],),
        ),
    )
    return Section(
        "threads",
        paragraphs,
        figures=list(_figures(measured, published, m.palette)),
        views=views,
        csv={"threads": m.scaling},
    )


def _figures(
    measured: pd.DataFrame,
    published: pd.DataFrame,
    palette: charts.Palette,
) -> Iterator[Figure]:
    """The speed-up by threads: of the measured groups, then of each source and model.

    - `measured`: the table of scaling with its labels; `palette`: its colours.
    - `published`: the table of published scaling, with `series`.
    """
    groups = measured.groupby([*GROUP, "machine"], sort=False)
    for (*group, machine), cells in islice(groups, DRAWN):
        chart = charts.by_threads(cells, palette)
        title = f"Speed-up by threads on {machine}"
        yield figure(
            "threads",
            joined(group),
            machine,
            title,
            chart,
        )
    for (source, model), rows in published.groupby(["source", "model"], sort=False):
        chart = charts.by_threads(rows, colours(rows["series"]))
        title = f"Published speed-up by vCPUs, {model}"
        yield figure(
            "threads",
            f"published: {source}",
            model,
            title,
            chart,
        )
