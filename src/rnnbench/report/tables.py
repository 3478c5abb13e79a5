"""What the sections of a report are made from: the records of an experiment, what is known beside
them, and the tables of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from rnnbench.records.plan_file import Experiment
from rnnbench.records.predictions import Results
from rnnbench.records.record import Record
from rnnbench.report.labels import colours, regrouped
from rnnbench.sources.prices import PriceList
from rnnbench.sources.published import PublishedRow, Source
from rnnbench.tables.certificates import Certificates
from rnnbench.tables.comparison import builds
from rnnbench.tables.contests import contests, device_choices, extra_ratios
from rnnbench.tables.cost import cost
from rnnbench.tables.efficiency import efficiency
from rnnbench.tables.estimates import Measurements, with_named_options
from rnnbench.tables.frame import ranked, tidy
from rnnbench.tables.learning import accuracy, find_accuracy_outliers, learning
from rnnbench.tables.metrics import metrics
from rnnbench.tables.runs import runs
from rnnbench.tables.scaling import scaling
from rnnbench.tables.time import calls, ratios_shown, time

ANSWERS = 6  # on a page; if there are more, a headline takes their place


@dataclass(frozen=True)
class ReportInputs:
    """What a report shows besides the records of its experiment.

    - `certificates` of the experiment.
    - `prices`: the price list in use (None: no cost is shown).
    - `published`: rows to show next to measured ones; `sources`: what to tell about them.
    - `deadline` in seconds and `budget` in USD, both per training run, for the recommendation
      (None: no recommendation).
    - `predictions`: what runtimes answered.
    - `mlflow`: record key → MLflow run id, of tracked runs.
    """

    certificates: Certificates = field(default_factory=Certificates)
    prices: PriceList | None = None
    published: tuple[PublishedRow, ...] = ()
    sources: tuple[Source, ...] = ()
    deadline: float | None = None
    budget: float | None = None
    predictions: tuple[Results, ...] = ()
    mlflow: Mapping[str, str] = field(default_factory=dict)


class Tables:
    """The tables of an experiment.

    They have the names of the functions that make them from what is `measured`, for all functions
    of networks that the `reference` of the experiment separates.

    - `records`: all runs, including void ones. `by_start`: in the order of their starts.
    - `ratios_shown`: the number of ratios with an interval.
    - `regrouped`: the time table after `regroup`.
    - `group_axes`: the axes within whose choices configurations are compared.
    - `palette`: the colour of each implementation. `about_rnn`: what each choice of `rnn` is.
    - `is_long`: there are too many comparisons for an answer each.
    """

    def __init__(
        self,
        records: Sequence[Record],
        experiment: Experiment,
        inputs: ReportInputs,
    ) -> None:
        self.experiment = experiment
        self.inputs = inputs
        self.reference = experiment.reference
        self.records = inputs.certificates.mark_wrong_gradients(records)
        self.by_start = sorted(self.records, key=lambda record: (record.started, record.key))
        every_function = tidy(self.records)
        self.frame = ranked(with_named_options(every_function, self.reference))
        self.measured = Measurements(
            self.frame, self.reference, inputs.certificates, inputs.prices, experiment.peak_tflops
        )
        self.run_values = self.measured.runs
        self.runs = runs(self.frame)
        self.time = time(self.measured)
        self.regrouped = self.regroup(self.time)
        self.palette = colours(self.time["implementation"])
        self.about_rnn: dict[str, str] = {}
        for record in self.by_start:
            about = record.run.sections.rnn.about or ""
            self.about_rnn[record.run.choices.get("rnn", "")] = about
        self.contests = contests(self.measured, self.time)
        self.group_axes = self.measured.group_axes
        groups = {contest.values(self.group_axes) for contest in self.contests}
        self.is_long = len(groups) > ANSWERS
        self.device_choices = device_choices(self.measured, self.contests)
        self.accuracy = accuracy(self.measured)
        # One sentence speaks about all comparisons of a long page.
        self.learning = learning(self.measured, together=self.is_long)
        self.metrics = metrics(self.measured, self.records)
        self.alike = with_named_options(find_accuracy_outliers(every_function), self.reference)
        self.builds = builds(self.measured)
        self.calls = calls(self.measured)
        self.cost = cost(self.measured, self.time)
        self.efficiency = efficiency(self.measured)
        self.scaling = scaling(self.measured)
        self.ratios_shown = (
            ratios_shown(self.time)
            + extra_ratios(self.contests)
            + ratios_shown(self.calls)
            + int(self.cost["relative_low"].count())
            + int(self.builds["change_low"].count())
            + int(self.scaling["speedup_low"].count())
        )

    def regroup(self, table: pd.DataFrame) -> pd.DataFrame:
        """`table` with the axes that the reference names among the implementations."""
        return regrouped(table, self.time, self.reference)
