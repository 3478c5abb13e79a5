"""The sections on accuracy, learning curves and the time to an accuracy, and what the answer says
about accuracy."""

from __future__ import annotations

import re

import pandas as pd

from rnnbench.axes import PLACE
from rnnbench.report import charts, notes
from rnnbench.report import numbers as n
from rnnbench.report.figures import figure
from rnnbench.report.labels import colours, device_words, first_places, with_labels
from rnnbench.report.numbers import Row
from rnnbench.report.section import WORDS, Section
from rnnbench.report.tables import Tables
from rnnbench.report.views import CellText, Column, by_device, interval_of, view_of
from rnnbench.sources.certificates import NOT_LEARNING
from rnnbench.tables.learning import MIN_SEEDS, TOO_FEW_SEEDS, curves, target
from rnnbench.tables.metrics import COLUMNS as METRICS_COLUMNS
from rnnbench.tables.outcome import CurvesBy, Outcome

ALL_OF = {1: "All runs", 2: "Both", 3: "All three", 4: "All four", 5: "All five", 6: "All six"}
TOLERANCE = 0.0005  # half a unit of the last digit shown of an accuracy; relative, of a loss
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
    """The validation accuracy, and whether the implementation does not learn what it computes.

    `row`: of the table of accuracy.
    """
    text = n.marked(n.share(row["val_acc"]), row["suspect"])
    return f"{text},\n{NOT_LEARNING}" if row["not_learning"] else text


