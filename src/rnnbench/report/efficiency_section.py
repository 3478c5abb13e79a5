"""The section on efficiency: time per timestep, share of the measured peak, roofline, energy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from rnnbench.axes import GROUP
from rnnbench.report import numbers as n
from rnnbench.report.colours import of_these
from rnnbench.report.figure import Figure, figure
from rnnbench.report.labels import with_labels
from rnnbench.report.roofline import roofline
from rnnbench.report.section import Section
from rnnbench.report.table_view import Column, TableView
from rnnbench.report.table_views import by_device, marked, span_of

ID, TITLE = "efficiency", "Efficiency"
DRAWN, NAMED = 12, 4
WORDS = (
    "How close a training step comes to the limits of the machine. Peak and bandwidth are "
    "measured with the same build and threads, by large float32 matrix products and by copying. "
    "The work is that of the matrix products of the step, forward and backward. In a roofline "
    "chart, the line is the upper limit for a kernel, and each dot is a configuration: its "
    "distance from the line is the possible gain."
)


def efficiency_section(
    table: pd.DataFrame, energies: pd.DataFrame, palette: Mapping[str, str]
) -> Section:
    """`table` as from `tables.efficiency`, `energies` as from `tables.energy`. Text explains which
    shares are unknown, and why."""
    if table.empty:
        return Section(ID, TITLE)
    labelled = with_labels(table)
    known = labelled[labelled["us_per_timestep"].notna()]
    reasons = tuple(_reasons(labelled))
    used = () if energies.empty else (energy_view(energies),)
    if known.empty:
        return Section(ID, TITLE, reasons, (), used, text_only=not used)
    drawn = tuple(_rooflines(labelled[labelled["roof_gflops"].notna()], palette))
    return Section(ID, TITLE, (WORDS, *reasons), drawn, (efficiency_view(known), *used))


ENERGY_COLUMNS = (
    Column("mJ / sample", lambda r: marked(n.plain(r["millijoules"]), r)),
    Column("95 % CI", lambda r: n.span(r["low"], r["high"], r["millijoules"]), quiet=True),
    Column("W", lambda r: n.plain(r["watts"])),
)
ENERGY_NOTE = (
    "The whole card, from the beginning to the end of the training, including its validations. "
    "The energy of the processor is not included."
)
EFFICIENCY_COLUMNS = (
    Column("µs / timestep", lambda r: marked(n.plain(r["us_per_timestep"]), r)),
    Column("95 % CI", span_of("us_per_timestep"), quiet=True),
    Column("GFLOP/s", lambda r: n.plain(r["gflops"])),
    Column("of peak", lambda r: n.percent(r["peak_share"])),
    Column("95 % CI", lambda r: n.percent_span(r["peak_share_low"], r["peak_share_high"]),
           quiet=True),
    Column("in products", lambda r: n.percent(r["products_share"])),
)  # fmt: skip
EFFICIENCY_NOTE = (
    "In products: the time of the step's matrix products, measured separately in their own "
    "shapes, as a share of the time of the step. Above 100 %, the step is faster than its "
    "separate products: it fuses them, or the machine was busier during the probe."
)


def energy_view(table: pd.DataFrame) -> TableView:
    return by_device("energy", "Energy of the GPU", table, ENERGY_COLUMNS, (ENERGY_NOTE,))


def efficiency_view(table: pd.DataFrame) -> TableView:
    title = "Time per timestep, and share of the measured peak"
    return by_device("efficiency", title, table, EFFICIENCY_COLUMNS, (EFFICIENCY_NOTE,))


def _reasons(table: pd.DataFrame) -> Iterator[str]:
    """The configurations without a share of the peak, and why they have none."""
    for why, rows in table[table["why"] != ""].groupby("why", sort=False):
        names = list(
            dict.fromkeys(
                f"`{row['model']}` on {row['column_name']}, {row['build']}"
                for row in rows.to_dict("records")
            )
        )
        yield f"No share of the peak: {why} ({n.few(names, NAMED)})."


def _rooflines(table: pd.DataFrame, palette: Mapping[str, str]) -> Iterator[Figure]:
    """One per device, machine and build, with the points of all models."""
    varied = [name for name in GROUP if name != "build" and table[name].nunique() > 1]
    for number, ((build, device), rows) in enumerate(
        table.groupby(["build", "column_name"], sort=False)
    ):
        if number >= DRAWN:
            return
        named = rows.assign(
            series=rows["implementation"].replace("", "model"),
            label=[_label(row, varied) for row in rows.to_dict("records")],
        )
        title = f"Roofline of {device}" + (f", {build}" if table["build"].nunique() > 1 else "")
        yield figure("roofline", "", f"{build}-{device}", title,
                     roofline(named, of_these(palette, named["series"])))  # fmt: skip


def _label(row: Mapping[Any, Any], varied: Sequence[str]) -> str:
    parts = (row["shown"], *(row[name] for name in varied))
    return " ".join([*filter(None, map(str, parts)), n.percent(row["peak_share"])])
