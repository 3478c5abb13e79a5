"""The content of a report, computed from the records; the templates only lay it out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import pandas as pd

from rnnbench.records.overrides import reference_label
from rnnbench.records.plan_file import Experiment
from rnnbench.records.pointer import NotNeeded
from rnnbench.records.record import Record
from rnnbench.report import notes, runs, speed, summary
from rnnbench.report import numbers as n
from rnnbench.report.answer import answers
from rnnbench.report.cost import recommendations
from rnnbench.report.parts import Figure, Section, TableView
from rnnbench.report.published import sections_without_runs
from rnnbench.report.sections import SECTIONS
from rnnbench.report.tables import ReportInputs, Tables
from rnnbench.tables.runs import epochs, order, provenance, turns
from rnnbench.tables.time import by_run, extra_ratios, ratios_shown

SPEEDUP = ("speedup", "speedup_low", "speedup_high")
LEAD = 2  # figures next to the answer
# `lead` of an experiment → the section whose tables and figures lead, and their ids or kinds.
LEADS = {
    "kernels": ("ran", ("kernels",)),
    "calls": ("calls", ("calls-table", "calls")),
    "devices": ("money", ("money-table", "relative-time")),
}


class Content:
    """All numbers, text and figures of a report. Tables without rows are left out.

    **Arguments:**

    - `records`: all runs, including void ones.
    - `skipped`: ``{"name", "why"}`` of configurations that cannot exist.
    - `missing`: names of planned runs without a record.
    - `faults`: messages about what could not be read.
    - `beside`: certificates, prices, published rows, limits.
    - `unneeded`: planned runs that the experiment's ``repeats`` skipped → reason.

    **Attributes:** among others, `answers`; `answer_views` and `answer_figures`, which replace
    those of time next to the answers; `time` and `accuracy` (tables); `sections`; `last` (start of
    the latest run); `configuration_details` (targets of the links in the tables) and `whole`
    (whether they have raw epochs); `panels` (how many places, group and device, are drawn; 0 for
    all); `csv` (file name → table); `speedups` and `unequal_runs` (record key → the speed-up
    with its interval, by column, or the ratio marked ≠, of its configuration); `equal_runs` (record
    key → whether it computes the function of the reference, and why not).
    """

    def __init__(
        self,
        records: Sequence[Record],
        experiment: Experiment,
        skipped: Iterable[Mapping[str, str]] = (),
        missing: Iterable[str] = (),
        faults: Iterable[str] = (),
        beside: ReportInputs = ReportInputs(),  # noqa: B008 (frozen)
        unneeded: Mapping[str, NotNeeded] = MappingProxyType({}),
    ) -> None:
        m = Tables(records, experiment, beside)
        self.experiment = experiment
        self.reference_words = reference_label(m.reference) or "nothing"
        command = f"snakemake --cores all --config experiment={experiment.name}"
        self.rerun = experiment.rerun or command
        self.summary = _summary(m.runs)
        self.conditions = runs.conditions(m.records)
        self.last = "" if m.runs.empty else str(m.runs["started"].max())
        made = [*sections_without_runs(m), *(make(m) for make in SECTIONS)]
        self.answer_views, self.answer_figures, sections = _leading(made, experiment.lead)
        self.sections = list(filter(None, sections))
        if experiment.lead == "calls" and self.answer_views:
            self.answers = summary.call_answers(m)
        else:
            self.answers = [summary.headline(m)] if m.is_long else answers(m)
        if m.is_long and not self.answer_views:
            self.answer_views = [summary.answer_view(m)]
        self.time, self.accuracy = _filled(speed.time_views(m)), _filled(speed.accuracy_views(m))
        self.figures = [*speed.speed_figures(m), *speed.order_figures(m)] if len(m.time) else []
        self.panels = speed.PANELS if speed.places(m.regrouped) > speed.PANELS else 0
        self.whole = len(m.records) <= runs.MANY
        self.configuration_details = runs.raw_configurations(m)
        unclean = runs.not_clean(m)
        self.not_clean = unclean[: runs.MANY]
        self.more_not_clean = sum(map(len, unclean[runs.MANY :]))
        self.verdicts = notes.verdict_text(m.runs)
        self.missing, self.faults = list(missing), list(faults)
        self.skipped = _filled([runs.skipped_view(skipped)])
        self.runs = _filled([runs.runs_view(m.runs)])
        self.provenance = _filled([runs.provenance_view(provenance(m.records))])
        self.any_suspect = bool(m.runs["verdict"].eq("suspect").any())
        methods = [method for method in m.time["method"] if method is not None]
        self.pooled = any(method.pooled for method in methods)
        self.in_turns = any(method.in_turns for method in methods)
        self.unequal_runs = {
            key: f"{row['unequal']} against {self.reference_words}: {row['difference']}"
            for key, row in by_run(m.frame, m.time[m.time["unequal"].ne("")]).items()
        }
        self.equal_runs = {
            key: ": ".join(filter(None, (row["equal"], row["equal_why"])))
            for key, row in by_run(m.frame, m.time[m.time["equal"].ne("")]).items()
        }
        compared = by_run(m.frame, m.time[m.time["speedup"].notna()])
        self.speedups = {
            key: {name: row[name] for name in SPEEDUP if n.is_number(row[name])}
            for key, row in compared.items()
        }
        self.notes = notes_by_place(m, unneeded)
        self.csv: dict[str, pd.DataFrame] = {
            "accuracy": m.accuracy, "alike": m.alike, "time": m.time, "runs": m.runs,
            "epochs": epochs(m.frame), "turns": turns(m.records, m.frame),
        }  # fmt: skip
        for section in made:
            self.csv |= section.csv

    def figures_of(self, *kinds: str) -> list[Figure]:
        return [figure for figure in self.figures if figure.kind in kinds]

    @property
    def lead_figures(self) -> list[Figure]:
        """Next to the answer: `answer_figures`, else the first group's speed on `LEAD` devices."""
        drawn = self.figures_of("speedup") or self.figures_of("time")
        return self.answer_figures or [f for f in drawn if f.group == drawn[0].group][:LEAD]

    @property
    def lead_views(self) -> list[TableView]:
        """The table next to the answer."""
        return self.answer_views or self.time[:1]

    @property
    def all_figures(self) -> list[Figure]:
        of_sections = (figure for section in self.sections for figure in section.figures)
        return [*self.answer_figures, *self.figures, *of_sections]


