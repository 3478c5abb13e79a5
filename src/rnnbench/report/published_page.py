"""The page of published results: claims about them, and per source a table with ratios and charts.
All numbers are computed from the published rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd

from rnnbench.report import numbers as n
from rnnbench.report.colours import colours
from rnnbench.report.figure import Figure, figure
from rnnbench.report.page import environment, write_texts
from rnnbench.report.relative_charts import relative_panel
from rnnbench.report.section import Section
from rnnbench.report.table_view import Column, text_of, view_of
from rnnbench.sources.published import Claim, PublishedRow, Source
from rnnbench.tables.published import FAILS, OPEN, claims_table, compared, published_frame

SHOWN = 4  # values, or pairs of measured configurations, of a claim
CLAIMS = (
    "Claims that are quoted from these sources, in their own words, and whether their own rows "
    "agree. A value is the published number of the first rows divided by that of the others, or "
    "the geometric mean if there are several pairs. Next to it is the ratio measured on this "
    "machine, if there is one, with its 95 % confidence interval."
)


def write_published(
    rows: Sequence[PublishedRow],
    out: Path,
    sources: Sequence[Source] = (),
    claims: Sequence[Claim] = (),
    ours: Mapping[str, pd.DataFrame] = MappingProxyType({}),
) -> list[Path]:
    """Writes ``published.html`` into `out`. Returns a list with its path. `sources`: what to tell
    about the rows; `claims`: quoted claims about them; `ours`: claim → what was measured here
    (`measured_claims`)."""
    table = published_frame(rows)
    sections = [source_section(table, source) for source in told(table, sources)]
    if claims:
        sections.insert(0, claims_section(claims_table(claims, table), ours))
    text = (
        environment(html=True)
        .get_template("published.html.j2")
        .render(
            sections=list(filter(None, sections)),
            count=n.counted(len(rows), "published row"),
            title="Published comparisons",
            description="Quoted comparisons of cuDNN, GPUs and CPUs, with the sources' numbers.",
        )
    )
    return write_texts({"published.html": text}, out, clean=False)


def told(table: pd.DataFrame, sources: Sequence[Source]) -> list[Source]:
    """`sources`, and one without ratios for each other source of the rows in `table`."""
    names = {source.source for source in sources}
    others = [name for name in table["source"].unique() if name not in names]
    return [*sources, *(Source(source=name, title=name) for name in others)]


def _number(name: str, digits: int = 4) -> Callable[[Any], str]:
    return lambda row: n.plain(row[name], digits)


def _decimals(name: str) -> Callable[[Any], str]:
    return lambda row: f"{row[name]:.4f}" if n.is_number(row[name]) else n.NOTHING


def _ratio(name: str, bound: str = "below") -> Callable[[Any], str]:
    return lambda row: _bounded(row, bound, n.ratio(row[name]))


def _bounded(row: Mapping[Any, Any], bound: str, text: str) -> str:
    return f"{bound} {text}" if row["below"] and text != n.NOTHING else text


def _facts(row: Mapping[Any, Any]) -> str:
    return "; ".join(filter(None, (row["build"], row["framework"], row["caveat"])))


RELATIVE = "relative to its base"
COLUMNS = (
    Column("layer", "implementation", number=False),
    Column("epochs", _number("epochs", 1)),
    Column("s", lambda r: _bounded(r, "below", n.plain(r["train_seconds"], 4))),
    Column("µs / sample", _number("us_per_sample")),
    Column("loss", _decimals("loss")),
    Column("acc", _decimals("acc")),
    Column("val loss", _decimals("val_loss")),
    Column("val acc", _decimals("val_acc")),
    Column("USD / h", _number("price_usd_per_hour")),
    Column("USD", _number("usd", 3)),
    Column("time", _ratio("time"), RELATIVE),
    Column("cost", _ratio("cost"), RELATIVE),
    Column("speed-up", _ratio("speedup", "over"), RELATIVE),
    Column("build, framework, caveat", _facts, number=False, quiet=True),
)


def source_section(table: pd.DataFrame, source: Source) -> Section:
    """The rows of `source` in `table` (`published_frame`), with the columns that it has values for
    and, if it has prices, charts of relative time and cost."""
    own = compared(table, source)
    rows = own.to_dict("records")
    columns = [
        column
        for column in COLUMNS
        if any(text_of(column.text, row) not in ("", n.NOTHING) for row in rows)
    ]
    id = section_id(source.source)
    group = "workload" if own["workload"].nunique() > 1 else lambda row: ""
    view = view_of(own, f"{id}-rows", source.title, "device", _label, columns, group)
    words = (f"{source.words} Source: `{source.source}`.".strip(),)
    return Section(id, source.title, words, tuple(_charts(own, id)), (view,), "words")


def section_id(source: str) -> str:
    return "from-" + re.sub(r"\W+", "-", source).strip("-").lower()


def _charts(table: pd.DataFrame, id: str) -> Iterator[Figure]:
    table = table[table["cost"].notna()]
    if table.empty:
        return
    series = table["framework"].str.partition(" ")[0] + " " + table["build"]
    table = table.assign(label=table.apply(_label, axis=1), series=series, low=None, high=None)
    palette = colours(series)
    for workload, rows in table.groupby("workload", sort=False):
        for kind in ("time", "cost"):
            drawn = rows.assign(value=rows[kind], text=rows[kind].map(n.ratio))
            title = f"{kind} relative to {rows['place_base'].iat[0]}"
            chart = relative_panel(drawn, palette, title)
            yield figure(f"published-{kind}", "", f"{id}-{workload}",
                         f"Relative {kind}, {workload}", chart)  # fmt: skip


def _label(row: Mapping[Any, Any]) -> str:
    """``8 vCPUs, compiled``; ``Tesla P100, CNTK``."""
    name = f"{row['vcpus']:.0f} vCPUs" if n.is_number(row["vcpus"]) else row["place"]
    framework = "CNTK" if row["framework"].startswith("CNTK") else ""
    return ", ".join(filter(None, (name, framework, row["build"].partition(" ")[0])))


def claims_section(table: pd.DataFrame, ours: Mapping[str, pd.DataFrame]) -> Section:
    """`table` and `ours` as `claims_table` and `measured_claims` make them."""
    columns = (
        Column("its rows say", "verdict", number=False),
        Column("value in the rows", _values, number=False, linked=True),
        Column("measured here", lambda r: _ours(ours.get(r["claim"])), number=False),
        Column("quotation", "words", number=False),
        Column("note", "note", number=False, quiet=True),
        Column("tested", lambda r: r["tested"] or n.NOTHING, number=False, linked=True),
        Column("source", "address", number=False, quiet=True),
    )
    failing, undecided = (table["verdict"].str.startswith(text).sum() for text in (FAILS, OPEN))
    summary = (
        f"Of {n.counted(len(table), 'claim')}, {failing} do not hold by their rows, and the rows "
        f"do not decide {undecided}."
    )
    table = table.assign(anchor=table["source"].map(section_id))
    view = view_of(table, "claims", "Claims and their rows", "claim", "claim", columns)
    return Section("claims-section", "Claims", (CLAIMS, summary), (), (view,), "words")


def _values(row: Mapping[Any, Any]) -> str:
    values = row["values"]
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
