"""Published results: if nothing was measured, a table with ratios and charts for each source, of
which the first leads; otherwise a section next to measured rows. They are marked as such and in no
statistic."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from rnnbench.axes import DEVICE_COLUMNS
from rnnbench.report import charts
from rnnbench.report import numbers as n
from rnnbench.report.figures import Figure, figure
from rnnbench.report.labels import colours, configuration_anchor, joined
from rnnbench.report.numbers import Row
from rnnbench.report.section import WORDS, Section
from rnnbench.report.tables import Tables
from rnnbench.report.views import CellText, Column, view_of
from rnnbench.sources.published import PublishedRow, Source
from rnnbench.tables.published import published_frame, published_pairs

MEASURED = "fastest on its device; training only"


def _bounded(name: str, text: CellText, bound: str = "below") -> CellText:
    """The `text` of the column `name`, which is only a `bound` if the seconds of the row are one:
    ``below 60.00``."""

    def text_of(row: Row) -> str:
        value = text(row[name])
        if row["below"] and value != n.NOTHING:
            return f"{bound} {value}"
        return value

    return text_of


def _decimals(value: Any) -> str:
    """A loss or accuracy, four decimals."""
    return f"{value:.4f}" if n.is_number(value) else n.NOTHING


FACTS = Column("build, framework, caveat", "facts", number=False, quiet=True)
RELATIVE = "relative to its base"
SOURCE_COLUMNS = (
    Column("layer", "implementation", number=False),
    Column("epochs", "epochs", n.whole),
    Column("s", text=_bounded("train_seconds", n.precise)),
    Column("µs / sample", "us_per_sample", n.precise),
    Column("loss", "loss", _decimals),
    Column("acc", "acc", _decimals),
    Column("val loss", "val_loss", _decimals),
    Column("val acc", "val_acc", _decimals),
    Column("USD / h", "price_usd_per_hour", n.precise),
    Column("USD", "usd", n.plain),
    Column("time", text=_bounded("time", n.ratio), spanner=RELATIVE),
    Column("cost", text=_bounded("cost", n.ratio), spanner=RELATIVE),
    Column("speed-up", text=_bounded("speedup", n.ratio, "over"), spanner=RELATIVE),
    FACTS,
)
BESIDE_COLUMNS = (
    Column("device", "device", number=False),
    Column("implementation", "implementation", number=False),
    Column("s per epoch", text=_bounded("seconds", n.plain)),
    Column("µs / sample", text=_bounded("us_per_sample", n.plain)),
    Column("train acc", "acc", n.share, linked=False),
    Column("validation acc", "val_acc", n.share, linked=False),
    FACTS,
)


def source_sections(table: pd.DataFrame, sources: Sequence[Source]) -> list[Section]:
    """The rows of each source, first those of `sources`; others have no ratios.

    `table`: `published_frame`.
    """
    names = list(table["source"].unique())
    shown = [source for source in sources if source.source in names]
    known = {source.source for source in shown}
    shown += [Source(source=name, title=name) for name in names if name not in known]
    return [source_section(table, source) for source in shown]


def sections_without_runs(m: Tables) -> list[Section]:
    """If nothing was measured, the published rows of the experiment's models, by source. The first
    chart stands next to the answer."""
    if len(m.time):
        return []
    rows = [row for row in m.inputs.published if row.model in m.experiment.models]
    table = published_frame(rows)
    sections = []
    for section in source_sections(table, m.inputs.sources):
        paragraphs = (WORDS["published-alone"]["text"], *section.paragraphs)
        sections.append(replace(section, paragraphs=paragraphs))
    for index, section in enumerate(sections):
        if section.figures:
            sections[index] = replace(section, leads=(section.figures[0].id,))
            break
    return sections


def source_section(table: pd.DataFrame, source: Source) -> Section:
    """The rows of `source`, with the columns that it has values for, and charts of what it
    compares: relative time and cost if it has prices, otherwise speed-ups.

    `table`: `published_frame`.
    """
    own = published_pairs(table, source)
    labels = []
    facts = []
    for row in own.to_dict("records"):
        labels.append(_label(row))
        facts.append(joined((row["build"], row["framework"], row["caveat"]), "; "))
    own = own.assign(label=labels, facts=facts)
    rows = own.to_dict("records")

    columns = []
    for column in SOURCE_COLUMNS:
        texts = {column.cell(row) for row in rows}
        if texts - {"", n.NOTHING}:
            columns.append(column)

    # The claims link to it.
    id = "from-" + re.sub(r"\W+", "-", source.source).strip("-").lower()
    group = []
    if own["workload"].nunique() > 1:
        group.append("workload")
    view = view_of(
        own,
        f"{id}-rows",
        source.title,
        "device",
        "label",
        columns,
        group,
    )
    paragraph = f"{source.words} Source: `{source.source}`.".strip()
    return Section(
        id,
        (paragraph,),
        figures=[*_charts(own, id), *_speedup_chart(own, id, source)],
        views=(view,),
        kind="words",
        title=source.title,
    )


def _charts(table: pd.DataFrame, id: str) -> Iterator[Figure]:
    """Time and cost relative to the base of a workload, if there are prices.

    - `table`: `published_pairs`, with the column `label`.
    - `id`: of the section.
    """
    table = table[table["cost"].notna()]
    if table.empty:
        return
    framework = table["framework"].str.partition(" ")[0]
    series = framework + " " + table["build"]
    palette = colours(series)
    table = table.assign(series=series, low=None, high=None)
    for workload, rows in table.groupby("workload", sort=False):
        base = rows["place_base"].iat[0]
        for kind in ("time", "cost"):
            drawn = rows.assign(
                place=rows["label"],
                value=rows[kind],
                label=rows[kind].map(n.ratio),
            )
            chart = charts.relative(drawn, palette, f"{kind} relative to {base}")
            title = f"Relative {kind}, {workload}"
            yield figure(
                f"published-{kind}",
                "",
                f"{id}-{workload}",
                title,
                chart,
            )


def _speedup_chart(table: pd.DataFrame, id: str, source: Source) -> Iterator[Figure]:
    """The speed-ups over the base of the source, if it has no prices. Rows whose seconds are only a
    bound are not drawn.

    - `table`: `published_pairs`, with the column `label`.
    - `id`: of the section.
    """
    drawn = table[~table["below"].astype(bool) & table["speedup"].notna()]
    if len(drawn) < 2 or table["cost"].notna().any():
        return
    rows = drawn.assign(
        place=drawn["implementation"] + ", " + drawn["label"],
        series=drawn["implementation"],
        value=drawn["speedup"],
        low=None,
        high=None,
        label=drawn["speedup"].map(n.ratio),
    )
    base = drawn["place_base"].iat[0]
    if source.by == "device":
        base = f"{drawn['implementation_base'].iat[0]} on the same device"
    palette = colours(rows["series"])
    chart = charts.relative(rows, palette, f"speed-up over {base}")
    years = ", ".join(sorted({str(year) for year in drawn["year"]}))
    title = f"Published in {years}, not measured here"
    yield figure("published-speedup", "", id, title, chart)


def _label(row: Row) -> str:
    """``8 vCPUs, compiled``; ``Tesla P100, CNTK``.

    `row`: of `published_pairs`.
    """
    name = row["place"]
    if n.is_number(row["vcpus"]):
        name = f"{row['vcpus']:.0f} vCPUs"
    framework = "CNTK" if row["framework"].startswith("CNTK") else ""
    build = row["build"].partition(" ")[0]
    return joined((name, framework, build), ", ")


def beside_section(m: Tables) -> Section:
    """The published rows of each measured model, cell type and number of samples, after the fastest
    measured rows of the same.

    Text lists the published rows of measured models that are not shown.
    """
    rows = []
    learning = m.time[m.time["not_learning"] == ""]
    measured_models = set(m.time["model"])
    known = [row for row in m.inputs.published if row.model in measured_models]
    shown: list[PublishedRow] = []
    for (model, cell, samples), own in learning.groupby(["model", "cell", "samples"], sort=False):
        matching = []
        for row in known:
            # A row without a recurrent layer has no cell.
            if (row.model, row.train_samples) == (model, samples) and row.cell in ("", cell):
                matching.append(row)
        if not matching:
            continue
        shown += matching
        name = joined((model, matching[0].cell), ", ")
        group = f"{name}, {samples:,} samples per epoch"

        by_speed = own.sort_values("epoch_seconds", kind="stable")
        fastest = by_speed.drop_duplicates([*DEVICE_COLUMNS, "variant"])
        for measured in fastest.to_dict("records"):
            rows.append(_measured(measured, f"{group}: measured here"))
        for row in matching:
            rows.append(_published(row, f"{group}: published by others"))

    paragraphs = [WORDS["beside"]["text"]] if rows else []
    paragraphs += _not_shown([row for row in known if row not in shown])

    view = view_of(
        pd.DataFrame(rows),
        "published",
        "Measured and published results",
        "source",
        "source",
        BESIDE_COLUMNS,
        ["group"],
    )
    return Section(
        "beside",
        paragraphs,
        views=(view,),
        kind="words published",
    )


def _not_shown(rows: Sequence[PublishedRow]) -> Iterator[str]:
    """Sentences on published rows, counted by source and model.

    `rows`: those of measured models that match no measured row.
    """
    counts: Counter[tuple[str, str, int | None]] = Counter()
    for row in rows:
        model = joined((row.model, row.cell), ", ")
        counts[row.source, model, row.train_samples] += 1
    for (source, model, samples), count in counts.items():
        number = "number of samples not given"
        if samples:
            number = f"{samples:,} samples per epoch"
        yield (
            "Not shown, because the cell type or the number of samples differs or is unknown: "
            f"{n.counted(count, 'row')} of `{model}` ({number}) by {source}."
        )


def _measured(row: Row, group: str) -> dict[str, Any]:
    """A row of the time table as one of the section.

    `group`: the heading of its block.
    """
    return {
        "group": group,
        "source": "rnnbench",
        "device": row["device"],
        "implementation": row["implementation"] or "model",
        "seconds": row["epoch_seconds"],
        "us_per_sample": row["us_per_sample"],
        "acc": None,
        "val_acc": None,
        "below": False,
        "facts": joined((row["build"], str(row["variant"]), MEASURED), "; "),
        "anchor": configuration_anchor(row),
    }


def _published(row: PublishedRow, group: str) -> dict[str, Any]:
    """A published row as one of the section.

    `group`: the heading of its block.
    """
    seconds = None
    if row.epochs:
        seconds = row.train_seconds / row.epochs
    return {
        "group": group,
        "source": f"{row.source}, {row.year}",
        "device": row.place,
        "implementation": row.implementation or n.NOTHING,
        "seconds": seconds,
        "us_per_sample": row.us_per_sample,
        "acc": row.acc,
        "val_acc": row.val_acc,
        "below": row.below,
        "facts": joined((row.build, row.framework, row.caveat), "; "),
        "anchor": "",
    }
