"""The sections on accuracy, learning curves and the time to an accuracy."""

from __future__ import annotations

import re

from rnnbench.report import charts, notes
from rnnbench.report import numbers as n
from rnnbench.report.figures import figure
from rnnbench.report.labels import colours, first_places, with_labels
from rnnbench.report.numbers import Row
from rnnbench.report.section import WORDS, Section
from rnnbench.report.tables import Tables
from rnnbench.report.views import CellText, Column, by_device, interval_of, view_of
from rnnbench.sources.certificates import NOT_LEARNING
from rnnbench.tables.learning import MIN_SEEDS, TOO_FEW_SEEDS, curves, target
from rnnbench.tables.metrics import COLUMNS as METRICS_COLUMNS
from rnnbench.tables.time import IS_REFERENCE

CURVES = {"loss": "Training loss", "val_acc": "Validation accuracy"}


def _spread_of(name: str, text: CellText) -> CellText:
    """The standard deviation of the column `name` between seeds.

    `text`: how the values of the column are written. One seed has no deviation.
    """

    def text_of(row: Row) -> str:
        if not n.is_number(row[name]):
            return n.NOTHING
        if row["seeds"] < 2:
            return "one seed"
        return f"± {text(row[f'{name}_sd'])}"

    return text_of


def _validation(row: Row) -> str:
    """The validation accuracy, and whether the implementation does not learn what it computes."""
    text = n.marked(n.share(row["val_acc"]), row["suspect"])
    return f"{text},\n{NOT_LEARNING}" if row["not_learning"] else text


def _difference_interval(row: Row) -> str:
    """The interval of a difference in accuracy, or why there is none."""
    if row["is_reference"]:
        return IS_REFERENCE
    if n.is_number(row["val_acc_low"]):
        return n.shares_apart_span(row["val_acc_low"], row["val_acc_high"])
    if row["seeds"] < MIN_SEEDS:
        return TOO_FEW_SEEDS
    return n.NOTHING


ACCURACY_COLUMNS = (
    Column("train", "acc", n.share, marked=True),
    Column("SD", text=_spread_of("acc", n.share), quiet=True),
    Column("validation", text=_validation),
    Column("SD", text=_spread_of("val_acc", n.share), quiet=True),
)
LOSS_COLUMNS = (
    Column("train loss", "loss", n.plain, marked=True),
    Column("SD", text=_spread_of("loss", n.plain), quiet=True),
    Column("validation loss", "val_loss", n.plain, marked=True),
    Column("SD", text=_spread_of("val_loss", n.plain), quiet=True),
)
LARGEST_LOSS = Column("largest difference in loss", "loss_largest", n.small)
DIFFERENCE_COLUMNS = (
    Column("difference in val acc, last epoch", "val_acc_difference", n.shares_apart, marked=True),
    Column("95 % CI", text=_difference_interval, quiet=True),
    Column("largest difference in val acc", "val_acc_largest", n.shares_apart),
    LARGEST_LOSS,
)
TARGET_COLUMNS = (
    Column("device", "column_name", number=False),
    Column("target", "target", n.share),
    Column("seconds", "seconds", n.plain),
    Column("95 % CI", text=interval_of("seconds"), quiet=True),
    Column("epochs", "epochs", n.rough),
    Column("runs that reached it", text=lambda row: f"{row['reached']} of {row['runs']}"),
)


def accuracy_section(m: Tables) -> Section:
    """What is reached at the last epoch, and its difference from the reference. Models without an
    accuracy, such as of regression, have their losses only."""
    csv = {"accuracy": m.accuracy, "metrics": m.metrics, "alike": m.alike}
    if m.accuracy.empty:
        return Section("learnt", csv=csv)
    title = "Accuracy at the last epoch"
    columns: tuple[Column, ...] = ACCURACY_COLUMNS
    differences: tuple[Column, ...] = DIFFERENCE_COLUMNS
    notes_below: tuple[str, ...] = ()
    if m.accuracy["acc"].isna().all():
        title = "Loss at the last epoch"
        columns = LOSS_COLUMNS
        differences = (LARGEST_LOSS,)
    elif m.learning["val_acc_low"].notna().any():
        notes_below = (WORDS["learnt"]["note"],)
    views = [
        by_device("accuracy", title, m.regroup(m.accuracy), columns),
        by_device(
            "learning",
            "Difference from the reference, seed by seed",
            m.regroup(m.learning),
            differences,
            notes_below,
        ),
    ]
    if len(m.metrics):
        columns_of_metrics = []
        for name in m.metrics.columns[len(METRICS_COLUMNS) :]:
            heading = re.sub("^val_", "validation ", name)
            columns_of_metrics.append(Column(heading, name, n.plain, marked=True))
        table = m.regroup(m.metrics)
        views.append(by_device("metrics", "Metrics at the last epoch", table, columns_of_metrics))

    texts = [WORDS["learnt"]["text"]]
    random_layers = notes.random_note(m.records)
    if random_layers:
        texts.append(random_layers)
    return Section("learnt", texts, views=views, opens=True, csv=csv)


def curves_section(m: Tables) -> Section:
    """Loss and accuracy by epoch."""
    palette = colours(m.regrouped["implementation"])
    figures = []
    for measure, title in CURVES.items():
        table = with_labels(m.regroup(curves(m.frame, measure)))
        places = first_places(table).groupby(["group_name", "column_name"], sort=False)
        for (group, device), rows in places:
            chart = charts.learning_curves(rows, palette)
            which = f"{device}-{measure}"
            figures.append(figure("curve", group, which, f"{title} on {device}", chart))
    if not figures:
        return Section("curves")
    return Section("curves", (WORDS["curves"]["text"],), figures=figures)


def target_section(m: Tables) -> Section:
    """Seconds until a validation accuracy is reached, and accuracy over time."""
    table = target(m.frame)
    csv = {"target": table}
    if table.empty:
        return Section("target", csv=csv)

    labelled = with_labels(table)
    several = labelled["group_name"].nunique() > 1
    lines = with_labels(curves(m.frame, "val_acc"))
    places = first_places(lines).groupby(["group_name", "column_name"], sort=False)
    figures = []
    for (group, device), cells in places:
        title = f"Validation accuracy over time on {device}"
        chart = charts.by_seconds(cells, m.palette)
        if several:
            figures.append(figure("second", group, device, title, chart))
        else:
            figures.append(figure("second", "", f"{group} {device}", title, chart))
    view = view_of(
        labelled,
        "target-table",
        "Time to accuracy",
        "implementation",
        "shown",
        TARGET_COLUMNS,
        ["block"],
    )
    return Section(
        "target",
        (WORDS["target"]["text"],),
        figures=figures,
        views=(view,),
        csv=csv,
    )
