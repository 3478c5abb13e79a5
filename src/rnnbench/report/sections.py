"""The sections of a page in their order, and those of builds, efficiency and certificates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pandas as pd

from rnnbench.axes import CERTIFIED_AXES, GROUP
from rnnbench.report import charts
from rnnbench.report import numbers as n
from rnnbench.report.calls import calls_section
from rnnbench.report.cost import cost_section
from rnnbench.report.figures import Figure, figure
from rnnbench.report.labels import DRAWN, joined, with_labels
from rnnbench.report.learning import accuracy_section, curves_section, target_section
from rnnbench.report.notes import optimizer_notes
from rnnbench.report.numbers import Row
from rnnbench.report.prediction import prediction_section
from rnnbench.report.published import beside_section
from rnnbench.report.section import WORDS, Section
from rnnbench.report.speed import time_section
from rnnbench.report.tables import Tables
from rnnbench.report.threads import threads_section
from rnnbench.report.views import (
    CellText,
    Column,
    TableView,
    by_device,
    epoch_interval,
    interval_of,
    view_of,
)
from rnnbench.tables.certified import CERTIFICATE_COLUMNS, certified, pairs
from rnnbench.tables.efficiency import energy
from rnnbench.tables.runs import kernels

ACROSS = 4  # devices in one heat map, so that its numbers are legible on a phone
REGRESSIONS = 5  # named above the table
NAMED = 4  # configurations without GFLOP/s or MFU, for each reason
NETWORK = [name for name in (*CERTIFIED_AXES, "variant") if name != "model"]
ALL_BUT_BUILD = [name for name in GROUP if name != "build"]
ERROR = "largest relative error against float64"
DIFFERENCE = "largest difference"
UNEQUAL = "no: no speed-up; the ratio of times is marked ≠"

change_interval = interval_of("change", n.ratio_span)


def _or_dash(text: Any) -> str:
    return str(text or n.NOTHING)


def _effect(value: Any) -> str:
    """A change in standard deviations.

    Beyond ten, the value depends mostly on the estimate of the standard deviation.
    """
    if n.is_number(value) and abs(value) > 10:
        return "over 10"
    return n.rough(value)


def _change(row: Row) -> str:
    """The interval of a change and what it shows; without an interval, the result as text.

    `row`: of the table of builds.
    """
    if not n.is_number(row["change_low"]):
        return str(row["words"])
    return f"{change_interval(row)}, {row['words']}"


def _error_of(name: str, allowed_in: str) -> CellText:
    """The error `name` of an implementation or pair, and in brackets what the column `allowed_in`
    allows."""

    def text_of(row: Row) -> str:
        text = n.small(row[name])
        allowed = row[allowed_in]
        if n.is_number(row[name]) and n.is_number(allowed):
            return f"{text} ({n.small(allowed)})"
        return text

    return text_of


def _status(row: Row) -> str:
    """What a certificate says of an implementation, and why: ``not certified: no kernel``.

    `row`: of `certified`.
    """
    status: str = row["status"].replace("_", " ")
    if row["why"]:
        status += f": {row['why']}"
    return status


def _equality(row: Row) -> str:
    """Whether a pair computes the same function, or why that is unknown.

    `row`: of `pairs`.
    """
    if row["why"]:
        return f"not certified: {row['why']}"
    return "yes" if row["equal"] else UNEQUAL


BUILD_COLUMNS = (
    Column("implementation", "shown", number=False),
    Column("device", "column_name", number=False),
    Column("s per epoch", "epoch_seconds", n.plain),
    Column("95 % CI", text=epoch_interval, quiet=True),
    Column("relative time", "change", n.ratio),
    Column("95 % CI", text=_change, quiet=True, number=False, linked=True),
    Column("effect, SD", "effect", _effect),
)
EFFICIENCY_COLUMNS = (
    Column("µs / timestep", "us_per_timestep", n.plain, marked=True),
    Column("95 % CI", text=interval_of("us_per_timestep"), quiet=True),
    Column("GFLOP/s", "gflops", n.plain),
    Column("MFU", "mfu", n.percent),
    Column(
        "95 % CI",
        text=lambda row: n.percent_span(row["mfu_low"], row["mfu_high"]),
        quiet=True,
    ),
)
ENERGY_COLUMNS = (
    Column("mJ / sample", "millijoules", n.plain, marked=True),
    Column("95 % CI", text=interval_of("millijoules", low="low", high="high"), quiet=True),
    Column("W", "watts", n.plain),
)
KERNEL_COLUMNS = (
    Column("device", "device", number=False),
    Column("kernel found", "kernel", number=False),
    Column("why not cuDNN", "others", _or_dash, number=False, quiet=True),
    Column("runs", "runs", quiet=True),
)
CERTIFIED_COLUMNS = (
    Column("status", text=_status, number=False),
    Column("outputs (allowed)", text=_error_of("outputs", "tolerance_outputs"), spanner=ERROR),
    Column(
        "gradients (allowed)",
        text=_error_of("gradients", "tolerance_gradients"),
        spanner=ERROR,
    ),
    Column(
        "weights unchanged by round trip",
        "round_trip",
        lambda value: {True: "yes", False: "no"}.get(value, n.NOTHING),
        number=False,
    ),
    Column("rows of the tested batches (training; evaluation)", "batches", _or_dash, number=False),
    Column("steps that apply another gradient (worst)", "steps", _or_dash, number=False),
)
PAIR_COLUMNS = (
    Column("equal", text=_equality, number=False),
    Column("outputs", "outputs", n.small, DIFFERENCE),
    Column("gradients", "gradients", n.small, DIFFERENCE),
    Column(
        "loss curve (allowed)",
        text=_error_of("loss_curve", "allowed_loss_curve"),
        spanner=DIFFERENCE,
    ),
)


def builds_section(m: Tables) -> Section:
    """The changes of time from build to build, regressions first."""
    table = m.builds
    csv = {"builds": table}
    if table.empty:
        return Section("builds", csv=csv)
    bases = {}
    for build, models in table.groupby("against", sort=False)["model"]:
        bases[f"`{build}`"] = n.few(models, 3, ", ")
    base = " or ".join(f"{build} ({models})" for build, models in bases.items())
    if len(bases) == 1:
        (base,) = bases
    paragraphs = [WORDS["builds"]["text"].format(base)]

    regressions = table[table["regression"].astype(bool)].sort_values("change", ascending=False)
    for row in regressions.head(REGRESSIONS).to_dict("records"):
        effect = ""
        if n.is_number(row["effect"]):
            effect = f", {_effect(row['effect'])} standard deviations between runs"
        paragraphs.append(
            f"Regression: `{row['implementation'] or row['model']}` on {row['device']} takes "
            f"{n.ratio(row['change'])} as long in `{row['build']}` as in `{row['against']}` "
            f"(95 % CI {change_interval(row)}{effect})."
        )
    if regressions.empty:
        paragraphs.append(WORDS["builds"]["no_regression"])
    paragraphs += optimizer_notes(m.records)

    labelled = with_labels(table)
    view = view_of(
        labelled,
        "builds-table",
        "Comparison of builds",
        "build",
        "build",
        BUILD_COLUMNS,
        ALL_BUT_BUILD,
    )
    figures = list(_heat_maps(labelled))
    return Section(
        "builds",
        paragraphs,
        figures=figures,
        views=(view,),
        csv=csv,
    )


def _heat_maps(labelled: pd.DataFrame) -> Iterator[Figure]:
    """The seconds of each build, the fastest first.

    `labelled`: the table of builds with its labels. A figure has one implementation and at most
    `ACROSS` devices.
    """
    medians = labelled.groupby("build")["epoch_seconds"].median()
    groups = labelled.groupby([*ALL_BUT_BUILD, "implementation"], sort=False)
    for (*group, implementation), cells in islice(groups, DRAWN):
        texts = []
        spans = []
        for row in cells.to_dict("records"):
            seconds = n.plain(row["epoch_seconds"])
            texts.append(n.marked(seconds, row["suspect"]))
            spans.append(epoch_interval(row))

        fastest = cells.groupby("column_name")["epoch_seconds"].transform("min")

        drawn = cells.assign(
            device=cells["column_name"],
            share=cells["epoch_seconds"] / fastest,
            text=texts,
            span=spans,
        )
        drawn = drawn.sort_values("build", key=lambda names: names.map(medians), kind="stable")

        devices = cells["column_name"].unique()
        title = f"Seconds per epoch, {implementation or group[0]}"
        for part, start in enumerate(range(0, len(devices), ACROSS)):
            across = devices[start : start + ACROSS]
            chart = charts.heat_map(drawn[drawn["device"].isin(across)])
            yield figure(
                "builds",
                joined(group),
                f"{implementation}-{part}",
                title,
                chart,
            )


def efficiency_section(m: Tables) -> Section:
    """Time per timestep, GFLOP/s and their share of the device's peak, energy.

    Texts explain which are unknown, and why.
    """
    energies = energy(m.measured)
    csv = {"efficiency": m.efficiency, "energy": energies}
    if m.efficiency.empty:
        return Section("efficiency", csv=csv)

    labelled = with_labels(m.efficiency)
    known = labelled[labelled["us_per_timestep"].notna()]
    paragraphs = []
    views = []
    if len(known):
        paragraphs.append(WORDS["efficiency"]["text"])
        columns: tuple[Column, ...] = EFFICIENCY_COLUMNS
        if known["mfu"].isna().all():
            columns = EFFICIENCY_COLUMNS[:3]
        views.append(
            by_device(
                "efficiency",
                "Time per timestep, and GFLOP/s",
                known,
                columns,
            )
        )

    paragraphs += _reasons_for_missing(labelled)
    if len(energies):
        note = WORDS["efficiency"]["energy"]
        views.append(
            by_device(
                "energy",
                "Energy of the GPU",
                energies,
                ENERGY_COLUMNS,
                (note,),
            )
        )
    return Section(
        "efficiency",
        paragraphs,
        views=views,
        csv=csv,
    )


def _reasons_for_missing(table: pd.DataFrame) -> Iterator[str]:
    """Why rows have no GFLOP/s or, if a device states its peak, no MFU.

    `table`: the table of efficiency with its labels.
    """
    states_peak = table["peak_tflops"].notna().any()
    unexplained = table[table["why"] != ""]
    for why, rows in unexplained.groupby("why", sort=False):
        lacks = "GFLOP/s"
        if rows["gflops"].notna().any():
            lacks = "MFU"
            if not states_peak:
                continue
        names = []
        for row in rows.to_dict("records"):
            names.append(f"`{row['model']}` on {row['column_name']}, {row['build']}")
        yield f"No {lacks}: {why} ({n.few(names, NAMED)})."


def equivalence_section(m: Tables) -> Section:
    """The kernels found in the traced training step, and the contents of the certificates."""
    every = m.inputs.certificates.every
    of_pairs = pairs(every)
    columns: tuple[Column, ...] = PAIR_COLUMNS
    if len(of_pairs):
        of_pairs = of_pairs.assign(pair=of_pairs["a"] + " and " + of_pairs["b"])
        if of_pairs["weights"].notna().any():
            columns += OF_TRAINING_COLUMNS
    views = (
        kernels_view(kernels(m.frame)),
        view_of(
            certified(every),
            "certified",
            "Certificates",
            "implementation",
            "rnn",
            CERTIFIED_COLUMNS,
            CERTIFICATE_COLUMNS,
        ),
        view_of(
            of_pairs,
            "pairs",
            "Pairs",
            "pair",
            "pair",
            columns,
            CERTIFICATE_COLUMNS,
        ),
    )

    paragraphs = []
    if any(view.rows for view in views):
        found = "certified" if every else "no_certificate"
        paragraphs = [WORDS["ran"]["text"], WORDS["ran"][found]]
    return Section(
        "ran",
        paragraphs,
        views=views,
        kind="words",
        leads=("kernels",),
    )


# Certificates before schema 4 have none.
OF_TRAINING_COLUMNS = (
    Column("first loss", "first_loss", n.small, DIFFERENCE),
    Column("weights after 6 steps", "weights", n.small, DIFFERENCE),
)


def kernels_view(table: pd.DataFrame) -> TableView:
    """One row per network, implementation and kernel.

    The variant is named if the implementation has another kernel, or another reason, in another
    variant. Reasons that all rows have in common are in a note.

    `table`: of `kernels`.
    """
    kinds = table.groupby(["cell", "build", "implementation"])[["kernel", "why_not_cudnn"]]
    differs = kinds.transform("nunique").gt(1).any(axis=1)
    table = table.assign(
        variant=table["variant"].where(differs, ""),
        implementation=table["implementation"].replace("", "model"),
    )
    rows = []
    by = [*NETWORK, "implementation", "kernel", "why_not_cudnn"]
    for _, own in table.groupby(by, sort=False):
        row = own.iloc[0][by].to_dict()
        row["device"] = ", ".join(own["device"].unique())
        row["runs"] = own["runs"].sum()
        rows.append(row)

    common = []
    if len(rows) > 1:
        for reason in rows[0]["why_not_cudnn"]:
            if all(reason in row["why_not_cudnn"] for row in rows):
                common.append(reason)
    for row in rows:
        row["others"] = "; ".join(each for each in row["why_not_cudnn"] if each not in common)

    notes: tuple[str, ...] = ()
    if common:
        notes = (f"In every row, cuDNN is also ruled out because {' and '.join(common)}.",)
    group = []
    if len(table[NETWORK].drop_duplicates()) > 1:
        group = NETWORK
    return view_of(
        pd.DataFrame(rows),
        "kernels",
        "Kernels",
        "implementation",
        "implementation",
        KERNEL_COLUMNS,
        group,
        notes,
    )


# In the order of the page, before those on runs and provenance.
SECTIONS: tuple[Callable[[Tables], Section], ...] = (
    prediction_section,
    time_section,
    accuracy_section,
    cost_section,
    calls_section,
    builds_section,
    threads_section,
    efficiency_section,
    equivalence_section,
    curves_section,
    target_section,
    beside_section,
)