def _difference_interval(row: Row) -> str:
    """The interval of a difference in accuracy, or why there is none.

    `row`: of the table of learning.
    """
    if row["is_reference"]:
        return Outcome.REFERENCE
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

    # A column that says the same in every row is a sentence.
    notes_of_means: tuple[str, ...] = ()
    if m.accuracy["seeds"].max() < 2:
        columns = tuple(column for column in columns if column.label != "SD")
        notes_of_means = ("One seed, so there is no standard deviation (SD).",)
    compared = m.learning[~m.learning["is_reference"].astype(bool)]
    if len(compared) and compared["seeds"].max() < MIN_SEEDS:
        differences = tuple(column for column in differences if column.label != "95 % CI")
        notes_below = (f"No confidence intervals: {TOO_FEW_SEEDS}.",)
    views = [
        by_device(
            "accuracy",
            title,
            m.regroup(m.accuracy),
            columns,
            notes_of_means,
        ),
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
        views.append(
            by_device(
                "metrics",
                "Metrics at the last epoch",
                table,
                columns_of_metrics,
            )
        )

    texts = [WORDS["learnt"]["text"]]
    random_layers = notes.random_note(m.records)
    if random_layers:
        texts.append(random_layers)
    return Section(
        "learnt",
        texts,
        views=views,
        opens=True,
        csv=csv,
    )


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
            figures.append(
                figure(
                    "curve",
                    group,
                    which,
                    f"{title} on {device}",
                    chart,
                )
            )
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
            figures.append(
                figure(
                    "second",
                    group,
                    device,
                    title,
                    chart,
                )
            )
        else:
            figures.append(
                figure(
                    "second",
                    "",
                    f"{group} {device}",
                    title,
                    chart,
                )
            )
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


def are_same(learning: pd.DataFrame) -> bool:
    """Whether runs of the same seed end at the same accuracy or, without one, have the same losses.

    `learning`: the rows of a group in the table of this name.
    """
    others = learning[~learning["is_reference"].astype(bool)]
    if others.empty:
        return False
    largest = others["val_acc_difference"].abs().max()
    if n.is_number(largest):
        return bool(largest < TOLERANCE)
    return bool(others["loss_apart"].max() < TOLERANCE)


def same_sentence(learning: pd.DataFrame) -> str:
    """Whether runs of the same seed reach the same accuracy, over all devices of one group.

    `learning`: the rows of the group in the table of this name.
    """
    others = learning[~learning["is_reference"].astype(bool)]
    if others.empty:
        return ""
    difference = difference_sentence(others)
    if difference:
        return difference

    curves = curves_sentences(others)
    largest = others["val_acc_difference"].abs().max()
    if not n.is_number(largest):
        loss = n.small(others["loss_apart"].max())
        runs = f"the losses of the runs differ by at most {loss} of the largest"
        if loss == "0":
            runs = "the losses of the runs are identical"
        return f"From the same seeds, {runs}. {curves}"
    if largest < TOLERANCE:
        configurations = learning[["implementation", *PLACE[2:], "variant"]].drop_duplicates()
        many = len(configurations)
        all_of_them = ALL_OF.get(many, f"All {many}")
        accuracy = n.share(learning["val_acc"].iloc[0])
        return (
            f"{all_of_them} end at validation accuracy {accuracy}: no difference in accuracy "
            f"shown. {curves}"
        )
    seeds = int(others["seeds"].min())
    gaps = f"they differ by at most {n.rough(largest)} in final validation accuracy"
    if seeds >= MIN_SEEDS:
        return f"From the same {seeds} seeds, {gaps}: no difference in accuracy shown."
    return (
        f"From {n.counted(seeds, 'seed')}, {gaps}; {TOO_FEW_SEEDS} cannot show whether this is "
        "more than chance."
    )


def curves_sentences(others: pd.DataFrame) -> str:
    """Whether loss curves agree by the certificates, and by what that is judged.

    `others`: as in `difference_sentence`.
    """
    texts = []
    for judged_by in (CurvesBy.TWIN, CurvesBy.TOLERANCE, CurvesBy.NOTHING):
        text = WORDS["same_curves"][judged_by]
        rows = others[others["curve_judged_by"] == judged_by]
        if rows.empty:
            continue
        if judged_by == CurvesBy.NOTHING:
            whose = "their"
            if len(rows) < len(others):
                names = rows["implementation"].drop_duplicates()
                whose = "the reference's and " + n.few([f"`{name}`'s" for name in names], 3, ", ")
            texts.append(text.format(whose=whose))
            continue
        excess = rows["curve_difference"] / rows["curve_allowed"]
        worst = rows.iloc[int(excess.argmax())]
        texts.append(
            text.format(
                verb="agree" if worst["curve_difference"] <= worst["curve_allowed"] else "differ",
                steps=worst["curve_steps"],
                difference=n.small(worst["curve_difference"]),
                allowed=n.small(worst["curve_allowed"]),
            )
        )
    return " ".join(texts)


def difference_sentence(others: pd.DataFrame) -> str:
    """The largest difference in accuracy, and the number of those that are shown; ``""`` for none.

    `others`: the rows of the table of `learning` that are compared with the reference.
    """
    different = others[others["shown_different"].astype(bool)]
    if different.empty:
        return ""
    differences = different["val_acc_difference"]
    worst = different.iloc[int(differences.abs().argmax())]
    difference = worst["val_acc_difference"]
    side = "below" if difference < 0 else "above"
    device = device_words(worst["device"], worst["variant"])
    interval = n.shares_apart_span(worst["val_acc_low"], worst["val_acc_high"])
    return (
        f"A difference in accuracy is shown: `{worst['implementation']}` ends "
        f"{n.share(abs(difference))} {side} the reference in validation accuracy on "
        f"{device} ({interval}); differences "
        f"are shown in {len(different)} of {len(others)} comparisons with the reference."
    )


def outlier_sentence(alike: pd.DataFrame) -> str:
    """The configurations whose accuracy differs from the others' by more than the seeds explain;
    ``""`` for none.

    `alike`: the table of this name.
    """
    outliers = alike[alike["apart"].astype(bool)]
    if outliers.empty:
        return ""
    excess = outliers["difference"].abs() / outliers["allowed"]
    worst = outliers.iloc[int(excess.argmax())]
    name = worst["implementation"] or worst["model"]
    if worst["build"]:
        name += f", {worst['build']}"
    device = device_words(worst["device"], worst["variant"])
    count = ""
    if len(outliers) > 1:
        count = f"; outliers: {len(outliers)} of {len(alike)} configurations"
    return (
        f"Accuracy differs by more than the seeds explain: `{name}` on {device} ends at "
        f"validation accuracy {n.share(worst['val_acc'])}; the other builds, thread counts and "
        f"implementations end at {n.share(worst['others'])} from the same seeds "
        f"(allowed: ± {n.rough(worst['allowed'])}){count}. Find the cause before comparing "
        "times: an implementation that learns something else is not comparable."
    )
