"""Time, accuracy and learning curves of training, and the time of ``evaluate()`` and
``predict()``: figures, tables and sections."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pandas as pd

from rnnbench.axes import DEVICE_COLUMNS, GROUP
from rnnbench.report import charts
from rnnbench.report import numbers as n
from rnnbench.report.labels import colours, joined, of_these, variant_labels, with_labels
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
from rnnbench.report.tables import Tables
from rnnbench.sources.certificates import NOT_LEARNING
from rnnbench.tables.learning import MIN_SEEDS, TOO_FEW_SEEDS, curves
from rnnbench.tables.ratios import Unequal
from rnnbench.tables.runs import order, thinned_order
from rnnbench.tables.stats import ONE_RUN
from rnnbench.tables.time import COMPARED, IS_REFERENCE, NO_DIFFERENCE

LINE = 28  # characters per line of a reason
CURVES = {"loss": "Training loss", "val_acc": "Validation accuracy"}
SQUEEZED = 2  # a device has its own axis of ratios if the common one is longer by this factor
PANELS = 12  # figures of one kind; the tables have every configuration
LATENCIES = 4  # figures of calls
SECONDS = ["epoch_seconds", "epoch_low", "epoch_high"]
SPEEDUP = ["speedup", "speedup_low", "speedup_high"]
ENDS = ["value", "low", "high"]


def speedup_text(row: Any) -> str:
    other = row["unequal"]
    text = n.unequal(other) if isinstance(other, Unequal) else n.ratio(row["speedup"])
    shown = isinstance(other, Unequal) or row["words"] in COMPARED
    return n.marked(text, row["speedup_suspect"] and shown)


def speedup_words(row: Any) -> str:
    if isinstance(other := row["unequal"], Unequal):
        return ",\n".join((n.unequal_span(other), textwrap.fill(row["difference"], LINE)))
    if not n.is_number(row["speedup_low"]):
        return str(row["words"])
    span = span_of("speedup", n.ratio_span)(row)
    return f"{span},\n{NO_DIFFERENCE}" if row["words"] == NO_DIFFERENCE else span


def _spread(row: Any, name: str) -> str:
    if not n.is_number(row[name.removesuffix("_sd")]):
        return n.NOTHING
    if row["seeds"] < 2:
        return "one seed"
    return f"± {n.plain(row[name]) if 'loss' in name else n.share(row[name])}"


def _plain(name: str) -> Callable[[Any], str]:
    """The number in the column `name`, with a dagger if it includes suspect runs."""
    return lambda row: marked(n.plain(row[name]), row)


def _validation(row: Any) -> str:
    text = marked(n.share(row["val_acc"]), row)
    return f"{text},\n{NOT_LEARNING}" if row["not_learning"] else text


def _difference_interval(row: Any) -> str:
    if row["is_reference"]:
        return IS_REFERENCE
    if not n.is_number(row["val_acc_low"]):
        return TOO_FEW_SEEDS if row["seeds"] < MIN_SEEDS else n.NOTHING
    return n.shares_apart_span(row["val_acc_low"], row["val_acc_high"])


TIME_COLUMNS = (
    Column("speed-up", speedup_text),
    Column("95 % CI", speedup_words, quiet=True),
    Column("s per epoch", _plain("epoch_seconds")),
    Column("95 % CI", epoch_span, quiet=True),
)
STEP_COLUMNS = (
    Column("ms / step", _plain("ms_per_step")),
    Column("µs / sample", _plain("us_per_sample")),
    Column("evaluate, s", _plain("evaluate_seconds")),
    Column("predict, s", _plain("predict_seconds")),
    Column("runs", lambda r: str(int(r["runs"])), quiet=True),
)
ACCURACY_COLUMNS = (
    Column("train", lambda r: marked(n.share(r["acc"]), r)),
    Column("SD", lambda r: _spread(r, "acc_sd"), quiet=True),
    Column("validation", _validation),
    Column("SD", lambda r: _spread(r, "val_acc_sd"), quiet=True),
)
LOSS_COLUMNS = (
    Column("train loss", _plain("loss")),
    Column("SD", lambda r: _spread(r, "loss_sd"), quiet=True),
    Column("validation loss", _plain("val_loss")),
    Column("SD", lambda r: _spread(r, "val_loss_sd"), quiet=True),
)
LARGEST_LOSS = Column("largest difference in loss", lambda r: n.small(r["loss_largest"]))
LEARNING_COLUMNS = (
    Column(
        "difference in val acc, last epoch",
        lambda r: marked(n.shares_apart(r["val_acc_difference"]), r),
    ),
    Column("95 % CI", _difference_interval, quiet=True),
    Column("largest difference in val acc", lambda r: n.shares_apart(r["val_acc_largest"])),
    LARGEST_LOSS,
)
CALL_COLUMNS = (
    Column("device", "column_name", number=False),
    Column("call", "call", number=False),
    Column("samples", lambda r: str(int(r["samples"]))),
    Column("batch", lambda r: str(int(r["batch"])) if n.is_number(r["batch"]) else n.NOTHING),
    Column("s", _plain("seconds")),
    Column("95 % CI", lambda r: n.span(r["low"], r["high"], r["seconds"]), quiet=True),
    Column("ms / batch", _plain("ms_per_batch")),
    Column("samples / s", _plain("samples_per_second")),
    Column("speed-up", lambda r: speedup_text({**r, "speedup_suspect": False})),
    Column("95 % CI", speedup_words, quiet=True),
)


def time_views(m: Tables) -> list[TableView]:
    title = "Time per step and sample; evaluate() and predict()"
    fastest = by_device("time", "Speed-up and seconds per epoch", m.regrouped, TIME_COLUMNS)
    return [replace(fastest, leads=True), by_device("step", title, m.regrouped, STEP_COLUMNS)]


def accuracy_views(m: Tables) -> list[TableView]:
    title = "Difference from the reference, seed by seed"
    notes = (WORDS["learning"]["note"],) if m.learning["val_acc_low"].notna().any() else ()
    reached, differences = m.regroup(m.accuracy), m.regroup(m.learning)
    if m.accuracy["acc"].isna().all():  # models without an accuracy, such as of regression
        return [
            by_device("accuracy", "Loss at the last epoch", reached, LOSS_COLUMNS),
            by_device("learning", title, differences, (LARGEST_LOSS,)),
        ]
    return [
        by_device("accuracy", "Accuracy at the last epoch", reached, ACCURACY_COLUMNS),
        by_device("learning", title, differences, LEARNING_COLUMNS, notes),
    ]


def places(table: pd.DataFrame) -> int:
    """The number of pairs of group and device in `table`."""
    return int(table.groupby([*GROUP, *DEVICE_COLUMNS]).ngroups)


def _first_places(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the first `PANELS` pairs of `group_name` and `column_name`."""
    place = table.groupby(["group_name", "column_name"], sort=False).ngroup()
    return table[place < PANELS]


