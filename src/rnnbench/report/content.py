"""Everything a report says, computed; templates only place it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rnnbench.records.record import Record
from rnnbench.report import lists, sheets
from rnnbench.report import numbers as n
from rnnbench.report.answer import Answer, answers
from rnnbench.report.figures import Figure, figures
from rnnbench.report.raw import RawRun, doubted, raw_runs
from rnnbench.report.sheet import Sheet
from rnnbench.tables.accuracy import accuracy
from rnnbench.tables.fastest import extra_ratios, fastest
from rnnbench.tables.frame import tidy
from rnnbench.tables.gaps import skipped as skipped_table
from rnnbench.tables.kernels import kernels
from rnnbench.tables.learning import learning
from rnnbench.tables.order import as_planned, order
from rnnbench.tables.provenance import provenance
from rnnbench.tables.ranked import ranked
from rnnbench.tables.runs import runs
from rnnbench.tables.time import ratios_shown, time

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Experiment:
    """What the report is of. `reference` (axis → choice) is what speed-ups are relative to."""

    name: str
    title: str
    about: str
    reference: Mapping[str, str]


@dataclass(frozen=True)
class Content:
    """The parts of a report, in the order of the page; a sheet without rows is left out.

    `csv` holds the tables as data, by file name."""

    experiment: Experiment
    summary: str
    answers: list[Answer]
    time: list[Sheet]
    accuracy: list[Sheet]
    kernels: list[Sheet]
    runs: list[Sheet]
    skipped: list[Sheet]
    provenance: list[Sheet]
    figures: list[Figure]
    missing: list[str]
    faults: list[str]
    raw: list[RawRun]
    doubted: list[RawRun]
    verdicts: str
    ratios: str
    order: str
    rerun: str
    csv: dict[str, pd.DataFrame]

    def figures_of(self, *kinds: str) -> list[Figure]:
        return [figure for figure in self.figures if figure.kind in kinds]

    @property
    def any_suspect(self) -> bool:
        return any(run.verdict == "suspect" for run in self.raw)

    @property
    def several_groups(self) -> bool:
        return len({figure.group for figure in self.figures_of("time")}) > 1

    @property
    def reference_words(self) -> str:
        return ", ".join(self.experiment.reference.values()) or "nothing"


def content(
    records: Sequence[Record],
    experiment: Experiment,
    skipped: Iterable[Mapping[str, str]] = (),
    missing: Iterable[str] = (),
    faults: Iterable[str] = (),
) -> Content:
    """All numbers, words and figures of the report of `records`."""
    frame, raw, reference = ranked(tidy(records)), raw_runs(records), experiment.reference
    speed, learnt, every = time(frame, reference), accuracy(frame), runs(frame)
    same, winners = learning(frame, reference), fastest(frame, speed, reference)
    places = order(frame)
    return Content(
        experiment=experiment,
        summary=_summary(every),
        answers=answers(winners, same, reference),
        time=_filled(sheets.time_sheet(speed), sheets.step_sheet(speed)),
        accuracy=_filled(sheets.accuracy_sheet(learnt), sheets.learning_sheet(same)),
        kernels=_filled(lists.kernels_sheet(kernels(frame))),
        runs=_filled(lists.runs_sheet(every)),
        skipped=_filled(lists.skipped_sheet(skipped_table(skipped))),
        provenance=_filled(lists.provenance_sheet(provenance(records))),
        figures=figures(frame, reference),
        missing=list(missing),
        faults=list(faults),
        raw=raw,
        doubted=doubted(raw),
        verdicts=_verdicts(every),
        ratios=_ratios(ratios_shown(speed) + extra_ratios(winners)),
        order=_order(places),
        rerun=f"snakemake --cores all --config experiment={experiment.name}",
        csv={"accuracy": learnt, "time": speed, "runs": every},
    )


def _filled(*candidates: Sheet) -> list[Sheet]:
    return [sheet for sheet in candidates if sheet.rows]


def _summary(every: pd.DataFrame) -> str:
    if every.empty:
        return "no runs"
    machines = ", ".join(dict.fromkeys(every["machine"]))
    when = n.moment(every["started"].iloc[-1])[:10]
    return f"{n.counted(len(every), 'run')} on {machines}, last on {when}"


def _verdicts(every: pd.DataFrame) -> str:
    count = every["verdict"].value_counts()
    clean, suspect, void = (int(count.get(name, 0)) for name in ("clean", "suspect", "void"))
    words = [f"{n.counted(len(every), 'run')}: {clean} clean"]
    words.append(f"{suspect} suspect (used, and marked {n.DAGGER} wherever they count)")
    words.append(f"{void} void (used in no number)")
    return ", ".join(words) + "."


def _ratios(count: int) -> str:
    if count == 0:
        return "No ratio with an interval is shown."
    by_chance = f"{0.05 * count:.2g}"
    return (
        f"Of the {n.counted(count, 'ratio')} looked at on this page, about {by_chance} would look "
        "different from 1 by chance if nothing differed: each has a 95 % interval of its own."
    )


def _order(places: pd.DataFrame) -> str:
    if places.empty:
        return ""
    blocks = n.counted(int(places["block"].nunique()), "block")
    kept = "in the planned order" if as_planned(places) else "not quite in the planned order"
    return (
        f"Runs were interleaved in {blocks}, each holding every cell once in a random order, and "
        f"measured {kept}. A drift of the machine would show as a slope."
    )
