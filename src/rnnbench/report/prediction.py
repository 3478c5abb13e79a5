"""Runtimes that answer with finished models: the section, and the answer of a page about them."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from rnnbench.records.interval import Interval
from rnnbench.records.predictions import Results, Runtime
from rnnbench.report import charts
from rnnbench.report import numbers as n
from rnnbench.report.answer import Answer
from rnnbench.report.charts import Palette
from rnnbench.report.figures import Figure, figure
from rnnbench.report.labels import colours, joined
from rnnbench.report.numbers import Row
from rnnbench.report.section import WORDS, Section
from rnnbench.report.sentences import as_fast, no_difference
from rnnbench.report.tables import Tables
from rnnbench.report.views import CellText, Column, interval_of, view_of
from rnnbench.sources.prices import PriceList
from rnnserve import FULL_PRECISION

DRAWN = 9  # runtimes in a chart, as there are colours
SAID_EQUAL = "all that were timed computed the same function"
SAID_EQUAL_IN_FULL = f"all that were timed in {FULL_PRECISION} computed the same function"
OTHER_SIZES = "The table below has the other sizes of a batch."


def _milliseconds(name: str) -> CellText:
    def text_of(row: Row) -> str:
        return n.plain(1e3 * row[name]) if n.is_number(row[name]) else n.NOTHING

    return text_of


def _ratio_text(row: Row) -> str:
    return n.ratio(row["ratio"]) if n.is_number(row["ratio"]) else "reference"


SPEED_COLUMNS = (
    Column("mean", text=_milliseconds("seconds"), spanner="ms per call"),
    Column("median", text=_milliseconds("p50"), spanner="ms per call"),
    Column("95 %", text=_milliseconds("p95"), spanner="ms per call"),
    Column("99 %", text=_milliseconds("p99"), spanner="ms per call"),
    Column("CPU", text=_milliseconds("cpu_seconds"), spanner="ms per call"),
    Column("times as fast", text=_ratio_text),
    Column("95 % CI", text=interval_of("ratio", n.ratio_span)),
    Column("samples / s", "samples_per_second", n.plain),
    Column("µs / timestep", "us_per_step", n.plain),
)
COST_COLUMN = Column("USD / million", "usd_per_million", n.plain)
FACT_COLUMNS = (
    Column("equal", "equal", number=False),
    Column("largest difference", "difference", n.small),
    Column("load, s", "load_seconds", n.rough),
    Column("file, kB", "file_kilobytes", n.precise),
    Column("peak memory, MB", "peak_megabytes", n.plain),
    Column("remarks", "remarks", number=False),
)
PRECISION_COLUMN = Column("precision", "precision", number=False)


@dataclass(frozen=True)
class Prediction:
    """What runtimes answered, for a program.

    - `results`: the numbers, as fields: ``prediction.results.runtime("litert").batches``.
    - `page`: the path of the report, an HTML file.
    """

    results: Results
    page: Path

    def fastest(self, batch: int = 1) -> str | None:
        """The runtime that answers fastest with a size of `batch`; None if none was timed."""
        for each in self.results.fastest:
            if each.batch == batch:
                return each.runtime
        return None

    @property
    def code(self) -> str:
        """The lines that serve with the fastest runtime for the smallest batch."""
        return code_of(self.results)

    def __str__(self) -> str:
        texts = [str(answer) for answer in prediction_answers([self.results])]
        return "\n".join([*texts, f"The page: {self.page}"])

    def __repr__(self) -> str:
        return str(self)


def prediction_section(m: Tables) -> Section:
    """What runtimes answered, if the experiment is one of predictions."""
    if not m.inputs.predictions:
        return Section("prediction")
    return section_of(m.inputs.predictions, m.inputs.prices)


def section_of(predictions: Sequence[Results], prices: PriceList | None) -> Section:
    """Latency, throughput and cost of runtimes, and whether they compute the same function."""
    labels = labels_of(predictions)
    speed = pd.DataFrame(speed_rows(predictions, labels, prices))
    facts = pd.DataFrame(fact_rows(predictions, labels))
    of_facts: tuple[Column, ...] = FACT_COLUMNS
    leads = ["prediction-speed"]
    are_lower = any(each.is_lower for each in runtimes_of(predictions))
    if are_lower:
        equal, difference, *others = FACT_COLUMNS
        names = {each.validation.name for each in predictions if each.validation}
        name = names.pop() if len(names) == 1 else "validation"
        validation = Column(name, "validation", number=False)
        of_facts = (PRECISION_COLUMN, equal, difference, validation, *others)
        leads.append("prediction-equal")
    columns: tuple[Column, ...] = SPEED_COLUMNS
    if len(speed) and speed["usd_per_million"].notna().any():
        columns = (*SPEED_COLUMNS, COST_COLUMN)
    views = (
        view_of(speed, "prediction-speed", "Time of a call", "runtime", "runtime", columns, BLOCK),
        view_of(
            facts,
            "prediction-equal",
            "What computes the same function",
            "runtime",
            "runtime",
            of_facts,
            ["model"],
        ),
    )
    paragraphs = [WORDS["prediction"]["text"]]
    for text in {each.reference: None for each in predictions}:
        paragraphs.append(WORDS["prediction"]["reference"].format(text))
    if are_lower:
        paragraphs.append(WORDS["prediction"]["lower"])
        paragraphs += validation_texts(predictions)
    figures = list(_charts(speed))
    return Section(
        "prediction",
        paragraphs,
        code=code_of(predictions[0]),
        figures=figures,
        views=views,
        leads=[*leads, *(each.id for each in figures[:4])],
        csv={"prediction": speed},
    )


BLOCK = ["model", "asked"]


def runtimes_of(predictions: Sequence[Results]) -> Iterator[Runtime]:
    """The runtimes of all predictions."""
    for each in predictions:
        yield from each.runtimes


def validation_texts(predictions: Sequence[Results]) -> list[str]:
    """What the column ``validation`` has, or why it is empty."""
    words = WORDS["prediction"]
    found = []
    for each in predictions:
        if each.validation is None:
            found.append(words["no_validation"])
        else:
            count = n.counted(each.validation.samples, "validation sample")
            name = n.capitalized(each.validation.name)
            found.append(words["validation"].format(name, count))
    return list(dict.fromkeys(found))


def labels_of(predictions: Sequence[Results]) -> Mapping[str, str]:
    """The name of each prediction → model, cell, and what else differs between predictions with the
    same model."""
    stated: dict[str, dict[str, Any]] = {}
    for each in predictions:
        stated[each.name] = {**each.overrides, **each.choices}
    labels = {}
    for each in predictions:
        model = each.choices.get("model")
        same = [stated[other.name] for other in predictions if other.choices.get("model") == model]
        parts = [model or each.name, each.choices.get("cell")]
        for key, value in stated[each.name].items():
            is_shared = all(other.get(key) == value for other in same)
            if key not in ("model", "cell") and not is_shared:
                parts.append(f"{key.rpartition('.')[2]}={value}")
        labels[each.name] = joined(parts)
    return labels


def speed_rows(
    predictions: Sequence[Results],
    labels: Mapping[str, str],
    prices: PriceList | None,
) -> Iterator[Row]:
    """A row for each prediction, size of batch and runtime that was timed."""
    for each in predictions:
        price = prices.price_of(each.choices.get("device", "")) if prices else None
        sizes = {batch.batch for runtime in each.runtimes for batch in runtime.batches}
        for size in sorted(sizes):
            for runtime in each.runtimes:
                batch = runtime.batch_of(size)
                if batch is None:
                    continue
                usd = None
                if price:
                    seconds_per_million = 1e6 * batch.seconds.estimate / batch.batch
                    usd = price.usd_per_hour * seconds_per_million / 3600
                ratio = batch.ratio or Interval(math.nan, None, None)
                yield {
                    "model": labels[each.name],
                    "asked": samples(batch.batch),
                    "runtime": runtime.name,
                    "batch": batch.batch,
                    **batch.seconds.columns("seconds", "low", "high"),
                    "p50": batch.p50,
                    "p95": batch.p95,
                    "p99": batch.p99,
                    "cpu_seconds": batch.cpu_seconds,
                    **ratio.columns("ratio"),
                    "samples_per_second": batch.samples_per_second,
                    "us_per_step": batch.us_per_step,
                    "usd_per_million": usd,
                    "machine": each.machine,
                }


def fact_rows(predictions: Sequence[Results], labels: Mapping[str, str]) -> Iterator[Row]:
    """A row for each prediction and runtime, also of what was not timed."""
    for each in predictions:
        for runtime in each.runtimes:
            size = runtime.file_bytes
            peak = runtime.peak_bytes
            equal = runtime.why_not_timed or "yes"
            validation = runtime.validation
            if runtime.is_lower:
                equal = runtime.why_not_timed or f"up to {runtime.precision}"
            elif not runtime.why_not_timed and each.validation:
                validation = each.validation.value  # an equal one is as good as the model
            yield {
                "model": labels[each.name],
                "runtime": runtime.name,
                "precision": runtime.precision,
                "equal": equal,
                "difference": runtime.difference,
                "validation": n.precise(validation),
                "load_seconds": runtime.load_seconds,
                "file_kilobytes": None if size is None else size / 1e3,
                "peak_megabytes": None if peak is None else peak / 1e6,
                "remarks": "; ".join(runtime.notes) or n.NOTHING,
            }


def _charts(speed: pd.DataFrame) -> Iterator[Figure]:
    """For each model, latency and throughput by size of batch."""
    if speed.empty:
        return
    for model, rows in speed.groupby("model", sort=False):
        of_fastest = rows.groupby("runtime")["seconds"].min().nsmallest(DRAWN)
        drawn = rows[rows["runtime"].isin(of_fastest.index)].assign(series=rows["runtime"])
        palette: Palette = colours(drawn["series"])
        tail = drawn["p99"].fillna(drawn["p95"]).fillna(drawn["p50"])
        latency = drawn.assign(seconds=drawn["p50"], low=drawn["p50"], high=tail)
        chart = charts.by_batch(latency, palette)
        about = str(model)
        count = rows["runtime"].nunique()
        if count > DRAWN:
            about = f"{model} ({DRAWN} fastest of {count})"
        # On a phone, a line has room for so many characters.
        about = "\n".join(textwrap.wrap(about, 40))
        title = f"ms per call, p50 to p99:\n{about}"
        yield figure("prediction", model, "latency", title, chart)
        title = f"Samples per second:\n{about}"
        chart = charts.throughput(drawn, palette)
        yield figure("prediction", model, "throughput", title, chart)


def samples(batch: int) -> str:
    return "one sample" if batch == 1 else f"{batch} samples"


def prediction_answers(predictions: Sequence[Results]) -> list[Answer]:
    """For each model: ``For one sample, `litert` answers in 0.75 ms, 8.9 times as fast as
    `framework` (8.4 to 10.7)``. Of several models, the other sizes of a batch are in the table
    only, and that all computed the same function is said once."""
    labels = labels_of(predictions)
    are_several = len(predictions) > 1
    found = []
    for each in predictions:
        of = f" of {labels[each.name]}" if are_several else ""
        clauses = answer_clauses(each, of)
        if not clauses:
            found.append(Answer(f"No runtime gave the right answers{of}, so nothing was timed."))
            continue
        first, *others = clauses
        further = " ".join(f"For {clause}." for clause in others)
        if are_several:
            further = ""
        if not are_several or any(runtime.unequal for runtime in each.runtimes):
            first = f"{first}; {equality_clause(each)}"
        further = " ".join([*lower_sentences(each), further]).strip()
        found.append(Answer(f"For {first}.", further=further))
    if are_several and any(each.fastest for each in predictions):
        once = f"{n.sentences([said_equal(predictions)])} {OTHER_SIZES}"
        once = f"{found[-1].further} {once}".strip()
        found[-1] = replace(found[-1], further=once)
    return found


def answer_clauses(results: Results, of: str = "") -> list[str]:
    """``one sample, `litert` answers in 0.75 ms, …`` for each size of batch. `of`: the model, named
    in the first one."""
    clauses: list[str] = []
    for fastest in results.fastest:
        runtime = results.runtime(fastest.runtime)
        batch = runtime.batch_of(fastest.batch)
        assert batch is not None
        model = "" if clauses else of
        text = f"{samples(fastest.batch)}{model}, `{runtime.name}` answers in "
        text += f"{n.plain(1e3 * batch.seconds.estimate)} ms"
        if batch.ratio is not None:
            text += f", {as_fast(batch.ratio, f'`{results.compared_with}`')}"
        if fastest.also:
            names = ", ".join(f"`{name}`" for name in fastest.also)
            text += f", and {names} may be as fast"
        clauses.append(text)
    return clauses


def lower_sentences(results: Results) -> list[str]:
    """``At lower precision, `litert_int8` is the fastest for one sample: …``, of the smallest
    batch; none without such a runtime."""
    for fastest in results.fastest:
        if fastest.lower is None:
            continue
        runtime = results.runtime(fastest.lower.runtime)
        batch = runtime.batch_of(fastest.batch)
        assert batch is not None
        gain = fastest.lower.ratio
        text = f"At lower precision, `{runtime.name}` is the fastest for {samples(fastest.batch)}: "
        text += f"{n.plain(1e3 * batch.seconds.estimate)} ms"
        if gain.estimate > 1.0 and gain.excludes(1.0):
            text += f", {as_fast(gain, f'`{fastest.runtime}`')}. "
        else:
            text += f". {no_difference('It', f'`{fastest.runtime}`', gain)}. "
        text += f"Its largest difference is {n.small(runtime.difference)}"
        model = results.validation
        if runtime.validation is not None and model is not None:
            text += f", its {model.name} for {n.counted(model.samples, 'sample')} "
            text += f"{n.precise(runtime.validation)} in place of {n.precise(model.value)}"
        return [f"{text}."]
    return []


def said_equal(predictions: Sequence[Results]) -> str:
    """What the runtimes have in common; those of lower precision have nothing in common."""
    if any(each.is_lower for each in runtimes_of(predictions)):
        return SAID_EQUAL_IN_FULL
    return SAID_EQUAL


def equality_clause(results: Results) -> str:
    """``all that were timed computed the same function``, and what does not."""
    unequal = [f"`{each.name}`" for each in results.runtimes if each.unequal]
    same = said_equal([results])
    if not unequal:
        return same
    does = "does" if len(unequal) == 1 else "do"
    return f"{same}, and {', '.join(unequal)} {does} not"


def code_of(results: Results) -> str:
    """The lines that serve with the fastest runtime for the smallest batch; ``""`` without one."""
    if not results.fastest:
        return ""
    first = results.runtime(results.fastest[0].runtime)
    return f"# {first.name}\n{first.code or ''}".rstrip()


def prediction_conditions(predictions: Sequence[Results]) -> dict[str, str]:
    """Machines, packages and threads, in a line each."""
    versions: dict[str, str] = {}
    for each in predictions:
        for runtime in each.runtimes:
            versions |= runtime.versions
    threads = {n.counted(each.threads, "thread"): None for each in predictions}
    rounds = {f"{each.rounds} rounds of {each.cycles} turns": None for each in predictions}
    found = {
        "Machine": ", ".join({each.machine: None for each in predictions}),
        "Software": ", ".join(f"{name} {version}" for name, version in sorted(versions.items())),
        "Devices": ", ".join(threads),
        "Measured": ", ".join(rounds),
    }
    if code_of(predictions[0]):
        heading = WORDS["prediction"]["title"]
        found["Use it"] = f"the lines of Python are below, under {heading}"
    return found