def speed_figures(m: Tables) -> Iterator[Figure]:
    """Seconds per epoch, and speed-ups, of the first `PANELS` places (group and device)."""
    labelled, runs = with_labels(m.regrouped), with_labels(m.regroup(m.run_values))
    palette = colours(labelled["implementation"])
    shown = runs.assign(place=runs["series"], value=runs["seconds"])
    for group, cells in _first_places(labelled).groupby("group_name", sort=False):
        of_group = shown[shown["group_name"] == group]
        compared = cells["words"].isin(COMPARED).any()
        times, ratios = _time_limits(cells, of_group), _ratio_limits(cells)
        for device, rows in cells.groupby("column_name", sort=False):
            own = of_group[of_group["column_name"] == device]
            names = charts.names_axis(dict(zip(rows["series"], rows["shown"], strict=True)))
            if len(rows) > 1 or len(own) > 1:  # a single dot shows nothing
                # One axis for all devices, unless it would hide the differences on one of them.
                far = times[0] > 0 and times[1] > charts.LOG_FROM * times[0]
                axis = charts.seconds_axis(_time_limits(rows, own) if far else times)
                drawn = _drawn(rows, SECONDS, _time_label)
                yield figure("time", str(group), str(device), f"Seconds per epoch on {device}",
                             charts.dots(drawn, palette, axis, names, own))  # fmt: skip
            if compared and rows.loc[rows["words"] != IS_REFERENCE, "speedup"].notna().any():
                limits = _ratio_limits(rows)
                if _length(ratios) <= SQUEEZED * _length(limits):
                    limits = ratios
                axis = charts.ratio_axis("speed-up over the reference", limits)
                drawn = _drawn(rows, SPEEDUP, _speedup_label)
                yield figure("speedup", str(group), str(device), f"Speed-up on {device}",
                             charts.dots(drawn, palette, axis, names))  # fmt: skip