def _leading(
    sections: Sequence[Section], lead: str
) -> tuple[list[TableView], list[Figure], list[Section]]:
    """The tables and figures that a report leads with, and the sections without them. There are
    none if they have no rows."""
    id, parts = LEADS.get(lead, ("", ()))
    section = next((section for section in sections if section.id == id), None)
    views = [view for view in section.views if view.id in parts and view.rows] if section else []
    if section is None or not views:
        return [], [], list(sections)
    figures = [figure for figure in section.figures if figure.kind in parts]
    rest = replace(
        section,
        views=[view for view in section.views if view not in views],
        figures=[figure for figure in section.figures if figure not in figures],
    )
    return views, figures, [rest if each is section else each for each in sections]


def notes_by_place(
    m: Tables, unneeded: Mapping[str, NotNeeded] = MappingProxyType({})
) -> dict[str, list[str]]:
    """All notes by where they stand. `unneeded`: see `Content`."""
    ratios = ratios_shown(m.time) + extra_ratios(m.fastest) + ratios_shown(m.calls)
    for bound in (m.cost["relative_low"], m.builds["change_low"], m.scaling["speedup_low"]):
        ratios += int(bound.notna().sum())
    finished = {record.key: record.finished for record in m.records}
    return {
        notes.ANSWER: [
            *_interval_notes(m),
            *notes.slowed_notes(m.fastest),
            *(notes.session_notes(m.run_values, finished) if ratios else ()),
            *(notes.turn_notes(m.run_values) if ratios else ()),
            *recommendations(m.cost, m.inputs),
        ],
        notes.LEAD: [
            *notes.certificate_notes(m.time),
            *notes.void_notes(m.fastest),
        ],
        notes.RELIABILITY: [
            notes.ratio_note(ratios),
            *notes.disturbance_notes(m.records),
            *notes.stopping_notes(unneeded),
            *notes.comparison_notes(m.time, m.accuracy),
        ],
        notes.ORDER: list(notes.order_notes(order(m.frame))),
    }


def _interval_notes(m: Tables) -> Iterator[str]:
    lead = m.experiment.lead
    if lead == "calls" and len(m.calls):
        if m.calls["speedup_low"].notna().any():
            yield f"{notes.IN_BRACKETS}."
    elif not (m.is_long and lead):
        yield from notes.interval_notes(m.fastest, m.is_long)


def _filled(candidates: Iterable[TableView]) -> list[TableView]:
    return [view for view in candidates if view.rows]


def _summary(every: pd.DataFrame) -> str:
    if every.empty:
        return "no runs"
    machines = list(dict.fromkeys(every["machine"]))
    names = ", ".join(machines) if len(machines) < 4 else n.counted(len(machines), "machine")
    when = n.moment(every["started"].iloc[-1])[:10]
    return f"{n.counted(len(every), 'run')} on {names}, last on {when}"
