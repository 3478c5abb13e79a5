"""Published results: their own page, with claims about them and per source a table with ratios and
charts, and a section next to measured rows. They are marked as such and in no statistic."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from rnnbench.axes import DEVICE_COLUMNS
from rnnbench.report import charts
from rnnbench.report import numbers as n
from rnnbench.report.figures import Figure, figure
from rnnbench.report.labels import colours, configuration_anchor
from rnnbench.report.numbers import Row
from rnnbench.report.section import WORDS, Section
from rnnbench.report.tables import Tables
from rnnbench.report.views import Column, view_of
from rnnbench.sources.published import PublishedRow, Source
from rnnbench.tables.claims import FAILS, OPEN, published_frame, published_pairs

MEASURED = "fastest on its device; training only"
SHOWN = 4  # values, or pairs of measured configurations, of a claim


def _filled(texts: Sequence[str], separator: str) -> str:
    return separator.join(text for text in texts if text)


def _bounded(name: str, text: Callable[[Any], str], bound: str = "below") -> Callable[[Any], str]:
    """The `text` of the column `name`, which is only a bound if the seconds of the row are one."""

    def bounded(row: Row) -> str:
        value = text(row[name])
        return f"{bound} {value}" if row["below"] and value != n.NOTHING else value

    return bounded


def _decimals(value: Any) -> str:
    return f"{value:.4f}" if n.is_number(value) else n.NOTHING


def _caveats(row: Row) -> str:
    return _filled((row["build"], row["framework"], row["caveat"]), "; ")


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
    Column("build, framework, caveat", text=_caveats, number=False, quiet=True),
)
CLAIM_COLUMNS = (
    Column("its rows say", "verdict", number=False),
    Column("value in the rows", "value", number=False, linked=True),
    Column("measured here", "ours", number=False),
    Column("quotation", "words", number=False),
    Column("note", "note", number=False, quiet=True),
    Column("tested", "tested", number=False, linked=True),
    Column("source", "address", number=False, quiet=True),
)
BESIDE_COLUMNS = (
    Column("device", "device", number=False),
    Column("implementation", "implementation", number=False),
    Column("s per epoch", text=_bounded("seconds", n.plain)),
    Column("µs / sample", text=_bounded("us_per_sample", n.plain)),
    Column("train acc", "acc", n.share, linked=False),
    Column("validation acc", "val_acc", n.share, linked=False),
    Column("build, framework, caveat", "facts", number=False, quiet=True),
)


def source_sections(table: pd.DataFrame, sources: Sequence[Source]) -> list[Section]:
    """The rows in `table` (`published_frame`) of each source; those that are not in `sources` have
    no ratios."""
    names = set(table["source"])
    told = [source for source in sources if source.source in names]
    known = {source.source for source in told}
    for name in table["source"].unique():
        if name not in known:
            told.append(Source(source=name, title=name))
    return [source_section(table, source) for source in told]


def sections_without_runs(m: Tables) -> list[Section]:
    """If nothing was measured, the published rows of the experiment's models, by source."""
    if len(m.time):
        return []
    rows = [row for row in m.inputs.published if row.model in m.experiment.models]
    sections = []
    for section in source_sections(published_frame(rows), m.inputs.sources):
        paragraphs = (WORDS["published-alone"]["text"], *section.paragraphs)
        sections.append(replace(section, paragraphs=paragraphs))
    return sections


def source_section(table: pd.DataFrame, source: Source) -> Section:
    """The rows of `source` in `table` (`published_frame`), with the columns that it has values for
    and, if it has prices, charts of relative time and cost."""
    own = published_pairs(table, source)
    own = own.assign(label=[_label(row) for row in own.to_dict("records")])
    columns = []
    for column in SOURCE_COLUMNS:
        texts = {column.cell(row) for row in own.to_dict("records")}
        if texts - {"", n.NOTHING}:
            columns.append(column)
    id = section_id(source.source)
    group = ["workload"] if own["workload"].nunique() > 1 else []
    view = view_of(own, f"{id}-rows", source.title, "device", "label", columns, group)
    paragraph = f"{source.words} Source: `{source.source}`.".strip()
    return Section(
        id,
        (paragraph,),
        figures=list(_charts(own, id)),
        views=(view,),
        kind="words",
        title=source.title,
    )


def section_id(source: str) -> str:
    return "from-" + re.sub(r"\W+", "-", source).strip("-").lower()


def _charts(table: pd.DataFrame, id: str) -> Iterator[Figure]:
    table = table[table["cost"].notna()]
    if table.empty:
        return
    series = table["framework"].str.partition(" ")[0] + " " + table["build"]
    palette = colours(series)
    table = table.assign(series=series, low=None, high=None)
    for workload, rows in table.groupby("workload", sort=False):
        base = rows["place_base"].iat[0]
        for kind in ("time", "cost"):
            drawn = rows.assign(
                place=rows["label"], value=rows[kind], label=rows[kind].map(n.ratio)
            )
            chart = charts.relative(drawn, palette, f"{kind} relative to {base}")
            title = f"Relative {kind}, {workload}"
            yield figure(f"published-{kind}", "", f"{id}-{workload}", title, chart)


