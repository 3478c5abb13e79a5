"""The sections between accuracy and reliability, in the order of the page, and those of builds,
threads, efficiency, certificates and time to accuracy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import pandas as pd

from rnnbench.axes import CERTIFIED_AXES, GROUP
from rnnbench.report import charts
from rnnbench.report import numbers as n
from rnnbench.report.cost import cost_section
from rnnbench.report.labels import colours, joined, of_these, with_labels
from rnnbench.report.notes import optimizer_notes
from rnnbench.report.parts import (
    WORDS,
    Column,
    Figure,
    Section,
    TableView,
    by_device,
    epoch_span,
    figure,
    marked,
    span_of,
    view_of,
)
from rnnbench.report.published import beside_section
from rnnbench.report.speed import calls_section, curves_section
from rnnbench.report.tables import Tables
from rnnbench.tables.certificates import CERTIFICATE_COLUMNS, certified, pairs
from rnnbench.tables.cost import energy, published_scaling
from rnnbench.tables.learning import curves, target
from rnnbench.tables.runs import kernels

DRAWN = 12  # figures of a section; its table has all rows
ACROSS = 4  # devices in one heat map, so that its numbers are legible on a phone
REGRESSIONS = 5  # named above the table
NAMED = 4  # configurations without GFLOP/s or MFU, for each reason
NETWORK = [name for name in (*CERTIFIED_AXES, "variant") if name != "model"]
ALL_BUT_BUILD = [name for name in GROUP if name != "build"]

ERROR, DIFFERENCE = "largest relative error against float64", "largest difference"


def _effect(value: Any) -> str:
    """A change in standard deviations. Beyond ten, the value depends mostly on the estimate of the
    standard deviation."""
    return "over 10" if n.is_number(value) and abs(value) > 10 else n.plain(value, 2)


def _change(row: Any) -> str:
    span = span_of("change", n.ratio_span)(row)
    return f"{span}, {row['words']}" if n.is_number(row["change_low"]) else str(row["words"])


def _against(row: Mapping[Any, Any], name: str) -> str:
    error, allowed = row[name], row[f"tolerance_{name}"]
    has_both = n.is_number(error) and n.is_number(allowed)
    return n.small(error) + (f" ({n.small(allowed)})" if has_both else "")


BUILD_COLUMNS = (
    Column("implementation", "shown", number=False),
    Column("device", "column_name", number=False),
    Column("s per epoch", lambda r: n.plain(r["epoch_seconds"])),
    Column("95 % CI", epoch_span, quiet=True),
    Column("relative time", lambda r: n.ratio(r["change"])),
    Column("95 % CI", _change, quiet=True, number=False, linked=True),
    Column("effect, SD", lambda r: _effect(r["effect"])),
)
THREAD_COLUMNS = (
    Column("threads", "threads", linked=False),
    Column("speed-up", lambda r: n.ratio(r["speedup"])),
    Column("95 % CI", span_of("speedup", n.ratio_span)),
    Column("efficiency", lambda r: f"{r['efficiency']:.0%}"),
    Column("serial fraction", lambda r: f"{r['serial_fraction']:.1%}"),
    Column("runs", "runs"),
)
PUBLISHED_THREAD_COLUMNS = (
    Column("vCPUs", lambda r: str(int(r["threads"]))),
    Column("s", lambda r: n.plain(r["seconds"], 4)),
    Column("speed-up", lambda r: n.ratio(r["speedup"])),
    Column("efficiency", lambda r: f"{r['speedup'] / r['ideal']:.0%}"),
)
EFFICIENCY_COLUMNS = (
    Column("µs / timestep", lambda r: marked(n.plain(r["us_per_timestep"]), r)),
    Column("95 % CI", span_of("us_per_timestep"), quiet=True),
    Column("GFLOP/s", lambda r: n.plain(r["gflops"])),
    Column("MFU", lambda r: n.percent(r["mfu"])),
    Column("95 % CI", lambda r: n.percent_span(r["mfu_low"], r["mfu_high"]), quiet=True),
)
ENERGY_COLUMNS = (
    Column("mJ / sample", lambda r: marked(n.plain(r["millijoules"]), r)),
    Column("95 % CI", lambda r: n.span(r["low"], r["high"], r["millijoules"]), quiet=True),
    Column("W", lambda r: n.plain(r["watts"])),
)
KERNEL_COLUMNS = (
    Column("device", "device", number=False),
    Column("kernel found", "kernel", number=False),
    Column("why not cuDNN", lambda r: r["others"] or n.NOTHING, number=False, quiet=True),
    Column("runs", "runs", quiet=True),
)
CERTIFIED_COLUMNS = (
    Column("status", lambda r: ": ".join(filter(None, (r["status"].replace("_", " "), r["why"]))),
           number=False),
    Column("weights that the model set", lambda r: r["kept"] or n.NOTHING, number=False,
           quiet=True),
    Column("outputs (allowed)", lambda r: _against(r, "outputs"), ERROR),
    Column("gradients (allowed)", lambda r: _against(r, "gradients"), ERROR),
    Column("weights unchanged by round trip",
           lambda r: {True: "yes", False: "no"}.get(r["round_trip"], n.NOTHING), number=False),
    Column("rows of the tested batches (training; evaluation)", lambda r: r["batches"] or n.NOTHING,
           number=False),
    Column("steps that apply another gradient (worst)", lambda r: r["steps"] or n.NOTHING,
           number=False),
)  # fmt: skip
UNEQUAL = "no: no speed-up; the ratio of times is marked ≠"
PAIR_COLUMNS = (
    Column("equal", lambda r: _equality(r), number=False),
    Column("outputs", lambda r: n.small(r["outputs"]), DIFFERENCE),
    Column("gradients", lambda r: n.small(r["gradients"]), DIFFERENCE),
    Column("loss curve", lambda r: n.small(r["loss_curve"]), DIFFERENCE),
)
TARGET_COLUMNS = (
    Column("device", "column_name", number=False),
    Column("target", lambda r: n.share(r["target"])),
    Column("seconds", lambda r: n.plain(r["seconds"])),
    Column("95 % CI", span_of("seconds"), quiet=True),
    Column("epochs", lambda r: n.plain(r["epochs"], 2)),
    Column("runs that reached it", lambda r: f"{r['reached']} of {r['runs']}"),
)


def builds_section(m: Tables) -> Section:
    table = m.builds
    section = Section("builds", csv={"builds": table})
    if table.empty:
        return section
    regressions = table[table["regression"].astype(bool)].sort_values("change", ascending=False)
    found = list(map(_regression, regressions.head(REGRESSIONS).to_dict("records")))
    words = (
        WORDS["builds"]["text"].format(_references(table)),
        *(found or [WORDS["builds"]["no_regression"]]),
        *optimizer_notes(m.records),
    )
    labelled = with_labels(table)
    view = view_of(labelled, "builds-table", "Comparison of builds", "build", "build",
                   BUILD_COLUMNS, lambda r: joined(r[name] for name in ALL_BUT_BUILD))  # fmt: skip
    return replace(section, paragraphs=words, figures=list(_heat_maps(labelled)), views=(view,))


def _references(table: pd.DataFrame) -> str:
    """The builds that changes are relative to, each with its models if there are several."""
    models = table.groupby("against", sort=False)["model"].unique()
    if len(models) == 1:
        return f"`{models.index[0]}`"
    each = (f"`{build}` ({n.few(list(those), 3, ', ')})" for build, those in models.items())
    return " or ".join(each)


def _regression(row: dict[Any, Any]) -> str:
    effect = f", {_effect(row['effect'])} standard deviations between runs"
    effect = effect if n.is_number(row["effect"]) else ""
    return (
        f"Regression: `{row['implementation'] or row['model']}` on {row['device']} takes "
        f"{n.ratio(row['change'])} as long in `{row['build']}` as in `{row['against']}` "
        f"(95 % CI {span_of('change', n.ratio_span)(row)}{effect})."
    )


def _heat_maps(labelled: pd.DataFrame) -> Iterator[Figure]:
    rank = labelled.groupby("build")["epoch_seconds"].median().rank().to_dict()
    groups = labelled.groupby([*ALL_BUT_BUILD, "implementation"], sort=False)
    for key, cells in islice(groups, DRAWN):
        rows = cells.to_dict("records")
        fastest = cells.groupby("column_name")["epoch_seconds"].transform("min")
        devices = list(dict.fromkeys(cells["column_name"]))
        drawn = cells.assign(
            device=cells["column_name"],
            share=cells["epoch_seconds"] / fastest,
            text=[marked(n.plain(row["epoch_seconds"]), row) for row in rows],
            span=list(map(epoch_span, rows)),
        ).sort_values("build", key=lambda names: names.map(rank), kind="stable")
        for part in range(0, len(devices), ACROSS):
            some = drawn[drawn["device"].isin(devices[part : part + ACROSS])]
            yield figure("builds", joined(key[:-1]), f"{key[-1]}-{part // ACROSS}",
                         f"Seconds per epoch, {key[-1] or key[0]}",
                         charts.heat_map(some))  # fmt: skip


def threads_section(m: Tables) -> Section:
    table, published = m.scaling, published_scaling(m.frame, m.inputs.published)
    section = Section("threads", csv={"threads": table})
    drawn, views = [], []
    if len(table):
        named = with_labels(table)
        for key, cells in islice(named.groupby([*GROUP, "machine"], sort=False), DRAWN):
            title = f"Speed-up by threads on {key[-1]}"
            chart = _by_threads(cells, of_these(m.palette, named["series"]))
            drawn.append(figure("threads", joined(key[:-1]), str(key[-1]), title, chart))
        views.append(view_of(named, "threads-table", "Thread scaling", "implementation", "series",
                             THREAD_COLUMNS,
                             lambda r: joined(r[name] for name in GROUP)))  # fmt: skip
    for (source, model), rows in published.groupby(["source", "model"], sort=False):
        rows = rows.assign(series=rows["build"].str.partition(" ")[0])
        title = f"Published speed-up by vCPUs, {model}"
        chart = _by_threads(rows, colours(rows["series"]))
        drawn.append(figure("threads", f"published: {source}", str(model), title, chart))
    if not published.empty:
        views.append(view_of(published, "threads-published", "Published speed-up", "build", "build",
                             PUBLISHED_THREAD_COLUMNS,
                             lambda r: f"{r['model']}, published by {r['source']}",
                             (WORDS["threads"]["published"],)))  # fmt: skip
    text = WORDS["threads"]["no_fit" if table.empty else "text"]
    return replace(section, paragraphs=(text,), figures=drawn, views=views)


def _by_threads(rows: pd.DataFrame, palette: Mapping[str, str]) -> charts.Spec:
    """Speed-up with intervals; the ideal one as a dashed line, the fit as a thin one."""
    rows = rows.assign(size=rows["threads"], value=rows["speedup"], low=rows["speedup_low"],
                       high=rows["speedup_high"])  # fmt: skip
    ideal = {"strokeDash": [4, 3], "opacity": 0.6, "color": "#7d8790"}
    return charts.by_size(rows, palette, "threads", {"ideal": ideal, "fitted": charts.THIN}, 2)


def efficiency_section(m: Tables) -> Section:
    """Time per timestep, GFLOP/s and their share of the device's peak, energy. Texts explain which
    are unknown, and why."""
    table, energies = m.efficiency, energy(m.measured)
    section = Section("efficiency", csv={"efficiency": table, "energy": energies})
    if table.empty:
        return section
    labelled = with_labels(table)
    known = labelled[labelled["us_per_timestep"].notna()]
    words = list(_reasons_for_missing(labelled))
    views = []
    if len(known):
        title = "Time per timestep, and GFLOP/s"
        words.insert(0, WORDS["efficiency"]["text"])
        columns = EFFICIENCY_COLUMNS if known["mfu"].notna().any() else EFFICIENCY_COLUMNS[:3]
        views.append(by_device("efficiency", title, known, columns))
    if len(energies):
        note = WORDS["efficiency"]["energy"]
        views.append(by_device("energy", "Energy of the GPU", energies, ENERGY_COLUMNS, (note,)))
    return replace(section, paragraphs=words, views=views, text_only=True)


def _reasons_for_missing(table: pd.DataFrame) -> Iterator[str]:
    """Why rows have no GFLOP/s or, if a device states its peak, no MFU."""
    states_peak = table["peak_tflops"].notna().any()
    for why, rows in table[table["why"] != ""].groupby("why", sort=False):
        lacks = "MFU" if rows["gflops"].notna().any() else "GFLOP/s"
        if lacks == "MFU" and not states_peak:
            continue
        names = [
            f"`{row['model']}` on {row['column_name']}, {row['build']}"
            for row in rows.to_dict("records")
        ]
        yield f"No {lacks}: {why} ({n.few(list(dict.fromkeys(names)), NAMED)})."


def equivalence_section(m: Tables) -> Section:
    """The kernels found in the traced training step, and the contents of the certificates."""
    every = m.inputs.certificates.every
    views = (
        kernels_view(kernels(m.frame)),
        view_of(certified(every), "certified", "Certificates", "implementation", "rnn",
                CERTIFIED_COLUMNS, _certificate),
        view_of(pairs(every), "pairs", "Pairs", "pair", lambda r: f"{r['a']} and {r['b']}",
                PAIR_COLUMNS, _certificate),
    )  # fmt: skip
    found = WORDS["ran"]["certified" if every else "no_certificate"]
    return Section("ran", (WORDS["ran"]["text"], found), (), [v for v in views if v.rows], "words")


def _equality(row: Mapping[Any, Any]) -> str:
    if row["why"]:
        return f"not certified: {row['why']}"
    return "yes" if row["equal"] else UNEQUAL


def _certificate(row: Mapping[Any, Any]) -> str:
    return joined(row[name] for name in CERTIFICATE_COLUMNS)


def kernels_view(table: pd.DataFrame) -> TableView:
    """One row per network, implementation and kernel; the variant is named if the implementation
    has another kernel, or another reason, in another variant."""
    kinds = table.groupby(["cell", "build", "implementation"])[["kernel", "why_not_cudnn"]]
    differs = kinds.transform("nunique").gt(1).any(axis=1)
    table = table.assign(variant=table["variant"].where(differs, ""))
    by = [*NETWORK, "implementation", "kernel", "why_not_cudnn"]
    counted = (
        table.groupby(by, sort=False)
        .agg(device=("device", lambda names: ", ".join(dict.fromkeys(names))), runs=("runs", "sum"))
        .reset_index()
    )
    several = len(counted[NETWORK].drop_duplicates()) > 1
    reasons = list(counted["why_not_cudnn"])
    common: list[str] = []
    if len(reasons) > 1:
        common = [reason for reason in reasons[0] if all(reason in row for row in reasons)]
    others = ["; ".join(text for text in row if text not in common) for row in reasons]
    note = f"In every row, cuDNN is also ruled out because {' and '.join(common)}."
    return view_of(counted.assign(others=others), "kernels", "Kernels", "implementation",
                   lambda row: row["implementation"] or "model", KERNEL_COLUMNS,
                   lambda row: joined(row[name] for name in NETWORK) if several else "",
                   (note,) if common else ())  # fmt: skip


def target_section(m: Tables) -> Section:
    table = target(m.frame)
    section = Section("target", (WORDS["target"]["text"],), csv={"target": table})
    if table.empty:
        return section
    labelled, drawn = with_labels(table), []
    several = labelled["group_name"].nunique() > 1
    lines = with_labels(curves(m.frame, "val_acc"))
    for key, cells in islice(lines.groupby(["group_name", "column_name"], sort=False), DRAWN):
        place = key if several else ("", " ".join(map(str, key)))
        chart = charts.by_seconds(cells, of_these(m.palette, cells["series"]))
        title = f"Validation accuracy over time on {key[1]}"
        drawn.append(figure("second", str(place[0]), str(place[1]), title, chart))
    view = view_of(labelled, "target-table", "Time to accuracy", "implementation", "shown",
                   TARGET_COLUMNS, "block")  # fmt: skip
    return replace(section, figures=drawn, views=(view,))


# In the order of the page.
SECTIONS: tuple[Callable[[Tables], Section], ...] = (
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
