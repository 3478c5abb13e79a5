"""The section on reliability: verdicts, caveats, the order of measurement, and a table of all
runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import pandas as pd
from msgspec.structs import asdict

from rnnbench.records.rounds import NotNeeded
from rnnbench.report import charts, notes
from rnnbench.report import numbers as n
from rnnbench.report.figures import Figure, figure
from rnnbench.report.labels import element_id, run_anchor
from rnnbench.report.provenance import MANY
from rnnbench.report.section import Item, ItemList, Section
from rnnbench.report.tables import Tables
from rnnbench.report.views import Column, TableView, view_of
from rnnbench.tables.runs import epochs, order, thinned_order, turns

NAMED = 3  # runs with one verdict
RUN_COLUMNS = (
    Column("verdict", "verdict", number=False),
    Column("epochs", "epochs"),
    Column("s per epoch", "median_epoch_seconds", n.plain),
    Column("first step, s", "first_step_seconds", n.plain),
    Column("import, s", "import_seconds", n.plain),
    Column("build, s", "build_seconds", n.plain),
    Column("evaluate, s", "evaluate_seconds", n.plain),
    Column("predict, s", "predict_seconds", n.plain),
    Column("peak, MiB", "peak_memory_bytes", n.mebibytes),
    Column("loss", "loss", n.plain),
    Column("train acc", "acc", n.share),
    Column("val acc", "val_acc", n.share),
    Column("started, UTC", "started", n.moment, number=False, quiet=True),
)
SKIPPED_COLUMNS = (Column("why it cannot exist", "why", number=False),)


def runs_section(
    m: Tables,
    rerun: str,
    missing: Sequence[str],
    faults: Sequence[str],
    unneeded: Mapping[str, NotNeeded],
) -> Section:
    """Verdicts, what must not be concluded, runs that count less or are missing, and all runs.

    `rerun`: the command that measures the experiment again. The other arguments are those of
    `Content`.
    """
    places = order(m.frame)
    paragraphs = [
        notes.verdict_text(m.runs),
        notes.ratio_note(m.ratios_shown),
        *notes.disturbance_notes(m.records),
        *notes.stopping_notes(unneeded),
        *notes.comparison_notes(m.time, m.accuracy),
        *notes.order_notes(places),
    ]

    skipped = [asdict(each) for each in m.experiment.skipped]
    named = [Item(names=(name,)) for name in missing]
    lists = [
        _not_clean(m),
        ItemList("Planned runs without a record", named, f"To measure them: `{rerun}`"),
        ItemList("Left out because they cannot be read", [Item(fault) for fault in faults]),
    ]
    views = (
        view_of(
            pd.DataFrame(skipped),
            "skipped",
            "Skipped configurations",
            "configuration",
            "name",
            SKIPPED_COLUMNS,
        ),
        _runs_view(m.runs),
    )

    figures = []
    if len(m.time):
        figures = list(_order_figures(places, m))
    csv = {
        "runs": m.runs,
        "epochs": epochs(m.frame, m.records),
        "turns": turns(m.records, m.frame),
    }
    return Section(
        "trust",
        paragraphs,
        lists=[each for each in lists if each.items],
        figures=figures,
        views=views,
        csv=csv,
    )


def _not_clean(m: Tables) -> ItemList:
    """The runs that are not clean, those with the same verdict and reasons together; void runs
    first, then by start time."""
    groups = defaultdict(list)
    for record in m.by_start:
        if record.verdict.status != "clean":
            groups[record.verdict].append(record)

    void_first = sorted(groups, key=lambda verdict: verdict.status != "void")
    items = []
    for verdict in void_first[:MANY]:
        group = groups[verdict]
        named = group[:NAMED]
        items.append(
            Item(
                text=group[0].why,
                names=[record.name for record in named],
                links=[run_anchor(record) for record in named],
                others=len(group) - len(named),
                verdict=verdict.status,
            )
        )

    more = sum(len(groups[verdict]) for verdict in void_first[MANY:])
    text = ""
    if more:
        text = f"{more} more are in `tables/runs.csv`."
    return ItemList("Suspect and void runs", items, text)


def _runs_view(table: pd.DataFrame) -> TableView:
    """All runs; if there are more than `MANY`, the first `MANY` of those that are not clean.

    `table`: of `runs`.
    """
    title = "All runs, in order of measurement"
    if len(table) > MANY:
        title = f"Suspect and void runs (all {len(table):,} runs are in tables/runs.csv)"
        table = table[table["verdict"] != "clean"].head(MANY)
    heads = []
    anchors = []
    for row in table.to_dict("records"):
        heads.append(n.marked(row["name"], row["verdict"] == "suspect"))
        anchors.append(element_id("run", row["name"], row["machine"]))
    named = table.assign(head=heads, head_anchor=anchors)
    return view_of(
        named,
        "runs",
        title,
        "run",
        "head",
        RUN_COLUMNS,
    )


def _order_figures(places: pd.DataFrame, m: Tables) -> Iterator[Figure]:
    """The epoch time of each run in the order of measurement, by machine.

    `places`: from `order`.
    """
    table = thinned_order(places)
    table = table.assign(series=table["implementation"].replace("", "model"))
    several = table["machine"].nunique() > 1
    for machine, rows in table.groupby("machine", sort=False):
        title = "Epoch time of each run relative to the mean of its configuration"
        if several:
            title += f", {machine}"
        chart = charts.in_order(rows, m.palette)
        yield figure(
            "order",
            "",
            machine,
            title,
            chart,
            wide=True,
        )