def _label(row: Row) -> str:
    """``8 vCPUs, compiled``; ``Tesla P100, CNTK``."""
    name = f"{row['vcpus']:.0f} vCPUs" if n.is_number(row["vcpus"]) else row["place"]
    framework = "CNTK" if row["framework"].startswith("CNTK") else ""
    return _filled((name, framework, row["build"].partition(" ")[0]), ", ")


def claims_section(table: pd.DataFrame, ours: Mapping[str, pd.DataFrame]) -> Section:
    """`table` and `ours` as `claims_table` and `measured_claims` make them."""
    failing = table["verdict"].str.startswith(FAILS).sum()
    undecided = table["verdict"].str.startswith(OPEN).sum()
    summary = (
        f"Of {n.counted(len(table), 'claim')}, {failing} do not hold by their rows, and the rows "
        f"do not decide {undecided}."
    )
    table = table.assign(
        anchor=table["source"].map(section_id),
        value=table["values"].map(_values),
        ours=[_ours(ours.get(claim)) for claim in table["claim"]],
        tested=table["tested"].replace("", n.NOTHING),
    )
    view = view_of(table, "claims", "Claims and their rows", "claim", "claim", CLAIM_COLUMNS)
    paragraphs = (WORDS["claims-section"]["text"], summary)
    return Section("claims-section", paragraphs, views=(view,), kind="words")


def _values(values: Mapping[str, float]) -> str:
    if not values:
        return n.NOTHING
    if len(values) > SHOWN:
        return f"{n.ratio(min(values.values()))} to {n.ratio(max(values.values()))}"
    texts = [f"{key}: {n.ratio(value)}" if key else n.ratio(value) for key, value in values.items()]
    return "; ".join(texts)


def _ours(table: pd.DataFrame | None) -> str:
    if table is None:
        return n.NOTHING
    texts = []
    for row in table.head(SHOWN).to_dict("records"):
        where = f"{row['same']}: " if row["same"] else ""
        texts.append(where + _filled((n.pair(row) or row["words"], row["difference"]), ", "))
    if len(table) > SHOWN:
        texts.append(f"and {len(table) - SHOWN} more")
    return "; ".join(texts)


def beside_section(m: Tables) -> Section:
    """The published rows of each measured model, cell type and number of samples, after the fastest
    measured rows of the same. Text lists the published rows of measured models that are not
    shown."""
    rows: list[dict[str, Any]] = []
    learning = m.time[m.time["not_learning"] == ""]
    known = [row for row in m.inputs.published if row.model in set(m.time["model"])]
    shown: list[PublishedRow] = []
    for (model, cell, samples), own in learning.groupby(["model", "cell", "samples"], sort=False):
        matching = []
        for row in known:
            # A row without a recurrent layer has no cell.
            if (row.model, row.train_samples) == (model, samples) and row.cell in ("", cell):
                matching.append(row)
        shown += matching
        if matching:
            group = f"{_name(matching[0])}, {samples:,} samples per epoch"
            by_speed = own.sort_values("epoch_seconds", kind="stable")
            fastest = by_speed.drop_duplicates([*DEVICE_COLUMNS, "variant"])
            for measured in fastest.to_dict("records"):
                rows.append({**_measured(measured), "group": f"{group}: measured here"})
            for row in matching:
                rows.append({**_published(row), "group": f"{group}: published by others"})
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
    return Section("beside", paragraphs, views=(view,), kind="words published")


def _name(row: PublishedRow) -> str:
    return _filled((row.model, row.cell), ", ")


def _not_shown(rows: Sequence[PublishedRow]) -> Iterator[str]:
    """Sentences on the published rows of measured models that match no measured row."""
    counts = Counter((row.source, _name(row), row.train_samples) for row in rows)
    for (source, model, samples), count in counts.items():
        number = f"{samples:,} samples per epoch" if samples else "number of samples not given"
        yield (
            "Not shown, because the cell type or the number of samples differs or is unknown: "
            f"{n.counted(count, 'row')} of `{model}` ({number}) by {source}."
        )


def _measured(row: Row) -> dict[str, Any]:
    return {
        "source": "rnnbench",
        "device": row["device"],
        "implementation": row["implementation"] or "model",
        "seconds": row["epoch_seconds"],
        "us_per_sample": row["us_per_sample"],
        "acc": None,
        "val_acc": None,
        "below": False,
        "facts": _filled((row["build"], str(row["variant"]), MEASURED), "; "),
        "anchor": configuration_anchor(row),
    }


def _published(row: PublishedRow) -> dict[str, Any]:
    return {
        "source": f"{row.source}, {row.year}",
        "device": row.place,
        "implementation": row.implementation or n.NOTHING,
        "seconds": row.train_seconds / row.epochs if row.epochs else None,
        "us_per_sample": row.us_per_sample,
        "acc": row.acc,
        "val_acc": row.val_acc,
        "below": row.below,
        "facts": _filled((row.build, row.framework, row.caveat), "; "),
        "anchor": "",
    }
