"""Everything a report says, computed; templates only place it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from rnnbench.records.labels import reference_words
from rnnbench.records.record import Record
from rnnbench.report import listing_views, table_views
from rnnbench.report import numbers as n
from rnnbench.report.answer import Answer, answers
from rnnbench.report.axis_sections import builds_section, target_section, threads_section
from rnnbench.report.colours import colours
from rnnbench.report.cost_section import cost_section, recommendations
from rnnbench.report.efficiency_section import efficiency_section
from rnnbench.report.equivalence_section import equal_section
from rnnbench.report.figure import Figure
from rnnbench.report.figures import PANELS, figures, places
from rnnbench.report.inference_section import calls_section
from rnnbench.report.inputs import ReportInputs
from rnnbench.report.labels import side_by_side
from rnnbench.report.learning_curves import curves_section
from rnnbench.report.published_section import beside_section
from rnnbench.report.raw_runs import MANY, RawCell, RawRun, doubted, raw_cells, raw_runs
from rnnbench.report.reliability import (
    caveats,
    order_words,
    ratio_words,
    stopping_words,
    verdict_words,
    warmup_words,
)
from rnnbench.report.section import Section
from rnnbench.report.summary_table import answer_view, headline, is_long
from rnnbench.report.svg import unchecked
from rnnbench.report.table_view import TableView
from rnnbench.tables.accuracy import accuracy
from rnnbench.tables.accuracy_outliers import alike
from rnnbench.tables.builds import builds
from rnnbench.tables.calls import calls
from rnnbench.tables.certificates import UNKNOWN
from rnnbench.tables.cost import cost
from rnnbench.tables.efficiency import efficiency
from rnnbench.tables.epochs import epochs
from rnnbench.tables.fastest import extra_ratios, fastest
from rnnbench.tables.frame import tidy
from rnnbench.tables.learning import learning
from rnnbench.tables.measuring_order import order
from rnnbench.tables.missing import skipped as skipped_table
from rnnbench.tables.optimizers import parted
from rnnbench.tables.provenance import provenance
from rnnbench.tables.reference_options import with_named_options
from rnnbench.tables.runs import runs
from rnnbench.tables.scaling import published_scaling, scaling
from rnnbench.tables.sort_order import ranked
from rnnbench.tables.target import curves_by_second, target
from rnnbench.tables.time import IN_TURNS, NOT_EQUAL, ratios_shown, time
from rnnbench.tables.unequal_ratio import run_speedups, unequal_runs
from rnnbench.tables.warmup import warmup

if TYPE_CHECKING:
    import pandas as pd


LEAD = 2  # figures that stand beside the answer


@dataclass(frozen=True)
class Experiment:
    """What the report is of. `reference` (axis → choice) is what speed-ups are relative to."""

    name: str
    title: str
    about: str
    reference: Mapping[str, str]


@dataclass(frozen=True)
class Content:
    """The parts of a report, in the order of the page; a view without rows is left out.

    `last`: start of the latest run. `answer_sheets`: in the place of too many answers, one by one.
    `cells` are where the numbers of the tables lead; `whole` says that their raw epochs stand on
    the page. `panels`: how many places (group and device) are drawn, 0 where all are.
    `speedups` and `unequal_runs`: record key → the speed-up, or the marked ratio, of
    its cell. `csv` holds the tables as data, by file name."""

    experiment: Experiment
    summary: str
    last: str
    answers: list[Answer]
    answer_sheets: list[TableView]
    advice: list[str]
    time: list[TableView]
    accuracy: list[TableView]
    sections: list[Section]
    runs: list[TableView]
    skipped: list[TableView]
    provenance: list[TableView]
    figures: list[Figure]
    panels: int
    missing: list[str]
    faults: list[str]
    cells: list[RawCell]
    whole: bool
    doubted: list[RawRun]
    doubted_more: int
    verdicts: str
    void: list[str]
    ratios: str
    warmup: str
    caveats: list[str]
    order: str
    rerun: str
    csv: dict[str, pd.DataFrame]
    unequal_runs: dict[str, str]
    speedups: dict[str, float]

    def figures_of(self, *kinds: str) -> list[Figure]:
        return [figure for figure in self.figures if figure.kind in kinds]

    @property
    def lead_figures(self) -> list[Figure]:
        """The one thing that the experiment asks, drawn: of its first group, on two devices."""
        drawn = self.figures_of("speedup") or self.figures_of("time")
        return [figure for figure in drawn if figure.group == drawn[0].group][:LEAD]

    @property
    def lead_views(self) -> list[TableView]:
        """The one table beside the answer."""
        return self.answer_sheets or self.time[:1]

    @property
    def time_figures(self) -> list[Figure]:
        """Of the section of time: those that do not lead the page."""
        return [one for one in self.figures_of("time", "speedup") if one not in self.lead_figures]

    @property
    def time_views(self) -> list[TableView]:
        return [view for view in self.time if view not in self.lead_views]

    @property
    def any_suspect(self) -> bool:
        return bool(self.csv["runs"]["verdict"].eq("suspect").any())

    @property
    def uncertified(self) -> list[str]:
        """Implementations whose speed-up is shown though no certificate covers it."""
        table = self.csv["time"]
        unknown = table[(table["equal"] == UNKNOWN) & table["speedup"].notna()]
        return list(dict.fromkeys(unknown["implementation"]))

    @property
    def unequal(self) -> list[str]:
        """Why a cell has no speed-up but a marked ratio: what its certificate found."""
        table = self.csv["time"]
        return list(dict.fromkeys(table.loc[table["words"] == NOT_EQUAL, "difference"]))

    @property
    def not_learning(self) -> list[str]:
        """What a certificate found of the steps that cells apply."""
        return list(dict.fromkeys(filter(None, self.csv["time"]["not_learning"])))

    @property
    def pooled(self) -> bool:
        return bool(self.csv["time"]["method"].str.contains("pooled").any())

    @property
    def in_turns(self) -> bool:
        """Whether speed-ups come from runs that trained in turns."""
        return bool(self.csv["time"]["method"].str.startswith(IN_TURNS).any())

    @property
    def all_figures(self) -> list[Figure]:
        return [*self.figures, *(figure for one in self.sections for figure in one.figures)]

    @property
    def several_groups(self) -> bool:
        return len({figure.group for figure in self.figures_of("time")}) > 1

    @property
    def reference_words(self) -> str:
        return _words(self.experiment.reference)


@unchecked
def content(
    records: Sequence[Record],
    experiment: Experiment,
    skipped: Iterable[Mapping[str, str]] = (),
    missing: Iterable[str] = (),
    faults: Iterable[str] = (),
    beside: ReportInputs = ReportInputs(),  # noqa: B008 (frozen)
    unneeded: Mapping[str, str] = MappingProxyType({}),
) -> Content:
    """All numbers, words and figures of the report of `records`. `unneeded`: planned runs that
    the experiment's ``repeats`` left out → why."""
    records = beside.certificates.marked(records)
    reference, every_function = experiment.reference, tidy(records)
    frame = ranked(with_named_options(every_function, reference))
    speed, learnt = time(frame, reference, beside.certificates), accuracy(frame)
    every, same, apart = runs(frame), learning(frame, reference), alike(every_function)
    apart = with_named_options(apart, reference)
    winners, money = fastest(frame, speed, reference), cost(frame, speed, beside.prices, reference)
    whole, long = len(records) <= MANY, is_long(winners, reference)
    compared, counts = builds(frame, reference, beside.certificates), scaling(frame)
    moved = side_by_side(speed, reference)
    beside_speed = moved(speed)
    arrival, drawn = target(frame), figures(frame, speed, moved)
    reached, called = efficiency(frame, beside.probes), calls(frame, speed, reference)
    unclean = doubted(raw_runs([r for r in records if r.verdict.status != "clean"], beside.mlflow))
    ink = colours(speed["implementation"])
    sections = [
        cost_section(money, beside, ink),
        calls_section(called),
        builds_section(compared, parted(records)),
        threads_section(counts, ink, published_scaling(frame, beside.published)),
        efficiency_section(reached, ink),
        equal_section(frame, beside.certificates),
        curves_section(drawn),
        target_section(arrival, curves_by_second(frame, "val_acc"), ink),
        beside_section(speed, beside.published),
    ]
    ratios = (
        ratios_shown(speed) + extra_ratios(winners) + int(money["relative_low"].notna().sum())
        + int(compared["change_low"].notna().sum()) + int(counts["speedup_low"].notna().sum())
        + ratios_shown(called)
    )  # fmt: skip
    return Content(
        experiment=experiment,
        summary=_summary(every),
        last="" if every.empty else str(every["started"].max()),
        answers=(
            [headline(winners, same, apart, reference)]
            if long
            else answers(winners, same, apart, reference)
        ),
        answer_sheets=[answer_view(winners, same, learnt, reference)] if long else [],
        advice=recommendations(money, beside),
        time=_filled(table_views.time_view(beside_speed), table_views.step_view(beside_speed)),
        accuracy=_filled(
            table_views.accuracy_view(moved(learnt)), table_views.learning_view(moved(same))
        ),
        sections=[section for section in sections if section],
        runs=_filled(listing_views.runs_view(every, MANY)),
        skipped=_filled(listing_views.skipped_view(skipped_table(skipped))),
        provenance=_filled(listing_views.provenance_view(provenance(records))),
        figures=[figure for figure in drawn if figure.kind != "curve"],
        panels=PANELS if places(beside_speed) > PANELS else 0,
        missing=list(missing),
        faults=list(faults),
        cells=raw_cells(records, beside.mlflow, whole, reference),
        whole=whole,
        doubted=unclean[:MANY],
        doubted_more=max(0, len(unclean) - MANY),
        verdicts=verdict_words(every),
        void=[void for void in dict.fromkeys(winners["void"]) if void],
        ratios=ratio_words(ratios),
        warmup=warmup_words(warmup(frame)),
        caveats=[*stopping_words(unneeded), *caveats(speed, learnt)],
        order=order_words(order(frame)),
        rerun=f"snakemake --cores all --config experiment={experiment.name}",
        csv={
            "accuracy": learnt, "alike": apart, "time": speed, "runs": every,
            "epochs": epochs(frame),
            "cost": money, "builds": compared, "threads": counts, "target": arrival,
            "efficiency": reached, "calls": called,
        },
        unequal_runs=unequal_runs(frame, speed, _words(reference)),
        speedups=run_speedups(frame, speed),
    )  # fmt: skip


def _words(reference: Mapping[str, str]) -> str:
    return reference_words(reference) or "nothing"


def _filled(*candidates: TableView) -> list[TableView]:
    return [view for view in candidates if view.rows]


def _summary(every: pd.DataFrame) -> str:
    if every.empty:
        return "no runs"
    machines = list(dict.fromkeys(every["machine"]))
    names = ", ".join(machines) if len(machines) < 4 else n.counted(len(machines), "machine")
    when = n.moment(every["started"].iloc[-1])[:10]
    return f"{n.counted(len(every), 'run')} on {names}, last on {when}"
