"""The section on ``evaluate()`` and ``predict()``: latency, throughput and speed-ups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rnnbench.report import numbers as n
from rnnbench.report.answer import Answer
from rnnbench.report.charts import latency_panel
from rnnbench.report.colours import of_these
from rnnbench.report.figure import Figure, figure
from rnnbench.report.labels import with_labels
from rnnbench.report.section import Section
from rnnbench.report.table_view import Column, Row, TableView, sorted_by_group
from rnnbench.report.table_views import marked, speedup_text, speedup_words
from rnnbench.tables.frame import GROUP
from rnnbench.tables.time import COMPARED, NO_DIFFERENCE

if TYPE_CHECKING:
    import pandas as pd

WORDS = (
    "Seconds of one call with all of its samples: the median of a run's calls after the first. If "
    "a call has a single batch, its milliseconds per batch are the latency. The speed-ups are "
    "separate, because an implementation that trains fast may not predict fast."
)
DRAWN = 4
SENTENCES = 4  # devices and models named in the answer
SIZES = 4  # batch sizes named in a sentence


def inference_section(table: pd.DataFrame, palette: Mapping[str, str]) -> Section:
    """`table` as from `tables.calls`."""
    if table.empty:
        return Section("calls", "evaluate() and predict()")
    labelled = with_labels(table)
    several = labelled["group_name"].nunique() > 1
    labelled = labelled.sort_values("call", kind="stable")
    rows = sorted_by_group(
        Row(
            row["shown"].removesuffix(f" {n.DAGGER}"),
            (
                row["column_name"],
                row["call"],
                str(int(row["samples"])),
                str(int(row["batch"])) if n.is_number(row["batch"]) else n.NOTHING,
                marked(n.seconds(row["seconds"]), row),
                n.span(row["low"], row["high"], row["seconds"]),
                n.plain(row["ms_per_batch"]),
                n.plain(row["samples_per_second"]),
                _speedup(row),
                speedup_words(row),
            ),
            row["group_name"] if several else "",
            ("", "", *[row["anchor"]] * 8),
        )
        for row in labelled.to_dict("records")
    )
    columns = (
        Column("device", number=False),
        Column("call", number=False),
        Column("samples"),
        Column("batch"),
        Column("s"),
        Column("95 % CI", quiet=True),
        Column("ms / batch"),
        Column("samples / s"),
        Column("speed-up"),
        Column("95 % CI", quiet=True),
    )
    view = TableView("calls-table", "Time per call", "implementation", columns, rows)
    drawn = tuple(_latencies(labelled, palette))
    return Section("calls", "evaluate() and predict()", (WORDS,), drawn, (view,))


def inference_answers(table: pd.DataFrame, base: str) -> list[Answer]:
    """The answer for a report that leads with the calls: for each device and model, the fastest
    implementation of predict() at each batch size. `table` as from `tables.calls`; `base`: the name
    of the reference."""
    predictions = table[table["call"] == "predict"]
    if predictions.empty:
        return [Answer("No run has timed predict() yet, so there is no answer.")]
    answers = []
    for (model, device), rows in predictions.groupby(["model", "device"], sort=False):
        ordered = rows.sort_values(["batch", "samples", "seconds"], kind="stable")
        best = ordered.drop_duplicates([*GROUP, "machine"]).to_dict("records")
        clauses = [_fastest_call(row, base) for row in best[:SIZES]]
        more = f"; the table has {len(best) - SIZES} more" if len(best) > SIZES else ""
        text = f"On {device}, predict() of {model} takes {'; '.join(clauses)}{more}."
        answers.append(Answer(text))
    return answers[:SENTENCES]


def _fastest_call(row: Mapping[Any, Any], base: str) -> str:
    what = f"for a batch of {row['batch']:.0f}"
    if row["samples"] > row["batch"]:
        what = f"for {row['samples']:.0f} samples in batches of {row['batch']:.0f}"
    name = f"`{row['implementation'] or row['model']}`"
    name = f"{name} {n.DAGGER}" if row["suspect"] else name
    compared = ""
    if row["words"] in COMPARED and n.is_number(row["speedup_low"]):
        span = f"95 % CI {n.ratio_span(row['speedup_low'], row['speedup_high'], row['speedup'])}"
        if row["words"] == NO_DIFFERENCE:
            compared = f" ({NO_DIFFERENCE} from `{base}`: {n.ratio(row['speedup'])}, {span})"
        else:
            compared = f" ({n.ratio(row['speedup'])} as fast as `{base}`, {span})"
    return f"{n.plain(1e3 * row['seconds'])} ms {what} with {name}{compared}"


def _latencies(labelled: pd.DataFrame, palette: Mapping[str, str]) -> Iterator[Figure]:
    """Milliseconds of predict() by batch, if several batch sizes were measured."""
    predictions = labelled[(labelled["call"] == "predict") & labelled["batch"].notna()]
    by = ["model", "cell", "build", "column_name"]
    for number, ((model, cell, build, device), rows) in enumerate(
        predictions.groupby(by, sort=False)
    ):
        if number < DRAWN and rows["batch"].nunique() > 1:
            drawn = rows.assign(implementation=rows["implementation"].replace("", "model"))
            title = f"Milliseconds of predict() by batch on {device}"
            group = " · ".join(str(part) for part in (model, cell, build) if part)
            panel = latency_panel(drawn, of_these(palette, drawn["implementation"]))
            yield figure("calls", group, str(device), title, panel)


def _speedup(row: Any) -> str:
    return speedup_text({**row, "speedup_suspect": False})
