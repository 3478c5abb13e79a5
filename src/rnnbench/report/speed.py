"""The section on time: seconds per epoch and speed-ups."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import pandas as pd

from rnnbench.axes import DEVICE_COLUMNS, GROUP
from rnnbench.records.overrides import reference_label
from rnnbench.report import charts
from rnnbench.report import numbers as n
from rnnbench.report.figures import Figure, figure
from rnnbench.report.labels import DRAWN, colours, device_words, first_places, with_labels
from rnnbench.report.numbers import Row
from rnnbench.report.section import WORDS, Section
from rnnbench.report.tables import Tables
from rnnbench.report.views import Column, TableView, by_device, epoch_interval, interval_of
from rnnbench.tables.outcome import COMPARED, Outcome

LINE = 28  # characters per line of a reason
LEAD = 2  # figures next to the answer
SECONDS = ["epoch_seconds", "epoch_low", "epoch_high"]
SPEEDUP = ["speedup", "speedup_low", "speedup_high"]

speedup_interval = interval_of("speedup", n.ratio_span)


def speedup_text(row: Row) -> str:
    """``1.48×``; ``≠ 1.21×`` if the functions differ.

    `row`: of the time table, or of the table of calls.
    """
    text = n.ratio(row["speedup"])
    if row["unequal"]:
        text = n.unequal(row["unequal"])
    is_suspect = row["speedup_suspect"] and row["words"] != Outcome.REFERENCE
    return n.marked(text, is_suspect)


def speedup_words(row: Row) -> str:
    """The interval of a speed-up, and what it shows or how the functions differ; without an
    interval, the result as text.

    `row`: of the time table, or of the table of calls.
    """
    if row["unequal"]:
        difference = textwrap.fill(row["difference"], LINE)
        return f"{n.ratio_interval(row['unequal'])},\n{difference}"
    if not n.is_number(row["speedup_low"]):
        return str(row["words"])
    span = speedup_interval(row)
    if row["words"] == Outcome.NO_DIFFERENCE:
        return f"{span},\n{Outcome.NO_DIFFERENCE}"
    return span


SECONDS_COLUMNS = (
    Column("s per epoch", "epoch_seconds", n.plain, marked=True),
    Column("95 % CI", text=epoch_interval, quiet=True),
)
SPEEDUP_COLUMNS = (
    Column("speed-up", text=speedup_text),
    Column("95 % CI", text=speedup_words, quiet=True),
)
STEP_COLUMNS = (
    Column("ms / step", "ms_per_step", n.plain, marked=True),
    Column("µs / sample", "us_per_sample", n.plain, marked=True),
    Column("evaluate, s", "evaluate_seconds", n.plain, marked=True),
    Column("predict, s", "predict_seconds", n.plain, marked=True),
    Column("runs", "runs", n.whole, quiet=True),
)


def time_view(table: pd.DataFrame) -> TableView:
    """The table of speed-ups and seconds. `table`: rows of the time table, as `Tables.regroup`
    returns them."""
    if not has_speedups(table):
        return by_device("time", "Seconds per epoch", table, SECONDS_COLUMNS)
    columns = (*SPEEDUP_COLUMNS, *SECONDS_COLUMNS)
    return by_device("time", "Speed-up and seconds per epoch", table, columns)


def has_speedups(table: pd.DataFrame) -> bool:
    """Whether something is compared. Without a reference, each configuration is its own."""
    return bool(table["words"].ne(Outcome.REFERENCE).any())


def time_section(m: Tables) -> Section:
    """Seconds per epoch and speed-ups, how both are made, and the times of a step and of calls."""
    csv = {"time": m.time}
    if m.time.empty:
        return Section("speed", csv=csv)

    words = WORDS["speed"]
    methods = m.time["method"].dropna()
    in_turns = any(method.in_turns for method in methods)
    adjusted = words["adjusted"] if in_turns else ""
    relative = ""
    if has_speedups(m.time):
        relative = words["relative"].format(reference_label(m.reference))
    texts = [words["text"].format(adjusted, relative)]
    if m.runs["verdict"].eq("suspect").any():
        texts.append(words["suspect"])
    if any(method.pooled for method in methods):
        texts.append(words["pooled"])
    if in_turns:
        texts.append(words["turns"])
    paragraphs = [" ".join(texts)]

    places = m.regrouped.groupby([*GROUP, *DEVICE_COLUMNS])
    if places.ngroups > DRAWN:
        paragraphs.append(words["panels"].format(DRAWN))

    figures = list(_figures(m))
    speedups = [each for each in figures if each.kind == "speedup"] or figures
    first = [each.id for each in speedups if each.group == speedups[0].group]
    views = (
        time_view(m.regrouped),
        by_device(
            "step",
            "Time per step and sample; evaluate() and predict()",
            m.regrouped,
            STEP_COLUMNS,
        ),
    )
    return Section(
        "speed",
        paragraphs,
        figures=figures,
        views=views,
        leads=["time", *first[:LEAD]],
        opens=True,
        csv=csv,
    )


def _figures(m: Tables) -> Iterator[Figure]:
    """Two figures for each of the first places (group and device): seconds per epoch, speed-ups.

    A group or device with a single dot has no figure of seconds, and one without any other
    configuration than the reference none of speed-ups.
    """
    labelled = _with_chart_labels(with_labels(m.regrouped))
    runs = with_labels(m.regroup(m.run_values))
    runs = runs.assign(place=runs["series"], value=runs["seconds"])
    palette = colours(labelled["implementation"])
    for group, cells in first_places(labelled).groupby("group_name", sort=False):
        of_group = runs[runs["group_name"] == group]
        has_ratios = cells["words"].isin(COMPARED).any()
        for device, rows in cells.groupby("column_name", sort=False):
            own = of_group[of_group["column_name"] == device]
            words = device
            first = rows.iloc[0].to_dict()
            if device == first["device"]:
                words = device_words(first["device"], first["variant"]).strip("`")

            names = charts.names_axis(dict(zip(rows["series"], rows["shown"], strict=True)))
            if len(rows) > 1 or len(own) > 1:  # a single dot shows nothing
                # One axis for all devices, unless it would hide the differences on one of them.
                limits = charts.seconds_limits(cells[SECONDS], of_group["seconds"])
                if limits[0] > 0 and limits[1] > charts.LOG_FROM * limits[0]:
                    limits = charts.seconds_limits(rows[SECONDS], own["seconds"])
                drawn = charts.values(rows, SECONDS).assign(label=rows["time_label"])
                chart = charts.times(
                    drawn,
                    palette,
                    charts.seconds_axis(limits),
                    names,
                    own,
                )
                yield figure(
                    "time",
                    group,
                    device,
                    f"Seconds per epoch on {words}",
                    chart,
                )

            others = rows[rows["words"] != Outcome.REFERENCE]
            if has_ratios and others["speedup"].notna().any():
                limits = charts.ratio_limits(cells[SPEEDUP])
                drawn = charts.values(rows, SPEEDUP).assign(label=rows["speedup_label"])
                chart = charts.ratios(
                    drawn,
                    palette,
                    charts.ratio_axis("speed-up over the reference", limits),
                    names,
                )
                yield figure(
                    "speedup",
                    group,
                    device,
                    f"Speed-up on {words}",
                    chart,
                )


def _with_chart_labels(labelled: pd.DataFrame) -> pd.DataFrame:
    """`labelled` with the texts of its dots.

    - `time_label`: ``0.48 s``.
    - `speedup_label`: ``1.48×``, ``1.04× no difference shown``, or why there is no speed-up.
    """
    times = []
    speedups = []
    for row in labelled.to_dict("records"):
        seconds = n.plain(row["epoch_seconds"])
        times.append(n.marked(f"{seconds} s", row["suspect"]))
        text = str(row["words"])
        if text in COMPARED:
            ratio = n.marked(n.ratio(row["speedup"]), row["speedup_suspect"])
            text = f"{ratio} {text}"
            if row["words"] not in (Outcome.NO_DIFFERENCE, Outcome.ONE_RUN):
                text = ratio
        speedups.append(text)
    return labelled.assign(
        place=labelled["series"],
        time_label=times,
        speedup_label=speedups,
    )
