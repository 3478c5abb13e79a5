"""The section on ``evaluate()`` and ``predict()``: latency, throughput and speed-ups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rnnbench.report import numbers as n
from rnnbench.report.labels import with_labels
from rnnbench.report.section import Section
from rnnbench.report.table_view import Column, Row, TableView, sorted_by_group
from rnnbench.report.table_views import marked, speedup_text, speedup_words

if TYPE_CHECKING:
    import pandas as pd

WORDS = (
    "Seconds of one call with all of its samples: the median of a run's calls after the first. If "
    "a call has a single batch, its milliseconds per batch are the latency. The speed-ups are "
    "separate, because an implementation that trains fast may not predict fast."
)


def inference_section(table: pd.DataFrame) -> Section:
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
    return Section("calls", "evaluate() and predict()", (WORDS,), (), (view,))


def _speedup(row: Any) -> str:
    return speedup_text({**row, "speedup_suspect": False})
