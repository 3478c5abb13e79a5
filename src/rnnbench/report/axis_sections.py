"""The sections on builds, thread counts, and time to a target accuracy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from rnnbench.axes import GROUP
from rnnbench.report import numbers as n
from rnnbench.report.anchors import configuration_anchors
from rnnbench.report.charts import build_heatmap, second_panel, thread_panel
from rnnbench.report.colours import colours, of_these
from rnnbench.report.figure import Figure, figure
from rnnbench.report.labels import with_labels
from rnnbench.report.section import Section
from rnnbench.report.table_view import Column, Row, TableView
from rnnbench.report.table_views import marked
from rnnbench.tables.optimizers import OptimizerDifference

ACROSS = 4  # devices in one heatmap, so that its numbers are legible on a phone
ALL_BUT_BUILD = [name for name in GROUP if name != "build"]
DRAWN = 12  # figures of a section; its table has all rows


def builds_section(table: pd.DataFrame, optimizers: Sequence[OptimizerDifference] = ()) -> Section:
    """`table` as from `tables.builds`, `optimizers` as from `tables.optimizers`."""
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
    words += map(_parted, optimizers)
    return Section("builds", "Builds", tuple(words), tuple(_heatmaps(table)),
                   (builds_view(table),))  # fmt: skip


OPTIMIZER_SENTENCES = {
    "epsilon": (
        "`{model}` is trained with RMSprop, which adds epsilon to the square root in {some} and "
        "inside it in {others}"
    ),
    "rows": (
        "`{model}` has an embedding: if a batch contains a row of it several times, the optimizer "
        "adds the squares of the row's gradients in {some} and squares their sum in {others}"
    ),
}


def _parted(parted: OptimizerDifference) -> str:
    some, others = (", ".join(f"`{name}`" for name in b) for b in (parted.some, parted.others))
    text = OPTIMIZER_SENTENCES[parted.why].format(model=parted.model, some=some, others=others)
    return f"{text}. Their losses therefore differ by more than rounding (`benchmarks/README.md`)."


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


def builds_view(table: pd.DataFrame) -> TableView:
    labelled = with_labels(table)
    rows = tuple(
        Row(
            row["build"],
            (
                row["shown"],
                row["column_name"],
                n.seconds(row["epoch_seconds"]),
                n.span(row["epoch_low"], row["epoch_high"], row["epoch_seconds"]),
                n.ratio(row["change"]),
                row["words"]
                if not n.is_number(row["change_low"])
                else f"{n.ratio_span(row['change_low'], row['change_high'], row['change'])}, "
                f"{row['words']}",
                _effect(row["effect"]),
            ),
            _group(row, ALL_BUT_BUILD),
            ("", "", *[row["anchor"]] * 5),
        )
        for row in labelled.to_dict("records")
    )
    columns = (
        Column("implementation", number=False),
        Column("device", number=False),
        Column("s per epoch"),
        Column("95 % CI", quiet=True),
        Column("relative time"),
        Column("95 % CI", quiet=True, number=False),
        Column("effect, SD"),
    )
    return TableView("builds-table", "Comparison of builds", "build", columns, rows)


def _heatmaps(table: pd.DataFrame) -> Iterator[Figure]:
    labelled = with_labels(table)
    rank = table.groupby("build")["epoch_seconds"].median().rank().to_dict()
    by = [*ALL_BUT_BUILD, "implementation"]
    for place, (key, cells) in enumerate(labelled.groupby(by, sort=False)):
        if place < DRAWN:
            texts = cells.to_dict("records")
            drawn = cells.assign(
                device=cells["column_name"],
                share=cells["epoch_seconds"]
                / cells.groupby("column_name")["epoch_seconds"].transform("min"),
                text=[marked(n.seconds(row["epoch_seconds"]), row) for row in texts],
                span=[
                    n.span(row["epoch_low"], row["epoch_high"], row["epoch_seconds"])
                    for row in texts
                ],
            ).sort_values("build", key=lambda names: names.map(rank), kind="stable")
            group = " · ".join(str(part) for part in key[:-1] if part)
            title = f"Seconds per epoch, {key[-1] or key[0]}"
            devices = list(dict.fromkeys(cells["column_name"]))
            for first in range(0, len(devices), ACROSS):
                some = drawn[drawn["device"].isin(devices[first : first + ACROSS])]
                which = f"{key[-1]}-{first // ACROSS}"
                yield figure("builds", group, which, title, build_heatmap(some))


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
        figure("threads", " · ".join(str(part) for part in key[:-1] if part), str(key[-1]),
               f"Speed-up by threads on {key[-1]}", thread_panel(cells, palette))
        for place, (key, cells) in enumerate(named.groupby(by, sort=False))
        if place < DRAWN
    ]  # fmt: skip
    rows = tuple(
        Row(
            row["shown"],
            (
                str(row["threads"]),
                n.ratio(row["speedup"]),
                n.ratio_span(row["speedup_low"], row["speedup_high"], row["speedup"]),
                f"{row['efficiency']:.0%}",
                f"{row['serial_fraction']:.1%}",
                str(row["runs"]),
            ),
            _group(row, GROUP),
            ("", *[row["anchor"]] * 5),
        )
        for row in named.to_dict("records")
    )
    columns = tuple(
        Column(label)
        for label in ("threads", "speed-up", "95 % CI", "efficiency", "serial fraction", "runs")
    )
    views = [TableView("threads-table", "Thread scaling", "implementation", columns, rows)]
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


def _published_view(table: pd.DataFrame) -> TableView:
    rows = tuple(
        Row(
            row["build"],
            (
                str(int(row["threads"])),
                n.plain(row["seconds"], 4),
                n.ratio(row["speedup"]),
                f"{row['speedup'] / row['ideal']:.0%}",
            ),
            f"{row['model']}, published by {row['source']}",
        )
        for row in table.to_dict("records")
    )
    columns = tuple(Column(label) for label in ("vCPUs", "s", "speed-up", "efficiency"))
    note = (
        "Speed-up of one whole training over the smallest number of vCPUs. Published numbers are "
        "in no statistic of this page."
    )
    return TableView("threads-published", "Published speed-up", "build", columns, rows, (note,))


def target_section(
    table: pd.DataFrame, by_second: pd.DataFrame, palette: Mapping[str, str]
) -> Section:
    """`table` as from `tables.target`, `by_second` as from `curves_by_second` of val_acc."""
    if table.empty:
        return Section("target", "Time to accuracy")
    words = (
        "Seconds of training until the end of the first epoch that reaches the target. The target "
        "is 99 % of the best validation accuracy of the least accurate run of the same task.",
    )
    labelled, lines = with_labels(table), with_labels(by_second)
    drawn = [
        figure("second", str(key[0]) if labelled["group_name"].nunique() > 1 else "",
               " ".join(map(str, key)), f"Validation accuracy over time on {key[1]}",
               second_panel(cells, of_these(palette, cells["implementation"])))
        for place, (key, cells) in enumerate(
            lines.groupby(["group_name", "column_name"], sort=False)
        )
        if place < DRAWN
    ]  # fmt: skip
    rows = tuple(
        Row(
            row["shown"],
            (
                row["column_name"],
                n.share(row["target"]),
                n.seconds(row["seconds"]),
                n.span(row["seconds_low"], row["seconds_high"], row["seconds"]),
                n.plain(row["epochs"], 2),
                f"{row['reached']} of {row['runs']}",
            ),
            row["group_name"] if labelled["group_name"].nunique() > 1 else "",
            ("", *[row["anchor"]] * 5),
        )
        for row in labelled.to_dict("records")
    )
    columns = (
        Column("device", number=False),
        Column("target"),
        Column("seconds"),
        Column("95 % CI", quiet=True),
        Column("epochs"),
        Column("runs that reached it"),
    )
    view = TableView("target-table", "Time to accuracy", "implementation", columns, rows)
    return Section("target", "Time to accuracy", words, tuple(drawn), (view,))


def _group(row: dict[Any, Any], names: Sequence[str]) -> str:
    return " · ".join(str(row[name]) for name in names if row[name])
