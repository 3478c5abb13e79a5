"""The section of efficiency: time per timestep, share of the measured peak, the roofline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rnnbench.report import numbers as n
from rnnbench.report.colours import of_these
from rnnbench.report.figure import Figure, figure
from rnnbench.report.labels import with_labels
from rnnbench.report.roofline import roofline
from rnnbench.report.section import Section
from rnnbench.report.table_view import TableView
from rnnbench.report.table_views import Part, by_device, marked

if TYPE_CHECKING:
    import pandas as pd

ID, TITLE = "efficiency", "Efficiency"
DRAWN, NAMED = 12, 4
WORDS = (
    "How near a training step comes to what the machine can do. The peak and the bandwidth are "
    "measured, with the same build and threads, by large float32 products and by copying; the "
    "work is that of the step's matrix products alone, forward and back. In a roofline the line "
    "is what a kernel can reach at best; a dot is a cell, and how far it lies below is what "
    "there is to gain."
)


def efficiency_section(table: pd.DataFrame, ink: Mapping[str, str]) -> Section:
    """`table` as from `tables.efficiency`. What a probe could not tell is said in words."""
    if table.empty:
        return Section(ID, TITLE)
    labelled = with_labels(table)
    told = labelled[labelled["us_per_timestep"].notna()]
    reasons = tuple(_reasons(labelled))
    if told.empty:
        return Section(ID, TITLE, reasons, told=True)
    drawn = tuple(_rooflines(labelled[labelled["roof_gflops"].notna()], ink))
    return Section(ID, TITLE, (WORDS, *reasons), drawn, (efficiency_view(told),))


def efficiency_view(table: pd.DataFrame) -> TableView:
    parts: list[Part] = [
        ("µs / timestep", lambda r: marked(n.plain(r["us_per_timestep"]), r), False),
        ("95 %", lambda r: _span(r, "us_per_timestep"), True),
        ("GFLOP/s", lambda r: n.plain(r["gflops"]), False),
        ("of peak", lambda r: n.percent(r["peak_share"]), False),
        ("95 %", lambda r: n.percent_span(r["peak_share_low"], r["peak_share_high"]), True),
        ("in products", lambda r: n.percent(r["products_share"]), False),
    ]
    view = by_device("efficiency", "Per timestep, and of the measured peak", table, parts)
    note = (
        "In products: the time that the step's matrix products take alone, in their own shapes, "
        "as a share of the step; the rest is everything around them. Above 100 % the step is "
        "faster than its products one by one: it fuses them, or the machine was busier when it "
        "was probed."
    )
    return TableView(view.id, view.title, view.corner, view.columns, view.rows, (note,))


def _span(row: Any, name: str) -> str:
    return n.span(row[f"{name}_low"], row[f"{name}_high"], row[name])


def _reasons(table: pd.DataFrame) -> Iterator[str]:
    """Which cells have no share of the peak, and why."""
    for why, cells in table[table["why"] != ""].groupby("why", sort=False):
        names = list(
            dict.fromkeys(
                f"`{row['model']}` on {row['column_name']}, {row['build']}"
                for row in cells.to_dict("records")
            )
        )
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        yield f"No share of the peak: {why} ({'; '.join(names[:NAMED])}{more})."


def _rooflines(table: pd.DataFrame, ink: Mapping[str, str]) -> Iterator[Figure]:
    """One per device, machine and build; points of all models."""
    several = {name: table[name].nunique() > 1 for name in ("build", "model", "cell", "variant")}
    inside = [name for name in ("model", "cell", "variant") if several[name]]
    for place, ((build, where), cells) in enumerate(
        table.groupby(["build", "column_name"], sort=False)
    ):
        if place >= DRAWN:
            return
        named = cells.assign(
            series=cells["implementation"].replace("", "model"),
            label=[_label(row, inside) for row in cells.to_dict("records")],
        )
        title = f"Roofline of {where}" + (f", {build}" if several["build"] else "")
        yield figure("roofline", "", f"{build}-{where}", title,
                     roofline(named, of_these(ink, named["series"])))  # fmt: skip


def _label(row: Mapping[Any, Any], inside: Sequence[str]) -> str:
    parts = (row["shown"], *(row[name] for name in inside))
    return " ".join([*filter(None, map(str, parts)), n.percent(row["peak_share"])])
