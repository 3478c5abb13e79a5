"""The section on efficiency: time per timestep, share of the measured peak, energy."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from rnnbench.report import numbers as n
from rnnbench.report.labels import with_labels
from rnnbench.report.section import Section
from rnnbench.report.table_view import Column, TableView
from rnnbench.report.table_views import by_device, marked, span_of

ID, TITLE = "efficiency", "Efficiency"
NAMED = 4
WORDS = (
    "How close a training step comes to the peak of the machine, which is measured with the same "
    "build and threads, by large float32 matrix products. The work is that of the matrix products "
    "of the step, forward and backward."
)


def efficiency_section(table: pd.DataFrame, energies: pd.DataFrame) -> Section:
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
    return Section(ID, TITLE, (WORDS, *reasons), (), (efficiency_view(known), *used))


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
)  # fmt: skip


def energy_view(table: pd.DataFrame) -> TableView:
    return by_device("energy", "Energy of the GPU", table, ENERGY_COLUMNS, (ENERGY_NOTE,))


def efficiency_view(table: pd.DataFrame) -> TableView:
    title = "Time per timestep, and share of the measured peak"
    return by_device("efficiency", title, table, EFFICIENCY_COLUMNS)


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
