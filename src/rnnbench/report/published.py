"""Published results: their own page, with claims about them and per source a table with ratios and
charts, and a section next to measured rows. They are marked as such and in no statistic."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from rnnbench.axes import DEVICE_COLUMNS
from rnnbench.report import charts
from rnnbench.report import numbers as n
from rnnbench.report.labels import colours, configuration_anchor
from rnnbench.report.parts import WORDS, Column, Figure, Section, figure, text_of, view_of
from rnnbench.report.tables import Tables
from rnnbench.sources.published import PublishedRow, Source
from rnnbench.tables.comparison import (
    FAILS,
    OPEN,
    published_frame,
    published_pairs,
)

MEASURED = "fastest on its device; training only"
SHOWN = 4  # values, or pairs of measured configurations, of a claim


def _facts(*facts: str) -> str:
    return "; ".join(filter(None, facts))


def _bounded(row: Mapping[Any, Any], text: str, bound: str = "below") -> str:
    return f"{bound} {text}" if row["below"] and text != n.NOTHING else text


def _decimals(value: Any) -> str:
    return f"{value:.4f}" if n.is_number(value) else n.NOTHING


RELATIVE = "relative to its base"
SOURCE_COLUMNS = (
    Column("layer", "implementation", number=False),
    Column("epochs", lambda r: n.plain(r["epochs"], 1)),
    Column("s", lambda r: _bounded(r, n.plain(r["train_seconds"], 4))),
    Column("µs / sample", lambda r: n.plain(r["us_per_sample"], 4)),
    Column("loss", lambda r: _decimals(r["loss"])),
    Column("acc", lambda r: _decimals(r["acc"])),
    Column("val loss", lambda r: _decimals(r["val_loss"])),
    Column("val acc", lambda r: _decimals(r["val_acc"])),
    Column("USD / h", lambda r: n.plain(r["price_usd_per_hour"], 4)),
    Column("USD", lambda r: n.plain(r["usd"])),
    Column("time", lambda r: _bounded(r, n.ratio(r["time"])), RELATIVE),
    Column("cost", lambda r: _bounded(r, n.ratio(r["cost"])), RELATIVE),
    Column("speed-up", lambda r: _bounded(r, n.ratio(r["speedup"]), "over"), RELATIVE),
    Column("build, framework, caveat", lambda r: _facts(r["build"], r["framework"], r["caveat"]),
           number=False, quiet=True),
)  # fmt: skip
CLAIM_COLUMNS = (
    Column("its rows say", "verdict", number=False),
    Column("value in the rows", lambda r: _values(r["values"]), number=False, linked=True),
    Column("measured here", "ours", number=False),
    Column("quotation", "words", number=False),
    Column("note", "note", number=False, quiet=True),
    Column("tested", lambda r: r["tested"] or n.NOTHING, number=False, linked=True),
    Column("source", "address", number=False, quiet=True),
)
BESIDE_COLUMNS = (
    Column("device", "device", number=False),
    Column("implementation", "implementation", number=False),
    Column("s per epoch", lambda r: _bounded(r, n.plain(r["seconds"]))),
    Column("µs / sample", lambda r: _bounded(r, n.plain(r["us_per_sample"]))),
    Column("train acc", lambda r: n.share(r["acc"]), linked=False),
    Column("validation acc", lambda r: n.share(r["val_acc"]), linked=False),
    Column("build, framework, caveat", "facts", number=False, quiet=True),
)


def told(table: pd.DataFrame, sources: Sequence[Source]) -> list[Source]:
    """`sources`, and one without ratios for each other source of the rows in `table`."""
    names = {source.source for source in sources}
    others = [name for name in table["source"].unique() if name not in names]
    return [*sources, *(Source(source=name, title=name) for name in others)]


def sections_without_runs(m: Tables) -> list[Section]:
    """If nothing was measured, the published rows of the experiment's models, by source."""
    if len(m.time):
        return []
    rows = [row for row in m.inputs.published if row.model in m.experiment.models]
    table = published_frame(rows)
    names = set(table["source"])
    sources = [source for source in told(table, m.inputs.sources) if source.source in names]
    sections = [source_section(table, source) for source in sources]
    note = WORDS["published-alone"]["text"]
    return [replace(each, paragraphs=(note, *each.paragraphs)) for each in sections]


def source_section(table: pd.DataFrame, source: Source) -> Section:
    """The rows of `source` in `table` (`published_frame`), with the columns that it has values for
    and, if it has prices, charts of relative time and cost."""
    own = published_pairs(table, source)
    rows = own.to_dict("records")
    columns = [
        column
        for column in SOURCE_COLUMNS
        if any(text_of(column.text, row) not in ("", n.NOTHING) for row in rows)
    ]
    id = section_id(source.source)
    group = "workload" if own["workload"].nunique() > 1 else lambda row: ""
    view = view_of(own, f"{id}-rows", source.title, "device", _label, columns, group)
    words = (f"{source.words} Source: `{source.source}`.".strip(),)
    return Section(id, words, list(_charts(own, id)), (view,), "words", title=source.title)


