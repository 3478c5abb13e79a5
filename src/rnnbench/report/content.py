"""The content of a report, computed from the records; the templates only lay it out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import pandas as pd

from rnnbench.records.overrides import reference_label
from rnnbench.records.plan_file import Experiment
from rnnbench.records.record import Record
from rnnbench.report import listing_views, notes, table_views
from rnnbench.report import numbers as n
from rnnbench.report.answer import Answer, answers
from rnnbench.report.axis_sections import builds_section, target_section, threads_section
from rnnbench.report.colours import colours
from rnnbench.report.cost_section import cost_section, recommendations, without_lead
from rnnbench.report.efficiency_section import efficiency_section
from rnnbench.report.equivalence_section import equivalence_section, kernels_view
from rnnbench.report.figure import Figure
from rnnbench.report.figures import PANELS, figures, places
from rnnbench.report.inference_section import inference_answers, inference_section
from rnnbench.report.inputs import ReportInputs
from rnnbench.report.labels import regrouping
from rnnbench.report.learning_curves import curves_section
from rnnbench.report.notes import Note
from rnnbench.report.published_section import published_results_section
from rnnbench.report.raw_runs import MANY, RawConfiguration, RawRun, not_clean, raw_configurations
from rnnbench.report.section import Section
from rnnbench.report.summary_table import answer_view, headline, is_long
from rnnbench.report.svg import unchecked
from rnnbench.report.table_view import TableView
from rnnbench.tables.accuracy import accuracy, find_accuracy_outliers
from rnnbench.tables.comparison import builds
from rnnbench.tables.cost import cost, energy
from rnnbench.tables.efficiency import efficiency, published_scaling, scaling
from rnnbench.tables.estimates import IN_TURNS
from rnnbench.tables.fastest import extra_ratios, fastest
from rnnbench.tables.frame import ranked, run_values, tidy
from rnnbench.tables.learning import curves, learning, target
from rnnbench.tables.reference import with_named_options
from rnnbench.tables.runs import epochs, kernels, order, provenance, runs, steadiness
from rnnbench.tables.time import calls, ratios_shown, run_speedups, time, unequal_runs

LEAD = 2  # figures next to the answer


@dataclass(frozen=True)
class Content:
    """The parts of a report, in the order of the page; views without rows are left out.

    `last`: start of the latest run. `answer_views`: replace the answers if there are too many.
    `answer_figures`: next to the answer, in place of figures of time.
    `cells`: the configurations, targets of the links in the tables; `whole`: whether their raw
    epochs are on the page. `panels`: how many places (group and device) are drawn, 0 for all.
    `speedups` and `unequal_runs`: record key → the speed-up, or the ratio marked ≠, of its
    configuration. `csv`: file name → table."""

    experiment: Experiment
    summary: str
    last: str
    answers: list[Answer]
    answer_views: list[TableView]
    answer_figures: list[Figure]
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
    configuration_details: list[RawConfiguration]
    whole: bool
    not_clean: list[RawRun]
    more_not_clean: int
    verdicts: str
    notes: list[Note]
    rerun: str
    csv: dict[str, pd.DataFrame]
    unequal_runs: dict[str, str]
    speedups: dict[str, float]

    def notes_of(self, section: str) -> list[Note]:
        return [note for note in self.notes if note.section == section]

    def figures_of(self, *kinds: str) -> list[Figure]:
        return [figure for figure in self.figures if figure.kind in kinds]

    @property
    def lead_figures(self) -> list[Figure]:
        """Next to the answer: `answer_figures`, else the first group's speed on `LEAD` devices."""
        if self.answer_figures:
            return self.answer_figures
        drawn = self.figures_of("speedup") or self.figures_of("time")
        return [figure for figure in drawn if figure.group == drawn[0].group][:LEAD]

    @property
    def lead_views(self) -> list[TableView]:
        """The table next to the answer."""
        return self.answer_views or self.time[:1]

    @property
    def time_figures(self) -> list[Figure]:
        """The figures of the section on time: those that are not next to the answer."""
        lead = self.lead_figures
        return [figure for figure in self.figures_of("time", "speedup") if figure not in lead]

    @property
    def time_views(self) -> list[TableView]:
        return [view for view in self.time if view not in self.lead_views]

    @property
    def any_suspect(self) -> bool:
        return bool(self.csv["runs"]["verdict"].eq("suspect").any())

    @property
    def pooled(self) -> bool:
        return bool(self.csv["time"]["method"].str.contains("pooled").any())

    @property
    def in_turns(self) -> bool:
        """Whether speed-ups come from runs that trained in turns."""
        return bool(self.csv["time"]["method"].str.startswith(IN_TURNS).any())

    @property
    def all_figures(self) -> list[Figure]:
        of_sections = (figure for section in self.sections for figure in section.figures)
        return [*self.answer_figures, *self.figures, *of_sections]

    @property
    def several_groups(self) -> bool:
        return len({figure.group for figure in self.figures_of("time")}) > 1

    @property
    def reference_words(self) -> str:
        return _reference_text(self.experiment.reference)


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
    """All numbers, text and figures of a report.

    **Arguments:**

    - `records`: all runs, including void ones.
    - `skipped`: ``{"name", "why"}`` of configurations that cannot exist.
    - `missing`: names of planned runs without a record.
    - `faults`: messages about what could not be read.
    - `beside`: certificates, prices, published rows, limits.
    - `unneeded`: planned runs that the experiment's ``repeats`` skipped → reason.
    """
    records = beside.certificates.mark_wrong_gradients(records)
    reference, every_function = experiment.reference, tidy(records)
    frame = ranked(with_named_options(every_function, reference))
    speed, accuracies = time(frame, reference, beside.certificates), accuracy(frame)
    outliers = with_named_options(find_accuracy_outliers(every_function), reference)
    winners, costs = fastest(frame, speed, reference), cost(frame, speed, beside.prices, reference)
    whole, long = len(records) <= MANY, is_long(winners, reference)
    # One sentence speaks about all comparisons of a long page.
    every, differences = runs(frame), learning(frame, reference, together=long)
    by_build, by_threads = builds(frame, reference, beside.certificates), scaling(frame)
    regroup = regrouping(speed, reference)
    regrouped = regroup(speed)
    to_target, drawn = target(frame), figures(frame, speed, regroup)
    efficiencies, inference = efficiency(frame, beside.probes), calls(frame, speed, reference)
    energies = energy(frame)
    unclean = not_clean(records, beside.mlflow)
    values, steady = run_values(frame), steadiness(frame)
    palette = colours(speed["implementation"])
    kernel_views = _filled(kernels_view(kernels(frame)))
    of_calls = inference_section(inference, palette)
    of_devices = cost_section(costs, beside, palette)
    lead_views: list[TableView] = []
    lead_figures: list[Figure] = []
    if experiment.lead == "kernels":
        lead_views = kernel_views
    elif experiment.lead == "calls":
        lead_views, lead_figures = list(of_calls.views), list(of_calls.figures)
    elif experiment.lead == "devices":
        of_devices, lead_views, lead_figures = without_lead(of_devices)
    lead = experiment.lead if lead_views else "time"
    sections = [
        of_devices,
        *([] if lead == "calls" else [of_calls]),
        builds_section(by_build, notes.optimizer_notes(records)),
        threads_section(by_threads, palette, published_scaling(frame, beside.published)),
        efficiency_section(efficiencies, energies),
        equivalence_section([] if lead == "kernels" else kernel_views, beside.certificates),
        curves_section(drawn),
        target_section(to_target, curves(frame, "val_acc"), palette),
        published_results_section(speed, beside.published),
    ]
    ratios = (
        ratios_shown(speed) + extra_ratios(winners) + ratios_shown(inference)
        + int(costs["relative_low"].notna().sum()) + int(by_build["change_low"].notna().sum())
        + int(by_threads["speedup_low"].notna().sum())
    )  # fmt: skip
    return Content(
        experiment=experiment,
        summary=_summary(every),
        last="" if every.empty else str(every["started"].max()),
        answers=(
            inference_answers(inference, _reference_text(reference))
            if lead == "calls"
            else [headline(winners, differences, outliers, reference)]
            if long
            else answers(winners, differences, outliers, reference)
        ),
        answer_views=lead_views
        or ([answer_view(winners, differences, accuracies, reference)] if long else []),
        answer_figures=lead_figures,
        time=_filled(table_views.time_view(regrouped), table_views.step_view(regrouped)),
        accuracy=_filled(
            table_views.accuracy_view(regroup(accuracies)),
            table_views.learning_view(regroup(differences)),
        ),
        sections=[section for section in sections if section],
        runs=_filled(listing_views.runs_view(every, MANY)),
        skipped=_filled(listing_views.skipped_view(skipped)),
        provenance=_filled(listing_views.provenance_view(provenance(records))),
        figures=[figure for figure in drawn if figure.kind != "curve"],
        panels=PANELS if places(regrouped) > PANELS else 0,
        missing=list(missing),
        faults=list(faults),
        configuration_details=raw_configurations(records, beside.mlflow, whole, reference),
        whole=whole,
        not_clean=unclean[:MANY],
        more_not_clean=max(0, len(unclean) - MANY),
        verdicts=notes.verdict_text(every),
        notes=[
            *(notes.session_notes(values) if ratios else ()),
            *recommendations(costs, beside),
            *notes.certificate_notes(speed),
            *notes.unsteady_notes(steady),
            *notes.void_notes(winners),
            notes.ratio_note(ratios),
            *notes.warmup_notes(steady),
            *notes.turn_notes(values),
            *notes.disturbance_notes(records),
            *notes.stopping_notes(unneeded),
            *notes.comparison_notes(speed, accuracies),
            *notes.order_notes(order(frame)),
        ],
        rerun=f"snakemake --cores all --config experiment={experiment.name}",
        csv={
            "accuracy": accuracies, "alike": outliers, "time": speed, "runs": every,
            "epochs": epochs(frame), "cost": costs, "builds": by_build, "threads": by_threads,
            "target": to_target, "efficiency": efficiencies, "energy": energies,
            "calls": inference,
        },
        unequal_runs=unequal_runs(frame, speed, _reference_text(reference)),
        speedups=run_speedups(frame, speed),
    )  # fmt: skip


def _reference_text(reference: Mapping[str, str]) -> str:
    return reference_label(reference) or "nothing"


def _filled(*candidates: TableView) -> list[TableView]:
    return [view for view in candidates if view.rows]


def _summary(every: pd.DataFrame) -> str:
    if every.empty:
        return "no runs"
    machines = list(dict.fromkeys(every["machine"]))
    names = ", ".join(machines) if len(machines) < 4 else n.counted(len(machines), "machine")
    when = n.moment(every["started"].iloc[-1])[:10]
    return f"{n.counted(len(every), 'run')} on {names}, last on {when}"
