"""``evaluate()`` and ``predict()``: the section, and the answer of a report that leads with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import pandas as pd

from rnnbench.axes import GROUP
from rnnbench.records.interval import Interval
from rnnbench.records.overrides import reference_label
from rnnbench.report import charts
from rnnbench.report import numbers as n
from rnnbench.report.answer import Answer
from rnnbench.report.figures import Figure, figure
from rnnbench.report.labels import (
    device_words,
    joined,
    short_group,
    variant_labels,
    with_labels,
)
from rnnbench.report.numbers import Row
from rnnbench.report.section import WORDS, Section
from rnnbench.report.sentences import as_fast
from rnnbench.report.speed import SPEEDUP_COLUMNS, has_speedups
from rnnbench.report.tables import Tables
from rnnbench.report.views import Column, interval_of, view_of
from rnnbench.tables.frame import varying
from rnnbench.tables.outcome import COMPARED, Outcome

FIGURES = 4
SENTENCES = 4  # networks and devices named in the answer
SIZES = 4  # batch sizes named in a sentence
CALL_COLUMNS = (
    Column("device", "column_name", number=False),
    Column("call", "call", number=False),
    Column("samples", "samples", n.whole),
    Column("batch", "batch", n.whole),
    Column("s", "seconds", n.plain, marked=True),
    Column("95 % CI", text=interval_of("seconds", low="low", high="high"), quiet=True),
    Column("ms / batch", "ms_per_batch", n.plain, marked=True),
    Column("samples / s", "samples_per_second", n.plain, marked=True),
)


def calls_section(m: Tables) -> Section:
    """Latency, throughput and speed-ups of ``evaluate()`` and ``predict()``."""
    csv = {"calls": m.calls}
    if m.calls.empty:
        return Section("calls", csv=csv)

    labelled = with_labels(m.calls).assign(speedup_suspect=False)
    labelled = labelled.sort_values("call", kind="stable")
    view = view_of(
        labelled,
        "calls-table",
        "Time per call",
        "implementation",
        "series",
        (*CALL_COLUMNS, *SPEEDUP_COLUMNS) if has_speedups(labelled) else CALL_COLUMNS,
        ["block"],
    )
    figures = list(_latencies(labelled, m))
    return Section(
        "calls",
        (WORDS["calls"]["text"],),
        figures=figures,
        views=(view,),
        leads=["calls-table", *(each.id for each in figures)],
        csv=csv,
    )


def _latencies(labelled: pd.DataFrame, m: Tables) -> Iterator[Figure]:
    """Milliseconds of predict() by batch, if several batch sizes of a network were measured.

    `labelled`: the table of calls with its labels. A figure has one network and one device.
    """
    is_prediction = labelled["call"] == "predict"
    predictions = labelled[is_prediction & labelled["batch"].notna()]
    # Other sizes do not make another network.
    variants = []
    for variant in predictions["variant"]:
        variants.append(variant.those(lambda key: key not in ("model.batch", "model.val_samples")))
    labels = variant_labels(variants)

    networks = predictions.assign(network=[labels[variant] for variant in variants])

    by = [*GROUP[:-1], "network", "column_name"]
    several = networks.groupby(by)["batch"].transform("nunique") > 1
    groups = networks[several].groupby(by, sort=False)
    for (*network, device), rows in islice(groups, FIGURES):
        chart = charts.by_batch(rows, m.palette)
        title = f"Milliseconds of predict() by batch on {device}"
        if len(labels) > 1:
            title += f", {network[-1]}"
        yield figure(
            "calls",
            joined(network),
            device,
            title,
            chart,
        )


def call_answers(m: Tables) -> list[Answer]:
    """For each network and device, the fastest implementation of predict() at each batch size:
    ``On one thread, predict() of digits_rnn takes 1.01 ms for a batch of 1 with `block`.``

    Configurations that compute another function take no part.
    """
    is_prediction = m.calls["call"] == "predict"
    takes_part = m.calls["words"].isin((*COMPARED, Outcome.REFERENCE, Outcome.NO_REFERENCE))
    predictions = with_labels(m.calls[is_prediction & takes_part])
    if predictions.empty:
        return [Answer("No run has timed predict() yet, so there is no answer.")]

    network_axes = GROUP[:-1]
    varied = varying(predictions, network_axes)
    variants = variant_labels(predictions["variant"])
    base = reference_label(m.reference) or "nothing"
    answers = []
    for _, rows in predictions.groupby([*network_axes, "column_name"], sort=False):
        ordered = rows.sort_values(["batch", "samples", "seconds"], kind="stable")
        best = ordered.drop_duplicates("variant")
        has_variants = best["batch"].duplicated().any()

        clauses = []
        for row in best.head(SIZES).to_dict("records"):
            variant = f", {variants[row['variant']]}," if has_variants else ""
            clauses.append(_fastest_call(row, base, variant))
        if len(best) > SIZES:
            clauses.append(f"the table has {len(best) - SIZES} more")

        first = best.iloc[0]
        place = first["column_name"]
        if place == first["device"]:
            place = device_words(place, first["variant"])
        network = short_group(first, varied, variants)

        first_clause, *others = clauses
        further = f"It takes {'; '.join(others)}." if others else ""
        sentence = f"On {place}, predict() of {network} takes {first_clause}."
        answers.append(Answer(sentence, further=further))

    shown = answers[:SENTENCES]
    if len(answers) > SENTENCES:
        more = n.counted(len(answers) - SENTENCES, "more network")
        shown[-1] = replace(shown[-1], accuracy_sentence=f"The table has {more}.")
    return shown


def _fastest_call(row: Row, base: str, variant: str) -> str:
    """``1.01 ms for a batch of 1 with `block`, 2.00 times as fast as `keras` (1.98 to 2.02)``.

    - `row`: of the table of calls.
    - `base`: the label of the reference.
    - `variant`: the overrides between commas, if they are to be named.
    """
    batch = f"{row['batch']:.0f}"
    what = f"for a batch of {batch}"
    if row["samples"] > row["batch"]:
        what = f"for {row['samples']:.0f} samples in batches of {batch}"
    milliseconds = n.plain(1e3 * row["seconds"])
    name = n.daggered(row["implementation"] or row["model"], row["suspect"])
    clause = f"{milliseconds} ms {what}{variant} with {name}"

    if row["words"] not in COMPARED or not n.is_number(row["speedup_low"]):
        return clause

    speedup = Interval(row["speedup"], row["speedup_low"], row["speedup_high"])
    if row["words"] == Outcome.NO_DIFFERENCE:
        times = n.times(speedup.estimate)
        span = n.ratio_interval(speedup, " to ")
        return f"{clause} ({Outcome.NO_DIFFERENCE} from `{base}`: {times}, {span})"
    faster = as_fast(speedup, f"`{base}`")
    return f"{clause}, {faster}"
