"""The section that compares devices: relative time and cost, and a recommendation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pandas as pd

from rnnbench.axes import TASK
from rnnbench.report import charts
from rnnbench.report import numbers as n
from rnnbench.report.labels import configuration_anchors, joined
from rnnbench.report.parts import WORDS, Column, Figure, Section, figure, marked, span_of, view_of
from rnnbench.report.tables import ReportInputs, Tables
from rnnbench.sources.prices import PriceList
from rnnbench.tables.cost import cheapest_within, fastest_under
from rnnbench.tables.time import NO_DIFFERENCE

TASKS = 12  # drawn; the table has all
PLACES = 4  # named as no worse than the recommended one


def _relative_span(row: dict[Any, Any]) -> str:
    span = span_of("relative", n.ratio_span)(row)
    low = row["relative_low"]
    is_tie = n.is_number(low) and low <= 1 <= row["relative_high"]
    return f"{span},\n{NO_DIFFERENCE}" if is_tie else span


TIME_COLUMNS = (
    Column("fastest implementation", "series", number=False, linked=True),
    Column("seconds", lambda r: marked(n.plain(r["seconds"]), r), "one training run"),
    Column("95 % CI", span_of("seconds"), "one training run"),
    Column("relative time", lambda r: "reference" if r["reference"] else n.ratio(r["relative"]),
           "one training run"),
    Column("95 % CI", _relative_span, "one training run"),
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


def cost_section(m: Tables) -> Section:
    """The section is empty if every task ran in one place only."""
    table, prices = m.cost, m.inputs.prices
    section = Section("money", csv={"cost": table})
    if table.empty or table.groupby(TASK)["device"].count().max() < 2:
        return section
    labelled = _labelled(table)
    has_prices = table["usd_per_hour"].notna().any()
    columns = [*TIME_COLUMNS, *(COST_COLUMNS if has_prices else ())]
    title = "One training run by device"
    views = [view_of(labelled, "money-table", title, "device", "label", columns, "block")]
    words = WORDS["money"]["no_prices"]
    if prices and table["usd"].notna().any():
        words = WORDS["money"]["prices"].format(prices, f" {prices.note}" if prices.note else "")
    if prices:
        others = pd.DataFrame(list(_other_prices(labelled, prices)))
        views.append(view_of(others, "price-kinds", "One training run at other kinds of price",
                             "device", "label", KIND_COLUMNS, "block"))  # fmt: skip
    return replace(section, paragraphs=(WORDS["money"]["text"], words),
                   figures=list(_figures(labelled, m)),
                   views=[view for view in views if view.rows], text_only=True)  # fmt: skip


def _other_prices(labelled: pd.DataFrame, prices: PriceList) -> Iterator[dict[Any, Any]]:
    """The places at prices of other kinds than theirs, relative to the same reference."""
    for _, places in labelled.groupby(TASK, sort=False):
        base = places.loc[places["reference"], "usd_per_hour"].iloc[0]
        for row in places[places["usd"].notna()].to_dict("records"):
            for price in prices.prices:
                if price.device == row["device"] and price.kind not in ("", row["price_kind"]):
                    usd = {"kind": price.kind.replace("_", " "), "usd_per_hour": price.usd_per_hour}
                    for name in ("relative_low", "relative", "relative_high"):
                        if n.is_number(row[name]):  # a single run has no interval
                            usd[name] = row[name] / base * price.usd_per_hour
                    yield {**row, **usd}


def recommendations(table: pd.DataFrame, inputs: ReportInputs) -> Iterator[str]:
    """One sentence per task of `table` (`tables.cost`) and limit that is given."""
    for _, places in _labelled(table).groupby(TASK, sort=False):
        model = places["task"].iloc[0]
        if inputs.deadline is not None:
            limit = f"within {n.plain(inputs.deadline)} s"
            found = cheapest_within(places, inputs.deadline)
            yield _recommendation(f"Cheapest way to train {model} {limit}", *found, limit)
        if inputs.budget is not None:
            limit = f"for at most {n.plain(inputs.budget)} USD"
            found = fastest_under(places, inputs.budget)
            yield _recommendation(f"Fastest way to train {model} {limit}", *found, limit)


def _recommendation(
    what: str, best: dict[str, Any] | None, others: pd.DataFrame, limit: str
) -> str:
    """`others`: the places that may be as good as the `best` one."""
    if best is None:
        return f"{what}: no priced device trains it {limit}, judged by its whole interval."
    names = n.few(list(others["label"]), PLACES, ", ")
    tie = f" ({NO_DIFFERENCE} from {names})" if names else ""
    return (
        f"{what}: `{best['series']}` on {best['label']}, {n.plain(best['seconds'])} s and "
        f"{n.plain(best['usd'])} USD{tie}."
    )


def _labelled(table: pd.DataFrame) -> pd.DataFrame:
    builds, machines = table["build"].nunique() > 1, table.groupby("device")["machine"].nunique()
    varied = [name for name in TASK[1:] if table[name].nunique() > 1]
    tasks, labels = [], []
    for row in table.to_dict("records"):
        machine = row["machine"] if machines[row["device"]] > 1 else ""
        tasks.append(joined((row["model"], *(row[name] for name in varied))))
        labels.append(joined((row["device"], machine, row["build"] if builds else "")))
    return table.assign(
        label=labels,
        task=tasks,
        block=tasks if table.groupby(TASK).ngroups > 1 else "",
        anchor=configuration_anchors(table),
        series=table["implementation"].replace("", "model"),
    )


def _figures(labelled: pd.DataFrame, m: Tables) -> Iterator[Figure]:
    labelled = labelled.assign(place=labelled["label"])
    # A figure shrinks with the width of its title.
    by_model = labelled.groupby("task")["model"].first().is_unique
    several = labelled["task"].nunique() > 1
    for number, (task, rows) in enumerate(labelled.groupby("task", sort=False)):
        if number >= TASKS or len(rows) < 2:
            continue
        name = str(rows["model"].iloc[0] if by_model else task)
        group, which = (str(task), "") if several else ("", str(task))
        for kind, measure in (("time", "relative"), ("cost", "relative_usd")):
            drawn = rows[rows[measure].notna()]
            if len(drawn) > 1:
                drawn = drawn.assign(value=drawn[measure], low=drawn[f"{measure}_low"],
                                     high=drawn[f"{measure}_high"])  # fmt: skip
                drawn["label"] = list(map(_ratio, drawn.to_dict("records")))
                chart = charts.relative(drawn, m.palette, f"{kind} relative to the reference")
                yield figure(f"relative-{kind}", group, which, f"Relative {kind}, {name}", chart)
        priced = rows[rows["usd"].notna()]
        if len(priced) > 1:
            chart = charts.cost_front(priced, m.palette)
            yield figure("front", group, which, f"Time against cost, {name}", chart)


def _ratio(row: dict[Any, Any]) -> str:
    has_1 = n.is_number(row["low"]) and row["low"] <= 1 <= row["high"]
    return n.ratio(row["value"]) + (f" {NO_DIFFERENCE}" if has_1 and not row["reference"] else "")
