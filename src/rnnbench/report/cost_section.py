"""The section that compares devices: relative time and cost, and a recommendation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from rnnbench.axes import TASK
from rnnbench.report import numbers as n
from rnnbench.report.anchors import configuration_anchor
from rnnbench.report.figure import Figure, figure
from rnnbench.report.inputs import ReportInputs
from rnnbench.report.relative_charts import front_panel, relative_panel
from rnnbench.report.section import Section
from rnnbench.report.table_view import Column, Row, TableView
from rnnbench.sources.prices import PriceList
from rnnbench.tables.cost import cheapest_within, fastest_under
from rnnbench.tables.time import NO_DIFFERENCE

TASKS = 12  # drawn; the table has all
HEADS = (
    ("fastest implementation", "", False),
    ("seconds", "one training", True),
    ("95 % CI", "one training", True),
    ("relative time", "one training", True),
    ("95 % CI", "one training", True),
    ("USD / h", "price", True),
    ("kind", "price", False),
    ("USD", "cost", True),
    ("relative", "cost", True),
    ("break-even USD / h", "cost", True),
)


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


def cost_view(table: pd.DataFrame) -> TableView:
    labelled = _labelled(table)
    several = table.groupby(TASK).ngroups > 1
    rows = tuple(
        Row(row["label"], _cells(row), row["task"] if several else "", _links(row))
        for row in labelled.to_dict("records")
    )
    columns = tuple(Column(label, over, number) for label, over, number in HEADS)
    priced = bool(table["usd_per_hour"].notna().any())
    if not priced:
        rows = tuple(Row(row.head, row.cells[:5], row.group, row.links[:5]) for row in rows)
    return TableView("money-table", "One training by device", "device",
                 columns if priced else columns[:5], rows)  # fmt: skip


def kinds_view(table: pd.DataFrame, prices: PriceList) -> TableView:
    """The costs at prices of another kind than in `cost_view`, relative to the same reference."""
    labelled = _labelled(table)
    several = table.groupby(TASK).ngroups > 1
    rows = []
    for _, places in labelled.groupby(TASK, sort=False):
        base = places.loc[places["reference"], "usd_per_hour"].iloc[0]
        for row in places.to_dict("records"):
            for price in prices.prices:
                if price.device != row["device"] or price.kind in ("", row["price_kind"]):
                    continue
                low, relative, high = (
                    row[name] / base * price.usd_per_hour if n.is_number(row[name]) else math.nan
                    for name in ("relative_low", "relative", "relative_high")
                )
                cells = (
                    row["implementation"] or "model",
                    price.kind.replace("_", " "),
                    n.plain(price.usd_per_hour, 4),
                    n.plain(row["seconds"] / 3600 * price.usd_per_hour),
                    n.ratio(relative),
                    n.ratio_span(low, high, relative),
                )
                links = ("", "", "", *[row["anchor"]] * 3)
                rows.append(Row(row["label"], cells, row["task"] if several else "", links))
    columns = (
        Column("fastest implementation", number=False),
        Column("kind of price", number=False),
        Column("USD / h"),
        Column("USD"),
        Column("relative cost"),
        Column("95 % CI", quiet=True),
    )
    title = "One training at other kinds of price"
    return TableView("price-kinds", title, "device", columns, tuple(rows))


def recommendations(table: pd.DataFrame, inputs: ReportInputs) -> list[str]:
    """One sentence per task and limit; [] if no limit is given."""
    sentences = []
    for _, places in _labelled(table).groupby(TASK, sort=False):
        model = places["task"].iloc[0]
        if inputs.deadline is not None:
            best = cheapest_within(places, inputs.deadline)
            limit = f"within {n.plain(inputs.deadline)} s"
            sentences.append(_sentence(f"Cheapest way to train {model} {limit}", best, limit))
        if inputs.budget is not None:
            best = fastest_under(places, inputs.budget)
            limit = f"for at most {n.plain(inputs.budget)} USD"
            sentences.append(_sentence(f"Fastest way to train {model} {limit}", best, limit))
    return sentences


def _sentence(what: str, best: dict[str, Any] | None, limit: str) -> str:
    if best is None:
        return f"{what}: no priced device trains it {limit}, judged by its whole interval."
    return (
        f"{what}: `{best['implementation'] or 'model'}` on {best['label']}, "
        f"{n.seconds(best['seconds'])} s and {n.plain(best['usd'])} USD."
    )


def _text(row: dict[Any, Any]) -> str:
    has_1 = n.is_number(row["low"]) and row["low"] <= 1 <= row["high"]
    return n.ratio(row["value"]) + (f" {NO_DIFFERENCE}" if has_1 and not row["reference"] else "")


def _cells(row: dict[Any, Any]) -> tuple[str, ...]:
    dagger = f" {n.DAGGER}" if row["suspect"] else ""
    return (
        row["implementation"] or "model",
        n.seconds(row["seconds"]) + dagger,
        n.span(row["seconds_low"], row["seconds_high"], row["seconds"]),
        "reference" if row["reference"] else n.ratio(row["relative"]),
        _relative_span(row),
        n.plain(row["usd_per_hour"], 4),
        row["price_kind"].replace("_", " ") or n.NOTHING,
        n.plain(row["usd"]),
        n.ratio(row["relative_usd"]),
        n.plain(row["break_even_usd_per_hour"]),
    )


def _relative_span(row: dict[Any, Any]) -> str:
    low, high = row["relative_low"], row["relative_high"]
    span = n.ratio_span(low, high, row["relative"])
    return f"{span},\n{NO_DIFFERENCE}" if n.is_number(low) and low <= 1 <= high else span


def _links(row: dict[Any, Any]) -> tuple[str, ...]:
    """Times and costs link to their runs; prices are not measurements."""
    priced = {"USD / h", "kind"}
    return tuple("" if label in priced else row["anchor"] for label, _, _ in HEADS)


def _labelled(table: pd.DataFrame) -> pd.DataFrame:
    table = table.copy()
    builds, places = table["build"].nunique() > 1, table.groupby("device")["machine"].nunique()
    table["label"] = [
        " · ".join(
            filter(None, (row["device"], row["machine"] if places[row["device"]] > 1 else "",
                          row["build"] if builds else ""))
        )
        for row in table.to_dict("records")
    ]  # fmt: skip
    varied = [name for name in TASK[1:] if table[name].nunique() > 1]
    table["task"] = [
        " · ".join(filter(None, (row["model"], *(row[name] for name in varied))))
        for row in table.to_dict("records")
    ]
    table["anchor"] = [configuration_anchor(row) for row in table.to_dict("records")]
    table["series"] = table["implementation"].replace("", "model")
    return table


def _figures(table: pd.DataFrame, palette: Mapping[str, str]) -> Iterator[Figure]:
    labelled = _labelled(table)
    for number, (task, rows) in enumerate(labelled.groupby("task", sort=False)):
        if number >= TASKS or len(rows) < 2:
            continue
        group = str(task) if labelled["task"].nunique() > 1 else ""
        for kind, measure in (("time", "relative"), ("cost", "relative_usd")):
            drawn = rows[rows[measure].notna()].rename(
                columns={measure: "value", f"{measure}_low": "low", f"{measure}_high": "high"}
            )
            if len(drawn) > 1:
                drawn["text"] = list(map(_text, drawn.to_dict("records")))
                yield figure(f"relative-{kind}", group, str(task), f"Relative {kind}, {task}",
                             relative_panel(drawn, palette, f"{kind} relative to the reference"),
                             )  # fmt: skip
        priced = rows[rows["usd"].notna()]
        if len(priced) > 1:
            yield figure("front", group, str(task), f"Time against cost, {task}",
                         front_panel(priced, palette))  # fmt: skip