def section_id(source: str) -> str:
    return "from-" + re.sub(r"\W+", "-", source).strip("-").lower()


def _charts(table: pd.DataFrame, id: str) -> Iterator[Figure]:
    table = table[table["cost"].notna()]
    if table.empty:
        return
    series = table["framework"].str.partition(" ")[0] + " " + table["build"]
    table = table.assign(place=table.apply(_label, axis=1), series=series, low=None, high=None)
    palette = colours(series)
    for workload, rows in table.groupby("workload", sort=False):
        for kind in ("time", "cost"):
            drawn = rows.assign(value=rows[kind], label=rows[kind].map(n.ratio))
            title = f"{kind} relative to {rows['place_base'].iat[0]}"
            chart = charts.relative(drawn, palette, title)
            yield figure(f"published-{kind}", "", f"{id}-{workload}",
                         f"Relative {kind}, {workload}", chart)  # fmt: skip


def _label(row: Mapping[Any, Any]) -> str:
    """``8 vCPUs, compiled``; ``Tesla P100, CNTK``."""
    name = f"{row['vcpus']:.0f} vCPUs" if n.is_number(row["vcpus"]) else row["place"]
    framework = "CNTK" if row["framework"].startswith("CNTK") else ""
    return ", ".join(filter(None, (name, framework, row["build"].partition(" ")[0])))


def claims_section(table: pd.DataFrame, ours: Mapping[str, pd.DataFrame]) -> Section:
    """`table` and `ours` as `claims_table` and `measured_claims` make them."""
    failing, undecided = (table["verdict"].str.startswith(text).sum() for text in (FAILS, OPEN))
    summary = (
        f"Of {n.counted(len(table), 'claim')}, {failing} do not hold by their rows, and the rows "
        f"do not decide {undecided}."
    )
    table = table.assign(
        anchor=table["source"].map(section_id),
        ours=[_ours(ours.get(claim)) for claim in table["claim"]],
    )
    view = view_of(table, "claims", "Claims and their rows", "claim", "claim", CLAIM_COLUMNS)
    return Section(
        "claims-section", (WORDS["claims-section"]["text"], summary), (), (view,), "words"
    )


def _values(values: Mapping[str, float]) -> str:
    if len(values) > SHOWN:
        return f"{n.ratio(min(values.values()))} to {n.ratio(max(values.values()))}"
    texts = [f"{key}: {n.ratio(value)}" if key else n.ratio(value) for key, value in values.items()]
    return "; ".join(texts) or n.NOTHING


def _ours(table: pd.DataFrame | None) -> str:
    if table is None:
        return n.NOTHING
    more = [f"and {len(table) - SHOWN} more"] if len(table) > SHOWN else []
    return "; ".join([*map(_pair, table.head(SHOWN).to_dict("records")), *more])


def _pair(row: Mapping[Any, Any]) -> str:
    where = f"{row['same']}: " if row["same"] else ""
    return where + ", ".join(filter(None, (n.pair(row) or row["words"], row["difference"])))


def beside_section(m: Tables) -> Section:
    """The published rows of each measured model, cell type and number of samples, after the fastest
    measured rows of the same. Text lists the published rows of measured models that are not
    shown."""
    speed, published = m.time, m.inputs.published
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
        if matching:
            rest = [row for row in rest if row not in matching]
            group = f"{_name(matching[0])}, {samples:,} samples per epoch"
            by_speed = own.sort_values("epoch_seconds", kind="stable")
            fastest = by_speed.drop_duplicates([*DEVICE_COLUMNS, "variant"]).to_dict("records")
            rows += [{**_measured(row), "group": f"{group}: measured here"} for row in fastest]
            group += ": published by others"
            rows += [{**_published(row), "group": group} for row in matching]
    words = [*([WORDS["beside"]["text"]] if rows else []), *_not_shown(rest)]
    view = view_of(pd.DataFrame(rows), "published", "Measured and published results", "source",
                   "source", BESIDE_COLUMNS, "group")  # fmt: skip
    kind = "words published" if rows else ""
    return Section("beside", words, (), (view,), kind, text_only=bool(words))


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


def _measured(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {
        "source": "rnnbench",
        "device": row["device"],
        "implementation": row["implementation"] or "model",
        "seconds": row["epoch_seconds"],
        "us_per_sample": row["us_per_sample"],
        "acc": None,
        "val_acc": None,
        "below": False,
        "facts": _facts(row["build"], str(row["variant"]), MEASURED),
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
        "facts": _facts(row.build, row.framework, row.caveat),
        "anchor": "",
    }
