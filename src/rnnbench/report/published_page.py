"""The page of published comparisons: their tables and charts, recomputed, with caveats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
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
from rnnbench.report.table_view import Column, view_of
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


CAVEAT = Column("caveat", "caveat", number=False, quiet=True)
SECONDS = Column("s", lambda r: n.plain(r["train_seconds"], 4))
CUDNN_COLUMNS = (
    Column("device", "device", number=False),
    replace(SECONDS, label="seconds, 3 epochs"),
    Column("(train, validation) accuracy",
           lambda r: f"({n.plain(r['acc'], 4)}, {n.plain(r['val_acc'], 4)})"),
    Column("(train, validation) loss", lambda r: f"({r['loss']:.4f}, {r['val_loss']:.4f})"),
    Column("speed-up", lambda r: n.ratio(r["speedup"])),
    CAVEAT,
)  # fmt: skip
STEP_COLUMNS = (
    Column("layer", "implementation", number=False),
    SECONDS,
    Column("µs / sample", lambda r: n.plain(r["us_per_sample"], 4)),
    Column("loss", lambda r: n.plain(r["loss"], 4)),
    Column("acc", lambda r: n.plain(r["acc"], 4)),
    Column("val loss", lambda r: n.plain(r["val_loss"], 4)),
    Column("val acc", lambda r: n.plain(r["val_acc"], 4)),
    Column("same device's LSTM", lambda r: n.ratio(r["speedup_generic"]), "speed-up over"),
    Column("CPU", lambda r: n.ratio(r["speedup_cpu"]), "speed-up over"),
    CAVEAT,
)
USER_COLUMNS = (
    Column("s", lambda r: ("below " if r["below"] else "") + n.plain(r["train_seconds"], 4)),
    Column("speed-up", lambda r: ("over " if r["below"] else "") + n.ratio(r["speedup"])),
    CAVEAT,
)
CPU_GPU_COLUMNS = (
    SECONDS,
    Column("relative time", lambda r: n.ratio(r["relative"])),
    Column("USD / h", lambda r: n.plain(r["price_usd_per_hour"], 4)),
    Column("USD", lambda r: n.plain(r["usd"])),
    Column("relative cost", lambda r: n.ratio(r["relative_usd"])),
    Column("val acc", lambda r: n.share(r["val_acc"])),
)


def _cudnn(table: pd.DataFrame) -> Section:
    words = (
        "An LSTM on MNIST: CuDNNLSTM versus LSTM, on a K80 and a P100. The two layers are not "
        "the same function (their activations differ), so the speed-up compares two different "
        "networks. The seconds are those of one fit of 3 epochs with batches of 32, including "
        "three validations and the start of training; losses and accuracies are those of the "
        "third epoch.",
    )
    view = view_of(table, "k80-p100", "K80 and P100", "layer", "implementation", CUDNN_COLUMNS)
    return Section("cudnn", "LSTM versus CuDNNLSTM", words, (), (view,), "words")


def _steps(table: pd.DataFrame, second_answer: pd.DataFrame) -> Section:
    words = (
        "One epoch over 612,235 samples on five machines, one run each. Another answer to the same "
        "question gives two times without hardware or model, one of them as a bound.",
    )
    views = (
        view_of(table, "steps", "612,235 samples", "machine", "device", STEP_COLUMNS),
        view_of(second_answer, "told", "Another answer", "layer", "implementation", USER_COLUMNS),
    )
    filled = tuple(view for view in views if view.rows)
    return Section("samples", "The 612,235-sample benchmark", words, (), filled, "words")


def _cpu_gpu(source: str, table: pd.DataFrame, number: int) -> Section:
    caveats = "; ".join(dict.fromkeys(table["caveat"]))
    words = (
        "Training time and cost relative to the K80 with TensorFlow (dashed line at 1), from "
        f"`{source}`. Caveat: {caveats}.",
    )
    view = view_of(table, f"cpu-gpu-{number}", TITLES[source], "device", _label, CPU_GPU_COLUMNS,
                   "workload")  # fmt: skip
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