def _drawn(rows: pd.DataFrame, measure: list[str], label: Any) -> pd.DataFrame:
    values = dict(zip(ENDS, (rows[name] for name in measure), strict=True))
    return rows.assign(
        place=rows["series"], label=list(map(label, rows.to_dict("records"))), **values
    )


def _time_limits(cells: pd.DataFrame, runs: pd.DataFrame) -> tuple[float, float]:
    values = pd.concat([*(cells[name] for name in SECONDS), runs["seconds"]])
    return charts.seconds_limits(values.astype(float))


def _ratio_limits(cells: pd.DataFrame) -> tuple[float, float]:
    return charts.ratio_limits(pd.concat([cells[name] for name in SPEEDUP]).astype(float))


def _length(limits: tuple[float, float]) -> float:
    return math.log(limits[1] / limits[0])


def _time_label(row: Any) -> str:
    return marked(f"{n.plain(row['epoch_seconds'])} s", row)


def _speedup_label(row: Any) -> str:
    if row["words"] not in COMPARED:
        return str(row["words"])
    words = f" {row['words']}" if row["words"] in (NO_DIFFERENCE, ONE_RUN) else ""
    return n.marked(n.ratio(row["speedup"]), row["speedup_suspect"]) + words


def order_figures(m: Tables) -> Iterator[Figure]:
    table = thinned_order(order(m.frame))
    table = table.assign(series=table["implementation"].replace("", "model"))
    for machine, rows in table.groupby("machine", sort=False):
        title = "Epoch time of each run relative to the mean of its configuration"
        title += f", {machine}" if table["machine"].nunique() > 1 else ""
        chart = charts.in_order(rows, m.palette)
        yield figure("order", "", str(machine), title, chart, wide=True)


def curves_section(m: Tables) -> Section:
    return Section("curves", (WORDS["curves"]["text"],), list(_curves(m)))


def _curves(m: Tables) -> Iterator[Figure]:
    palette = colours(m.regrouped["implementation"])
    for measure, title in CURVES.items():
        table = _first_places(with_labels(m.regroup(curves(m.frame, measure))))
        for (group, device), rows in table.groupby(["group_name", "column_name"], sort=False):
            chart = charts.learning_curves(rows, palette)
            yield figure("curve", str(group), f"{device}-{measure}", f"{title} on {device}", chart)


def calls_section(m: Tables) -> Section:
    """``evaluate()`` and ``predict()``: latency, throughput and speed-ups."""
    labelled = with_labels(m.calls).sort_values("call", kind="stable")
    view = view_of(labelled, "calls-table", "Time per call", "implementation", "series",
                   CALL_COLUMNS, "block")  # fmt: skip
    return Section("calls", (WORDS["calls"]["text"],), list(_latencies(labelled, m)), (view,),
                   csv={"calls": m.calls})  # fmt: skip


def _latencies(labelled: pd.DataFrame, m: Tables) -> Iterator[Figure]:
    """Milliseconds of predict() by batch, if several batch sizes of a network were measured."""
    predictions = labelled[(labelled["call"] == "predict") & labelled["batch"].notna()]
    milliseconds = 1e3 * predictions[["seconds", "low", "high"]].astype(float)
    predictions = predictions.assign(size=predictions["batch"], value=milliseconds["seconds"],
                                     **milliseconds[["low", "high"]])  # fmt: skip
    variants = [variant.those(_is_no_size) for variant in predictions["variant"]]
    labels = variant_labels(variants)
    networks = predictions.assign(network=[labels[variant] for variant in variants])
    drawn = 0
    for (*network, device), rows in networks.groupby(
        [*GROUP[:-1], "network", "column_name"], sort=False
    ):
        if drawn < LATENCIES and rows["batch"].nunique() > 1:
            drawn += 1
            palette = of_these(m.palette, rows["series"])
            chart = charts.by_size(rows, palette, "batch", {"value": charts.THIN})
            title = f"Milliseconds of predict() by batch on {device}"
            if len(labels) > 1:
                title += f", {network[-1]}"
            yield figure("calls", joined(network), str(device), title, chart)


def _is_no_size(key: str) -> bool:
    """Whether an override of the key makes another network, not another batch of its calls."""
    return key not in ("model.batch", "model.val_samples")
