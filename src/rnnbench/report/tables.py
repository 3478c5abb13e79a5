"""What the sections of a report are made from: the records of an experiment, what is known beside
them, and the tables of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pandas as pd

from rnnbench.records.plan_file import Experiment
from rnnbench.records.record import Record
from rnnbench.report.labels import colours, regrouping, same_group
from rnnbench.sources.prices import PriceList
from rnnbench.sources.published import PublishedRow, Source
from rnnbench.tables import estimates
from rnnbench.tables.certificates import Certificates
from rnnbench.tables.comparison import builds
from rnnbench.tables.cost import cost, efficiency, scaling
from rnnbench.tables.devices import device_choice
from rnnbench.tables.estimates import with_named_options
from rnnbench.tables.frame import ranked, tidy
from rnnbench.tables.learning import accuracy, find_accuracy_outliers, learning
from rnnbench.tables.runs import runs
from rnnbench.tables.time import calls, fastest, time

ANSWERS = 6  # on a page; if there are more, a headline and a table take their place


@dataclass(frozen=True)
class ReportInputs:
    """`certificates` of the experiment; `prices`: the price list in use (None: no cost is shown);
    `published`: rows to show next to measured ones; `sources`: what to tell about them; `deadline`
    in seconds and `budget` in USD, both per training, for the recommendation (None: no
    recommendation); `mlflow`: record key → MLflow run id, of tracked runs."""

    certificates: Certificates = field(default_factory=Certificates)
    prices: PriceList | None = None
    published: tuple[PublishedRow, ...] = ()
    sources: tuple[Source, ...] = ()
    deadline: float | None = None
    budget: float | None = None
    mlflow: Mapping[str, str] = field(default_factory=dict)


class Tables:
    """`records`: all runs, including void ones. The tables are made when they are first asked for.
    They have the names of the functions that make them from what is `measured`, for all functions
    of networks that the `reference` of the `experiment` separates. `regroup` and `regrouped`: see
    `regrouping`. `is_long`: there are too many comparisons for an answer each."""

    def __init__(
        self,
        records: Sequence[Record],
        experiment: Experiment,
        inputs: ReportInputs,
    ) -> None:
        self.experiment, self.inputs = experiment, inputs
        self.reference = reference = experiment.reference
        self.records = inputs.certificates.mark_wrong_gradients(records)
        self._every_function = tidy(self.records)
        self.frame = ranked(with_named_options(self._every_function, reference))
        self.measured = estimates.Measurements(
            self.frame, reference, inputs.certificates, inputs.prices, experiment.peak_tflops
        )

    @property
    def run_values(self) -> pd.DataFrame:
        return self.measured.runs

    @cached_property
    def alike(self) -> pd.DataFrame:
        outliers = find_accuracy_outliers(self._every_function)
        return with_named_options(outliers, self.reference)

    @cached_property
    def is_long(self) -> bool:
        groups = self.fastest[same_group(self.reference)]
        return len(groups.drop_duplicates()) > ANSWERS

    runs = cached_property(lambda self: runs(self.frame))
    time = cached_property(lambda self: time(self.measured))
    palette = cached_property(lambda self: colours(self.time["implementation"]))
    regroup = cached_property(lambda self: regrouping(self.time, self.reference))
    regrouped = cached_property(lambda self: self.regroup(self.time))
    fastest = cached_property(lambda self: fastest(self.measured, self.time))
    device_choice = cached_property(lambda self: device_choice(self.measured, self.fastest))
    accuracy = cached_property(lambda self: accuracy(self.measured))
    # One sentence speaks about all comparisons of a long page.
    learning = cached_property(lambda self: learning(self.measured, together=self.is_long))
    builds = cached_property(lambda self: builds(self.measured))
    calls = cached_property(lambda self: calls(self.measured))
    cost = cached_property(lambda self: cost(self.measured, self.time))
    efficiency = cached_property(lambda self: efficiency(self.measured))
    scaling = cached_property(lambda self: scaling(self.measured))
