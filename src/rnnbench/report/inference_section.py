"""The section on ``evaluate()`` and ``predict()``: latency, throughput and speed-ups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from rnnbench.axes import GROUP
from rnnbench.report import numbers as n
from rnnbench.report.answer import Answer, daggered, interval_text
from rnnbench.report.charts import latency_panel
from rnnbench.report.colours import of_these
from rnnbench.report.figure import Figure, figure
from rnnbench.report.labels import joined, short_group, with_labels
from rnnbench.report.section import Section
from rnnbench.report.table_view import Column, view_of
from rnnbench.report.table_views import marked, speedup_text, speedup_words
from rnnbench.report.variant_labels import variant_labels
from rnnbench.tables.time import COMPARED, IS_REFERENCE, NO_DIFFERENCE, NO_REFERENCE

WORDS = (
    "Seconds of one call with all of its samples: the median of a run's calls after the first. If "
    "a call has a single batch, its milliseconds per batch are the latency. The speed-ups are "
    "separate, because an implementation that trains fast may not predict fast."
)
COLUMNS = (
    Column("device", "column_name", number=False),
    Column("call", "call", number=False),
    Column("samples", lambda r: str(int(r["samples"]))),
    Column("batch", lambda r: str(int(r["batch"])) if n.is_number(r["batch"]) else n.NOTHING),
    Column("s", lambda r: marked(n.seconds(r["seconds"]), r)),
    Column("95 % CI", lambda r: n.span(r["low"], r["high"], r["seconds"]), quiet=True),
    Column("ms / batch", lambda r: n.plain(r["ms_per_batch"])),
    Column("samples / s", lambda r: n.plain(r["samples_per_second"])),
    Column("speed-up", lambda r: speedup_text({**r, "speedup_suspect": False})),
    Column("95 % CI", speedup_words, quiet=True),
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
    view = view_of(labelled, "calls-table", "Time per call", "implementation",
                   lambda row: row["implementation"] or "model", COLUMNS,
                   lambda row: row["group_name"] if several else "")  # fmt: skip
    drawn = tuple(_latencies(labelled, palette))
    return Section("calls", "evaluate() and predict()", (WORDS,), drawn, (view,))


def inference_answers(table: pd.DataFrame, base: str) -> list[Answer]:
    """The answer for a report that leads with the calls: for each network and device, the fastest
    implementation of predict() at each batch size. `table` as from `tables.calls`; `base`: the name
    of the reference. Configurations that compute another function take no part."""
    takes_part = table["words"].isin((*COMPARED, IS_REFERENCE, NO_REFERENCE))
    predictions = with_labels(table[(table["call"] == "predict") & takes_part])
    if predictions.empty:
        return [Answer("No run has timed predict() yet, so there is no answer.")]
    varied = [name for name in GROUP if predictions[name].nunique() > 1]
    variants = variant_labels(predictions["variant"])
    sentences = []
    for _, rows in predictions.groupby([*GROUP[:-1], "column_name"], sort=False):
        ordered = rows.sort_values(["batch", "samples", "seconds"], kind="stable")
        best = ordered.drop_duplicates("variant").to_dict("records")
        named = len({row["batch"] for row in best}) < len(best)
        clauses = [
            _fastest_call(row, base, f", {variants[row['variant']]}," if named else "")
            for row in best[:SIZES]
        ]
        more = f"; the table has {len(best) - SIZES} more" if len(best) > SIZES else ""
        network = short_group({**best[0], "variant": ""}, varied, {})
        sentences.append(
            f"On {best[0]['column_name']}, predict() of {network} takes {'; '.join(clauses)}{more}."
        )
    left = len(sentences) - SENTENCES
    rest = f"The table has {n.counted(left, 'more network')}." if left > 0 else ""
    return [Answer(text) for text in sentences[: SENTENCES - 1]] + [
        Answer(text, rest) for text in sentences[SENTENCES - 1 : SENTENCES]
    ]


def _fastest_call(row: Mapping[Any, Any], base: str, variant: str) -> str:
    what = f"for a batch of {row['batch']:.0f}"
    if row["samples"] > row["batch"]:
        what = f"for {row['samples']:.0f} samples in batches of {row['batch']:.0f}"
    name = daggered(row["implementation"] or row["model"], row["suspect"])
    compared = ""
    if row["words"] in COMPARED and n.is_number(row["speedup_low"]):
        span = interval_text(row, "speedup_low", "speedup_high", "speedup")
        if row["words"] == NO_DIFFERENCE:
            compared = f" ({NO_DIFFERENCE} from `{base}`: {n.ratio(row['speedup'])}, {span})"
        else:
            compared = f" ({n.ratio(row['speedup'])} as fast as `{base}`, {span})"
    return f"{n.plain(1e3 * row['seconds'])} ms {what}{variant} with {name}{compared}"


def _latencies(labelled: pd.DataFrame, palette: Mapping[str, str]) -> Iterator[Figure]:
    """Milliseconds of predict() by batch, if several batch sizes were measured."""
    predictions = labelled[(labelled["call"] == "predict") & labelled["batch"].notna()]
    by = [*GROUP[:-1], "column_name"]
    for number, ((*network, device), rows) in enumerate(predictions.groupby(by, sort=False)):
        if number < DRAWN and rows["batch"].nunique() > 1:
            drawn = rows.assign(implementation=rows["implementation"].replace("", "model"))
            title = f"Milliseconds of predict() by batch on {device}"
            group = joined(network)
            panel = latency_panel(drawn, of_these(palette, drawn["implementation"]))
            yield figure("calls", group, str(device), title, panel)
