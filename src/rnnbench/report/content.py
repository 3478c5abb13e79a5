"""The content of a report, computed from the records; the templates only lay it out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import pandas as pd

from rnnbench.records.overrides import reference_label
from rnnbench.records.plan_file import Experiment
from rnnbench.records.record import ComparedRun, Record
from rnnbench.records.rounds import NotNeeded
from rnnbench.report import notes
from rnnbench.report import numbers as n
from rnnbench.report.answer import answers, headline, kernel_to_use
from rnnbench.report.calls import call_answers
from rnnbench.report.conditions import conditions
from rnnbench.report.figures import Figure
from rnnbench.report.labels import joined
from rnnbench.report.prediction import (
    prediction_answers,
    prediction_conditions,
)
from rnnbench.report.provenance import provenance_section
from rnnbench.report.published import sections_without_runs
from rnnbench.report.runs import runs_section
from rnnbench.report.section import Note, Section
from rnnbench.report.sections import SECTIONS
from rnnbench.report.speed import SPEEDUP
from rnnbench.report.tables import ReportInputs, Tables
from rnnbench.tables.time import by_run

# `lead` of an experiment → the section that leads.
LEADS = {
    "time": "speed",
    "kernels": "ran",
    "calls": "calls",
    "devices": "money",
    "predictions": "prediction",
}


class Content:
    """All numbers, text and figures of a report.

    **Arguments:**

    - `records`: all runs, including void ones.
    - `missing`: names of planned runs without a record.
    - `faults`: messages about what could not be read.
    - `beside`: certificates, prices, published rows, limits.
    - `unneeded`: planned runs that the experiment's ``repeats`` skipped → reason.

    **Attributes:** among others,

    - `answers` with their `notes`; `use`: the kernel of `rnnlayers` that they recommend, or ``""``.
    - `lead_figures`, `lead_views` and `lead_notes`: what stands below the answer.
    - `caveat`: why a reader should look at the verdicts first (None: no reason).
    - `sections`; `csv`: file name → table.
    - `last`: the start of the latest run.
    - `compared`: record key → how its configuration compares with the reference.
    """

    def __init__(
        self,
        records: Sequence[Record],
        experiment: Experiment,
        missing: Iterable[str] = (),
        faults: Iterable[str] = (),
        beside: ReportInputs = ReportInputs(),  # noqa: B008 (frozen)
        unneeded: Mapping[str, NotNeeded] = MappingProxyType({}),
    ) -> None:
        m = Tables(records, experiment, beside)
        missing = list(missing)
        faults = list(faults)
        self.experiment = experiment
        self.conditions = conditions(m.records)
        self.last = str(m.runs["started"].max()) if len(m.runs) else ""
        self.caveat = _caveat(m.runs, len(missing), len(faults))

        rerun = self.rerun = experiment.command
        published = sections_without_runs(m)
        made = [*published, *(make(m) for make in SECTIONS)]
        made.append(runs_section(m, rerun, missing, faults, unneeded))
        made.append(provenance_section(m, rerun))

        by_id = {section.id: section for section in made}
        lead = by_id[LEADS[experiment.lead]]
        # A section without a table to lead with leaves the place to the section on time.
        if not any(view.rows for view in lead.lead_views):
            lead = by_id["speed"]
        self.lead_views = lead.lead_views
        # A table of kernels has no figure.
        self.lead_figures = lead.lead_figures or by_id["speed"].lead_figures
        beside_figures: list[str | Note] = []  # published ones need their words
        for index, section in enumerate(published):
            if section.leads:
                self.lead_figures += section.lead_figures
                beside_figures += section.paragraphs
                made[index] = replace(section, paragraphs=())

        self.csv: dict[str, pd.DataFrame] = {}
        self.sections: list[Section] = []
        for section in made:
            self.csv |= section.csv
            figures = [each for each in section.figures if each not in self.lead_figures]
            views = [view for view in section.views if view not in self.lead_views]
            rest = replace(section, figures=figures, views=views)
            of_runs = section.id in ("trust", "origin") and not m.records and not faults
            if rest and not (of_runs and beside.predictions):
                self.sections.append(rest)

        if beside.predictions:
            self.answers = prediction_answers(beside.predictions)
            self.conditions = prediction_conditions(beside.predictions)
            self.last = max(each.started for each in beside.predictions)
        elif lead.id == "calls":
            self.answers = call_answers(m)
        elif m.is_long:
            self.answers = [headline(m)]
        else:
            self.answers = answers(m)
        what = n.counted(len(m.runs), "run")
        machines = list(m.runs["machine"].unique())
        if beside.predictions:
            what = n.counted(len(beside.predictions), "model")
            machines = list(dict.fromkeys(each.machine for each in beside.predictions))
        self.summary = _summary(what, machines, self.last)
        self.use = kernel_to_use(m)
        self.notes: list[str | Note] = [*notes.answer_notes(m, lead.id)]
        uncertified = list(notes.uncertified_notes(m.time))
        self.lead_notes = [*uncertified, *notes.exclusion_notes(m.time, m.contests)]

        # What the terminal and MLflow say.
        self.said = [str(text) for text in (*self.answers, *self.notes, *uncertified)]
        self.notes += beside_figures
        self.compared = _compared(m)

    @property
    def figures(self) -> list[Figure]:
        """All of them, those that lead first."""
        figures = list(self.lead_figures)
        for section in self.sections:
            figures += section.figures
        return figures


def _compared(m: Tables) -> dict[str, ComparedRun]:
    """Record key → how its configuration compares with the reference."""
    base = reference_label(m.reference) or "nothing"
    compared = {}
    for key, row in by_run(m.frame, m.time).items():
        unequal = ""
        if row["unequal"]:
            unequal = f"{row['unequal']} against {base}: {row['difference']}"
        speedup = {}
        for name in SPEEDUP:
            number = row[name]
            if n.is_number(number):
                speedup[name] = number
        equal = joined((row["equal"], row["equal_why"]), ": ") if row["equal"] else ""
        compared[key] = ComparedRun(speedup, unequal, equal)
    return compared


def _caveat(every: pd.DataFrame, missing: int, faults: int) -> Note | None:
    """Why a reader should look at the verdicts first.

    - `every`: the table of runs.
    - `missing`: planned runs without a record. `faults`: files that cannot be read.
    """
    if not (missing or faults or every["verdict"].ne("clean").any()):
        return None
    text = notes.verdict_text(every)
    if missing:
        text += f" Planned, but without a record: {missing}."
    if faults:
        text += f" Files left out because they cannot be read: {faults}."
    return Note("Read before quoting", text, "trust")


def _summary(what: str, machines: Sequence[str], last: str) -> str:
    """``24 runs on HOST, last on 2026-11-21``; more than three machines are counted only.

    `last`: when the last one started; ``""`` for none.
    """
    if not last:
        return "no runs"
    names = n.counted(len(machines), "machine")
    if len(machines) < 4:
        names = ", ".join(machines)
    day, _ = n.moment(last).split(" ")
    return f"{what} on {names}, last on {day}"
