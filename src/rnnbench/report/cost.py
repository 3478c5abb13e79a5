"""The section that compares devices: relative time and cost, and a recommendation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pandas as pd

from rnnbench.axes import TASK
from rnnbench.report import charts
from rnnbench.report import numbers as n
from rnnbench.report.figures import Figure, figure
from rnnbench.report.labels import DRAWN, configuration_anchor, joined
from rnnbench.report.numbers import Row
from rnnbench.report.section import WORDS, Section
from rnnbench.report.tables import ReportInputs, Tables
from rnnbench.report.views import Column, interval_of, view_of
from rnnbench.sources.prices import PriceList
from rnnbench.tables.cost import cheapest_within, fastest_under
from rnnbench.tables.frame import varying
from rnnbench.tables.outcome import Outcome

PLACES = 4  # named as no worse than the recommended one

relative_interval = interval_of("relative", n.ratio_span)


def _relative_span(row: Row) -> str:
    """The interval of the relative time, and whether it contains 1.

    `row`: of the table of cost.
    """
    span = relative_interval(row)
    if n.is_number(row["relative_low"]) and row["relative_low"] <= 1 <= row["relative_high"]:
        return f"{span},\n{Outcome.NO_DIFFERENCE}"
    return span


def _kind(kind: str) -> str:
    """A kind of price: ``on demand``."""
    return kind.replace("_", " ") or n.NOTHING


ONE_TRAINING = "one training run"
TIME_COLUMNS = (
    Column("fastest implementation", "series", number=False, linked=True),
    Column("seconds", "seconds", n.plain, ONE_TRAINING, marked=True),
    Column("95 % CI", text=interval_of("seconds"), spanner=ONE_TRAINING),
    Column(
        "relative time",
        text=lambda row: "reference" if row["reference"] else n.ratio(row["relative"]),
        spanner=ONE_TRAINING,
    ),
    Column("95 % CI", text=_relative_span, spanner=ONE_TRAINING),
)
COST_COLUMNS = (
    # Prices are not measurements, so they have no runs to link to.
    Column("USD / h", "usd_per_hour", n.precise, "price", linked=False),
    Column("kind", "price_kind", _kind, "price", number=False),
    Column("USD", "usd", n.plain, "cost"),
    Column("relative", "relative_usd", n.ratio, "cost"),
    Column("break-even USD / h", "break_even_usd_per_hour", n.plain, "cost"),
)
KIND_COLUMNS = (
    Column("fastest implementation", "series", number=False),
    Column("kind of price", "kind", _kind, number=False),
    Column("USD / h", "usd_per_hour", n.precise, linked=False),
    Column("USD", "usd", n.plain),
    Column("relative cost", "relative", n.ratio),
    Column("95 % CI", text=relative_interval, quiet=True),
)


def cost_section(m: Tables) -> Section:
    """One training run on each device, and what it costs if prices are known.

    The section is empty if every task ran in one place only.
    """
    table = m.cost
    prices = m.inputs.prices
    csv = {"cost": table}
    if table.empty or table.groupby(TASK)["device"].count().max() < 2:
        return Section("money", csv=csv)

    labelled = _labelled(table)
    columns: tuple[Column, ...] = TIME_COLUMNS
    if table["usd_per_hour"].notna().any():
        columns += COST_COLUMNS
    views = [
        view_of(
            labelled,
            "money-table",
            "One training run by device",
            "device",
            "label",
            columns,
            ["block"],
        )
    ]

    words = WORDS["money"]["no_prices"]
    if prices:
        if table["usd"].notna().any():
            note = f" {prices.note}" if prices.note else ""
            words = WORDS["money"]["prices"].format(prices, note)
        views.append(
            view_of(
                pd.DataFrame(list(_other_prices(labelled, prices))),
                "price-kinds",
                "One training run at other kinds of price",
                "device",
                "label",
                KIND_COLUMNS,
                ["block"],
            )
        )

    figures = list(_figures(labelled, m))
    times = [each.id for each in figures if each.kind == "relative-time"]
    return Section(
        "money",
        (WORDS["money"]["text"], words),
        figures=figures,
        views=views,
        leads=["money-table", *times],
        csv=csv,
    )


def _other_prices(labelled: pd.DataFrame, prices: PriceList) -> Iterator[dict[Any, Any]]:
    """The places at prices of other kinds than theirs, relative to the same reference.

    - `labelled`: the table of cost with its labels.
    - `prices`: the list with all kinds of prices.

    Yields rows with the columns of `KIND_COLUMNS`.
    """
    for _, places in labelled.groupby(TASK, sort=False):
        base = places.loc[places["reference"], "usd_per_hour"].iloc[0]
        for row in places[places["usd"].notna()].to_dict("records"):
            for price in prices.prices:
                if price.device != row["device"] or price.kind in ("", row["price_kind"]):
                    continue
                other = {
                    **row,
                    "kind": price.kind,
                    "usd_per_hour": price.usd_per_hour,
                    "usd": row["seconds"] / 3600 * price.usd_per_hour,
                }
                for name in ("relative", "relative_low", "relative_high"):
                    if n.is_number(row[name]):  # a single run has no interval
                        other[name] = row[name] / base * price.usd_per_hour
                yield other


def recommendations(table: pd.DataFrame, inputs: ReportInputs) -> Iterator[str]:
    """One sentence per task and limit:
    ``Cheapest way to train mnist_rnn within 60 s: `cudnn` on p100, 4.62 s and 0.00187 USD.``

    - `table`: of cost.
    - `inputs`: their `deadline` and `budget` are the limits; one that is None has no sentences.
    """
    choices = (
        ("Cheapest", f"within {n.plain(inputs.deadline)} s", cheapest_within, inputs.deadline),
        ("Fastest", f"for at most {n.plain(inputs.budget)} USD", fastest_under, inputs.budget),
    )
    for task, places in _labelled(table).groupby("task", sort=False):
        for which, limit, choose, bound in choices:
            if bound is None:
                continue
            what = f"{which} way to train {task} {limit}"
            best, as_good = choose(places, bound)
            if best is None:
                yield f"{what}: no priced device trains it {limit}, judged by its whole interval."
                continue
            place = f"`{best['series']}` on {best['label']}"
            seconds = n.plain(best["seconds"])
            usd = n.plain(best["usd"])
            tie = ""
            if len(as_good):
                tie = f" ({Outcome.NO_DIFFERENCE} from {n.few(as_good['label'], PLACES, ', ')})"
            yield f"{what}: {place}, {seconds} s and {usd} USD{tie}."


def _labelled(table: pd.DataFrame) -> pd.DataFrame:
    """`table` with its labels:

    - `task` as text; `block`: the same if there are several, else ``""``.
    - `label`: the device, with its machine if the device has several, and its build if there are
      several.
    - `series`: the implementation. `anchor`: the id of its runs on the page.
    """
    several_builds = table["build"].nunique() > 1
    machines = table.groupby("device")["machine"].nunique()
    varied = varying(table, TASK[1:])
    tasks = []
    labels = []
    anchors = []
    for row in table.to_dict("records"):
        anchors.append(configuration_anchor(row))
        tasks.append(joined(row[name] for name in ("model", *varied)))
        label = [row["device"]]
        if machines[row["device"]] > 1:
            label.append(row["machine"])
        if several_builds:
            label.append(row["build"])
        labels.append(joined(label))

    return table.assign(
        label=labels,
        task=tasks,
        block=tasks if len(set(tasks)) > 1 else "",
        anchor=anchors,
        series=table["implementation"].replace("", "model"),
    )


def _figures(labelled: pd.DataFrame, m: Tables) -> Iterator[Figure]:
    """Relative time, relative cost, and both against each other, of each task.

    `labelled`: the table of cost with its labels. Tasks with one place only have no figure.
    """
    labelled = labelled.assign(place=labelled["label"])
    # A figure shrinks with the width of its title.
    by_model = labelled.groupby("task")["model"].first().is_unique
    several = labelled["task"].nunique() > 1
    for task, rows in islice(labelled.groupby("task", sort=False), DRAWN):
        if len(rows) < 2:
            continue
        name = group = which = str(task)
        if by_model:
            name = rows["model"].iloc[0]
        if several:
            which = ""
        else:
            group = ""
        for kind, measure in (("time", "relative"), ("cost", "relative_usd")):
            drawn = rows[rows[measure].notna()]
            if len(drawn) > 1:
                estimate = [measure, f"{measure}_low", f"{measure}_high"]
                drawn = charts.values(drawn, estimate)
                is_tie = (drawn["low"] <= 1) & (drawn["high"] >= 1) & ~drawn["reference"]
                ratios = drawn["value"].map(n.ratio)
                drawn["label"] = ratios.where(~is_tie, ratios + f" {Outcome.NO_DIFFERENCE}")
                axis = f"{kind} relative to the reference"
                chart = charts.relative(drawn, m.palette, axis)
                yield figure(
                    f"relative-{kind}",
                    group,
                    which,
                    f"Relative {kind}, {name}",
                    chart,
                )

        priced = rows[rows["usd"].notna()]
        if len(priced) > 1:
            chart = charts.cost_front(priced, m.palette)
            yield figure(
                "front",
                group,
                which,
                f"Time against cost, {name}",
                chart,
            )
