"""The section that compares devices: relative time and cost, and a recommendation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from rnnbench.axes import TASK
from rnnbench.report import numbers as n
from rnnbench.report.anchors import configuration_anchors
from rnnbench.report.figure import Figure, figure
from rnnbench.report.inputs import ReportInputs
from rnnbench.report.labels import joined
from rnnbench.report.notes import ANSWER, Note
from rnnbench.report.relative_charts import front_panel, relative_panel
from rnnbench.report.section import Section
from rnnbench.report.table_view import Column, TableView, view_of
from rnnbench.report.table_views import marked, span_of
from rnnbench.sources.prices import PriceList
from rnnbench.tables.cost import cheapest_within, fastest_under
from rnnbench.tables.time import NO_DIFFERENCE

TASKS = 12  # drawn; the table has all
PLACES = 4  # named as no worse than the recommended one


def cost_section(table: pd.DataFrame, inputs: ReportInputs, palette: Mapping[str, str]) -> Section:
    """`table` as from `cost`; the section is empty if every task ran in one place only."""
    counts = table.groupby(TASK)["device"].count()
    if table.empty or counts.max() < 2:
        return Section("money", "Devices: time and cost")
    words = [
        "One training (all epochs, without start-up and validation) with the fastest "
        "implementation on each device and build, relative to the reference (dashed line). "
        "Selecting the fastest of several noisy measurements slightly favours every row."
    ]
    prices = inputs.prices
    if prices and table["usd"].notna().any():
        note = f" {prices.note}" if prices.note else ""
        words.append(
            f"Prices: {prices.title} ({prices.date}; {prices.source}).{note} "
            "The interval of a cost follows from that of its time. Break-even: the price per hour "
            "at which a training costs as much as on the reference."
        )
    else:
        words.append("The price list in use has none of these devices, so no cost is shown.")
    views = (cost_view(table), *([kinds_view(table, prices)] if prices else []))
    filled = tuple(view for view in views if view.rows)
    figures = tuple(_figures(table, palette))
    return Section("money", "Devices: time and cost", tuple(words), figures, filled)


def without_lead(section: Section) -> tuple[Section, list[TableView], list[Figure]]:
    """Takes the table and the figures of relative time out of `section`, for a report that leads
    with them."""
    lead = [figure for figure in section.figures if figure.kind == "relative-time"]
    rest = tuple(figure for figure in section.figures if figure not in lead)
    views = list(section.views[:1])
    left = replace(section, figures=rest, views=section.views[1:], text_only=bool(views))
    return left, views, lead


TIME_COLUMNS = (
    Column("fastest implementation", "series", number=False, linked=True),
    Column("seconds", lambda r: marked(n.seconds(r["seconds"]), r), "one training"),
    Column("95 % CI", span_of("seconds"), "one training"),
    Column("relative time", lambda r: "reference" if r["reference"] else n.ratio(r["relative"]),
           "one training"),
    Column("95 % CI", lambda r: _relative_span(r), "one training"),
)  # fmt: skip
COST_COLUMNS = (
    # Prices are not measurements, so they have no runs to link to.
    Column("USD / h", lambda r: n.plain(r["usd_per_hour"], 4), "price", linked=False),
    Column("kind", lambda r: r["price_kind"].replace("_", " ") or n.NOTHING, "price",
           number=False),
    Column("USD", lambda r: n.plain(r["usd"]), "cost"),
    Column("relative", lambda r: n.ratio(r["relative_usd"]), "cost"),
    Column("break-even USD / h", lambda r: n.plain(r["break_even_usd_per_hour"]), "cost"),
)  # fmt: skip
KIND_COLUMNS = (
    Column("fastest implementation", "series", number=False),
    Column("kind of price", "kind", number=False),
    Column("USD / h", lambda r: n.plain(r["usd_per_hour"], 4), linked=False),
    Column("USD", lambda r: n.plain(r["seconds"] / 3600 * r["usd_per_hour"])),
    Column("relative cost", lambda r: n.ratio(r["relative"])),
    Column("95 % CI", span_of("relative", n.ratio_span), quiet=True),
)


def cost_view(table: pd.DataFrame) -> TableView:
    labelled = _labelled(table)
    columns = [*TIME_COLUMNS, *(COST_COLUMNS if table["usd_per_hour"].notna().any() else ())]
    return view_of(labelled, "money-table", "One training by device", "device", "label", columns,
                   "block")  # fmt: skip


def kinds_view(table: pd.DataFrame, prices: PriceList) -> TableView:
    """The costs at prices of another kind than in `cost_view`, relative to the same reference."""
    rows: list[dict[Any, Any]] = []
    for _, places in _labelled(table).groupby(TASK, sort=False):
        base = places.loc[places["reference"], "usd_per_hour"].iloc[0]
        for row in places[places["usd"].notna()].to_dict("records"):
            for price in prices.prices:
                if price.device == row["device"] and price.kind not in ("", row["price_kind"]):
                    usd = {"kind": price.kind.replace("_", " "), "usd_per_hour": price.usd_per_hour}
                    for name in ("relative_low", "relative", "relative_high"):
                        if n.is_number(row[name]):  # a single run has no interval
                            usd[name] = row[name] / base * price.usd_per_hour
                    rows.append({**row, **usd})
    title = "One training at other kinds of price"
    return view_of(pd.DataFrame(rows), "price-kinds", title, "device", "label", KIND_COLUMNS,
                   "block")  # fmt: skip


def recommendations(table: pd.DataFrame, inputs: ReportInputs) -> Iterator[Note]:
    """One note per task and limit that is given."""
    for _, places in _labelled(table).groupby(TASK, sort=False):
        model = places["task"].iloc[0]
        if inputs.deadline is not None:
            found = cheapest_within(places, inputs.deadline)
            limit = f"within {n.plain(inputs.deadline)} s"
            what = f"Cheapest way to train {model} {limit}"
            yield Note(ANSWER, _sentence(what, *found, limit))
        if inputs.budget is not None:
            found = fastest_under(places, inputs.budget)
            limit = f"for at most {n.plain(inputs.budget)} USD"
            what = f"Fastest way to train {model} {limit}"
            yield Note(ANSWER, _sentence(what, *found, limit))


def _sentence(what: str, best: dict[str, Any] | None, others: pd.DataFrame, limit: str) -> str:
    """`others`: the places that may be as good as the `best` one."""
    if best is None:
        return f"{what}: no priced device trains it {limit}, judged by its whole interval."
    names = n.few(list(others["label"]), PLACES, ", ")
    tie = f" ({NO_DIFFERENCE} from {names})" if names else ""
    return (
        f"{what}: `{best['implementation'] or 'model'}` on {best['label']}, "
        f"{n.seconds(best['seconds'])} s and {n.plain(best['usd'])} USD{tie}."
    )


def _text(row: dict[Any, Any]) -> str:
    has_1 = n.is_number(row["low"]) and row["low"] <= 1 <= row["high"]
    return n.ratio(row["value"]) + (f" {NO_DIFFERENCE}" if has_1 and not row["reference"] else "")


def _relative_span(row: dict[Any, Any]) -> str:
    low, high = row["relative_low"], row["relative_high"]
    span = n.ratio_span(low, high, row["relative"])
    return f"{span},\n{NO_DIFFERENCE}" if n.is_number(low) and low <= 1 <= high else span


def _labelled(table: pd.DataFrame) -> pd.DataFrame:
    rows = table.to_dict("records")
    builds, machines = table["build"].nunique() > 1, table.groupby("device")["machine"].nunique()
    varied = [name for name in TASK[1:] if table[name].nunique() > 1]
    tasks = [joined((row["model"], *(row[name] for name in varied))) for row in rows]
    labels = [
        (row["device"], row["machine"] if machines[row["device"]] > 1 else "",
         row["build"] if builds else "")
        for row in rows
    ]  # fmt: skip
    return table.assign(
        label=list(map(joined, labels)),
        task=tasks,
        block=tasks if table.groupby(TASK).ngroups > 1 else "",
        anchor=configuration_anchors(table),
        series=table["implementation"].replace("", "model"),
    )


def _figures(table: pd.DataFrame, palette: Mapping[str, str]) -> Iterator[Figure]:
    labelled = _labelled(table)
    # A figure shrinks with the width of its title.
    by_model = labelled.groupby("task")["model"].first().is_unique
    for number, (task, rows) in enumerate(labelled.groupby("task", sort=False)):
        if number >= TASKS or len(rows) < 2:
            continue
        name = str(rows["model"].iloc[0] if by_model else task)
        group, which = (str(task), "") if labelled["task"].nunique() > 1 else ("", str(task))
        for kind, measure in (("time", "relative"), ("cost", "relative_usd")):
            drawn = rows[rows[measure].notna()].rename(
                columns={measure: "value", f"{measure}_low": "low", f"{measure}_high": "high"}
            )
            if len(drawn) > 1:
                drawn["text"] = list(map(_text, drawn.to_dict("records")))
                yield figure(f"relative-{kind}", group, which, f"Relative {kind}, {name}",
                             relative_panel(drawn, palette, f"{kind} relative to the reference"),
                             )  # fmt: skip
        priced = rows[rows["usd"].notna()]
        if len(priced) > 1:
            yield figure("front", group, which, f"Time against cost, {name}",
                         front_panel(priced, palette))  # fmt: skip
