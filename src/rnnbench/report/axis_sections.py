"""The sections on builds, thread counts, and time to a target accuracy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pandas as pd

from rnnbench.axes import GROUP
from rnnbench.report import numbers as n
from rnnbench.report.anchors import configuration_anchors
from rnnbench.report.charts import build_heatmap, second_panel, thread_panel
from rnnbench.report.colours import colours, of_these
from rnnbench.report.figure import Figure, figure
from rnnbench.report.labels import joined, with_labels
from rnnbench.report.notes import Note
from rnnbench.report.section import Section
from rnnbench.report.table_view import Column, TableView, view_of
from rnnbench.report.table_views import epoch_span, marked, span_of, speedup_span

ACROSS = 4  # devices in one heatmap, so that its numbers are legible on a phone
ALL_BUT_BUILD = [name for name in GROUP if name != "build"]
DRAWN = 12  # figures of a section; its table has all rows


def builds_section(table: pd.DataFrame, notes: Iterable[Note] = ()) -> Section:
    """`table` as from `tables.builds`; `notes` stand above the figures."""
    if table.empty:
        return Section("builds", "Builds")
    words = [
        "Seconds per epoch by build and device, with 95 % confidence intervals; the stronger the "
        "colour, the closer a build is to the fastest on its device. Changes are "
        f"relative to the build `{table['against'].iloc[0]}` on the same device."
    ]
    regressions = table[table["regression"].astype(bool)].sort_values("change", ascending=False)
    words += [_regression(row) for row in regressions.head(5).to_dict("records")]
    if regressions.empty:
        words.append("No regression of 2 % or more is shown.")
    words += map(str, notes)
    return Section("builds", "Builds", tuple(words), tuple(_heatmaps(table)),
                   (builds_view(table),))  # fmt: skip


def _regression(row: dict[Any, Any]) -> str:
    effect = f", {_effect(row['effect'])} standard deviations between runs"
    effect = effect if n.is_number(row["effect"]) else ""
    span = n.ratio_span(row["change_low"], row["change_high"], row["change"])
    return (
        f"Regression: `{row['implementation'] or row['model']}` on {row['device']} takes "
        f"{n.ratio(row['change'])} as long in `{row['build']}` as in `{row['against']}` "
        f"(95 % CI {span}{effect})."
    )


def _effect(value: Any) -> str:
    """A change in standard deviations. Beyond ten, the value depends mostly on the estimate of the
    standard deviation."""
    return "over 10" if n.is_number(value) and abs(value) > 10 else n.plain(value, 2)


BUILD_COLUMNS = (
    Column("implementation", "shown", number=False),
    Column("device", "column_name", number=False),
    Column("s per epoch", lambda r: n.seconds(r["epoch_seconds"])),
    Column("95 % CI", epoch_span, quiet=True),
    Column("relative time", lambda r: n.ratio(r["change"])),
    Column("95 % CI", lambda r: _change(r), quiet=True, number=False, linked=True),
    Column("effect, SD", lambda r: _effect(r["effect"])),
)


def _change(row: Any) -> str:
    if not n.is_number(row["change_low"]):
        return str(row["words"])
    return f"{n.ratio_span(row['change_low'], row['change_high'], row['change'])}, {row['words']}"


def builds_view(table: pd.DataFrame) -> TableView:
    return view_of(with_labels(table), "builds-table", "Comparison of builds", "build", "build",
                   BUILD_COLUMNS, lambda r: joined(r[name] for name in ALL_BUT_BUILD))  # fmt: skip


def _heatmaps(table: pd.DataFrame) -> Iterator[Figure]:
    labelled = with_labels(table)
    rank = table.groupby("build")["epoch_seconds"].median().rank().to_dict()
    by = [*ALL_BUT_BUILD, "implementation"]
    for place, (key, cells) in enumerate(labelled.groupby(by, sort=False)):
        if place < DRAWN:
            rows = cells.to_dict("records")
            fastest = cells.groupby("column_name")["epoch_seconds"].transform("min")
            drawn = cells.assign(
                device=cells["column_name"],
                share=cells["epoch_seconds"] / fastest,
                text=[marked(n.seconds(row["epoch_seconds"]), row) for row in rows],
                span=list(map(epoch_span, rows)),
            ).sort_values("build", key=lambda names: names.map(rank), kind="stable")
            group = joined(key[:-1])
            title = f"Seconds per epoch, {key[-1] or key[0]}"
            devices = list(dict.fromkeys(cells["column_name"]))
            for first in range(0, len(devices), ACROSS):
                some = drawn[drawn["device"].isin(devices[first : first + ACROSS])]
                which = f"{key[-1]}-{first // ACROSS}"
                yield figure("builds", group, which, title, build_heatmap(some))


THREAD_COLUMNS = (
    Column("threads", "threads", linked=False),
    Column("speed-up", lambda r: n.ratio(r["speedup"])),
    Column("95 % CI", speedup_span),
    Column("efficiency", lambda r: f"{r['efficiency']:.0%}"),
    Column("serial fraction", lambda r: f"{r['serial_fraction']:.1%}"),
    Column("runs", "runs"),
)


def threads_section(
    table: pd.DataFrame, palette: Mapping[str, str], published: pd.DataFrame
) -> Section:
    """`table` as from `tables.scaling`, `published` as from `published_scaling`."""
    if table.empty and published.empty:
        return Section("threads", "Threads")
    if table.empty:
        words = ("Fewer than three thread counts were measured, so there is no fit.",)
        figures = tuple(_published_threads(published))
        return Section("threads", "Threads", words, figures, (_published_view(published),))
    words = (
        "Speed-up over the smallest number of threads. Dashed: ideal. Thin: Amdahl's law with the "
        "fitted serial fraction, which is not an extrapolation beyond the measured thread counts.",
    )
    named = table.assign(
        shown=table["implementation"].replace("", "model"),
        anchor=configuration_anchors(table),
    )
    palette = of_these(palette, named["shown"])
    by = [*GROUP, "machine"]
    drawn = [
        figure("threads", joined(key[:-1]), str(key[-1]),
               f"Speed-up by threads on {key[-1]}", thread_panel(cells, palette))
        for place, (key, cells) in enumerate(named.groupby(by, sort=False))
        if place < DRAWN
    ]  # fmt: skip
    views = [view_of(named, "threads-table", "Thread scaling", "implementation", "shown",
                     THREAD_COLUMNS, lambda r: joined(r[name] for name in GROUP))]  # fmt: skip
    if not published.empty:
        drawn += _published_threads(published)
        views.append(_published_view(published))
    return Section("threads", "Threads", words, tuple(drawn), tuple(views))


def _published_threads(table: pd.DataFrame) -> Iterator[Figure]:
    """Separate figures of the published speed-ups, drawn like the measured ones."""
    for (source, model), rows in table.groupby(["source", "model"], sort=False):
        rows = rows.assign(shown=rows["build"].str.partition(" ")[0])
        title = f"Published speed-up by vCPUs, {model}"
        panel = thread_panel(rows, colours(rows["shown"]))
        yield figure("threads", f"published: {source}", str(model), title, panel)


PUBLISHED_COLUMNS = (
    Column("vCPUs", lambda r: str(int(r["threads"]))),
    Column("s", lambda r: n.plain(r["seconds"], 4)),
    Column("speed-up", lambda r: n.ratio(r["speedup"])),
    Column("efficiency", lambda r: f"{r['speedup'] / r['ideal']:.0%}"),
)


def _published_view(table: pd.DataFrame) -> TableView:
    note = (
        "Speed-up of one whole training over the smallest number of vCPUs. Published numbers are "
        "in no statistic of this page."
    )
    return view_of(table, "threads-published", "Published speed-up", "build", "build",
                   PUBLISHED_COLUMNS, lambda r: f"{r['model']}, published by {r['source']}",
                   (note,))  # fmt: skip


TARGET_COLUMNS = (
    Column("device", "column_name", number=False),
    Column("target", lambda r: n.share(r["target"])),
    Column("seconds", lambda r: n.seconds(r["seconds"])),
    Column("95 % CI", span_of("seconds"), quiet=True),
    Column("epochs", lambda r: n.plain(r["epochs"], 2)),
    Column("runs that reached it", lambda r: f"{r['reached']} of {r['runs']}"),
)


def target_section(
    table: pd.DataFrame, by_second: pd.DataFrame, palette: Mapping[str, str]
) -> Section:
    """`table` as from `tables.target`, `by_second` as from `curves` of val_acc."""
    if table.empty:
        return Section("target", "Time to accuracy")
    words = (
        "Seconds of training until the end of the first epoch that reaches the target. The target "
        "is 99 % of the best validation accuracy of the least accurate run of the same task.",
    )
    labelled, lines = with_labels(table), with_labels(by_second)
    several = labelled["group_name"].nunique() > 1
    drawn = [
        figure("second", str(key[0]) if several else "",
               str(key[1]) if several else " ".join(map(str, key)),
               f"Validation accuracy over time on {key[1]}",
               second_panel(cells, of_these(palette, cells["implementation"])))
        for place, (key, cells) in enumerate(
            lines.groupby(["group_name", "column_name"], sort=False)
        )
        if place < DRAWN
    ]  # fmt: skip
    view = view_of(labelled, "target-table", "Time to accuracy", "implementation", "shown",
                   TARGET_COLUMNS, lambda row: row["group_name"] if several else "")  # fmt: skip
    return Section("target", "Time to accuracy", words, tuple(drawn), (view,))
