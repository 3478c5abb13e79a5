"""The page of published comparisons: their tables and charts, recomputed, with caveats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd

from rnnbench.report import numbers as n
from rnnbench.report.claims_section import claims_section
from rnnbench.report.colours import colours
from rnnbench.report.figure import Figure, figure
from rnnbench.report.page import environment, write_texts
from rnnbench.report.relative_charts import relative_panel
from rnnbench.report.section import Section
from rnnbench.report.table_view import Column, Row, TableView
from rnnbench.sources.claims import Claim
from rnnbench.sources.published import PublishedRow
from rnnbench.tables.articles import (
    CPU_GPU,
    cudnn_speedups,
    published_frame,
    relative_to_k80,
    step_table,
    user_table,
)
from rnnbench.tables.claims import claims_table

TITLES = {CPU_GPU[0]: "CPU versus GPU, 2017", CPU_GPU[1]: "CPU versus GPU, version 2, 2017"}


def write_published(
    rows: Sequence[PublishedRow],
    out: Path,
    claims: Sequence[Claim] = (),
    ours: Mapping[str, pd.DataFrame] = MappingProxyType({}),
) -> list[Path]:
    """Writes ``published.html`` into `out`. Returns a list with its path. `claims`: quoted claims
    about the rows; `ours`: claim → what was measured here (`measured_claims`)."""
    sections = published_sections(rows)
    if claims:
        sections = [claims_section(claims_table(claims, rows), ours), *sections]
    page = environment(html=True).get_template("published.html.j2")
    text = page.render(
        sections=sections,
        count=n.counted(len(rows), "published row"),
        title="Published comparisons",
        description="Quoted comparisons of cuDNN, GPUs and CPUs, from their sources' own numbers.",
    )
    return write_texts({"published.html": text}, out, clean=False)


def published_sections(rows: Sequence[PublishedRow]) -> list[Section]:
    """The three comparisons, each from its own rows; comparisons without rows are left out."""
    table = published_frame(rows)
    relative = relative_to_k80(table)
    sections = [_cudnn(cudnn_speedups(table)), _steps(step_table(table), user_table(table))]
    sections += [
        _cpu_gpu(source, relative[relative["source"] == source], number)
        for number, source in enumerate(CPU_GPU)
    ]
    return [section for section in sections if section]


def _cudnn(table: pd.DataFrame) -> Section:
    rows = tuple(
        Row(
            row["implementation"],
            (
                row["device"],
                n.plain(row["train_seconds"], 4),
                f"({n.plain(row['acc'], 4)}, {n.plain(row['val_acc'], 4)})",
                f"({row['loss']:.4f}, {row['val_loss']:.4f})",
                n.ratio(row["speedup"]),
                row["caveat"],
            ),
        )
        for row in table.to_dict("records")
    )
    columns = (
        Column("device", number=False),
        Column("seconds, 3 epochs"),
        Column("(train, validation) accuracy"),
        Column("(train, validation) loss"),
        Column("speed-up"),
        Column("caveat", number=False, quiet=True),
    )
    words = (
        "An LSTM on MNIST: CuDNNLSTM versus LSTM, on a K80 and a P100. The two layers are not "
        "the same function (their activations differ), so the speed-up compares two different "
        "networks. The seconds are those of one fit of 3 epochs with batches of 32, including "
        "three validations and the start of training; losses and accuracies are those of the "
        "third epoch.",
    )
    view = TableView("k80-p100", "K80 and P100", "layer", columns, rows)
    return Section("cudnn", "LSTM versus CuDNNLSTM", words, (), (view,), "words")


def _steps(table: pd.DataFrame, second_answer: pd.DataFrame) -> Section:
    rows = tuple(
        Row(
            row["device"],
            (
                row["implementation"],
                n.plain(row["train_seconds"], 4),
                n.plain(row["us_per_sample"], 4),
                *(n.plain(row[name], 4) for name in ("loss", "acc", "val_loss", "val_acc")),
                n.ratio(row["speedup_generic"]),
                n.ratio(row["speedup_cpu"]),
                row["caveat"],
            ),
        )
        for row in table.to_dict("records")
    )
    columns = (
        Column("layer", number=False),
        *(Column(label) for label in ("s", "µs / sample", "loss", "acc", "val loss", "val acc")),
        Column("same device's LSTM", "speed-up over"),
        Column("CPU", "speed-up over"),
        Column("caveat", number=False, quiet=True),
    )
    words = (
        "One epoch over 612,235 samples on five machines, one run each. Another answer to the same "
        "question gives two times without hardware or model, one of them as a bound.",
    )
    views = (
        TableView("steps", "612,235 samples", "machine", columns, rows),
        _second_answer(second_answer),
    )
    filled = tuple(view for view in views if view.rows)
    return Section("samples", "The 612,235-sample benchmark", words, (), filled, "words")


def _second_answer(table: pd.DataFrame) -> TableView:
    rows = tuple(
        Row(
            row["implementation"],
            (
                f"{'below ' if row['below'] else ''}{n.plain(row['train_seconds'], 4)}",
                f"{'over ' if row['below'] else ''}{n.ratio(row['speedup'])}",
                row["caveat"],
            ),
        )
        for row in table.to_dict("records")
    )
    columns = (Column("s"), Column("speed-up"), Column("caveat", number=False, quiet=True))
    return TableView("told", "Another answer", "layer", columns, rows)


def _cpu_gpu(source: str, table: pd.DataFrame, number: int) -> Section:
    rows = tuple(
        Row(
            _label(row),
            (
                n.plain(row["train_seconds"], 4),
                n.ratio(row["relative"]),
                n.plain(row["price_usd_per_hour"], 4),
                n.plain(row["usd"]),
                n.ratio(row["relative_usd"]),
                n.share(row["val_acc"]),
            ),
            str(row["workload"]),
        )
        for row in table.to_dict("records")
    )
    columns = (
        Column("s"),
        Column("relative time"),
        Column("USD / h"),
        Column("USD"),
        Column("relative cost"),
        Column("val acc"),
    )
    caveats = "; ".join(dict.fromkeys(table["caveat"]))
    words = (
        "Training time and cost relative to the K80 with TensorFlow (dashed line at 1), from "
        f"`{source}`. Caveat: {caveats}.",
    )
    view = TableView(f"cpu-gpu-{number}", TITLES[source], "device", columns, rows)
    return Section(f"cpu-gpu-{number}-section", TITLES[source], words,
                   tuple(_charts(table, number)), (view,))  # fmt: skip


def _charts(table: pd.DataFrame, number: int) -> Iterator[Figure]:
    table = table.assign(
        label=[_label(row) for row in table.to_dict("records")],
        series=table["framework"].str.partition(" ")[0] + ", " + table["build"],
        low=None,
        high=None,
    )
    palette = colours(table["series"])
    for workload, rows in table.groupby("workload", sort=False):
        for kind, measure in (("time", "relative"), ("cost", "relative_usd")):
            drawn = rows.assign(value=rows[measure], text=rows[measure].map(n.ratio))
            title = f"Relative {kind}, {workload}"
            chart = relative_panel(drawn, palette, f"{kind} relative to the K80")
            yield figure(f"published-{kind}", "", f"{number}-{workload}", title, chart)


def _label(row: dict[Any, Any]) -> str:
    """``8 vCPUs, compiled``; ``Tesla P100, CNTK``."""
    vcpus = row["vcpus"]
    name = f"{int(vcpus)} vCPUs" if n.is_number(vcpus) and vcpus else str(row["device"])
    if str(row["framework"]).startswith("CNTK"):
        return f"{name}, CNTK"
    return f"{name}, {row['build'].partition(' ')[0]}" if n.is_number(vcpus) and vcpus else name
