"""What the sections of a report are made from: the records of an experiment, what is known beside
them, and the tables of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rnnbench.records.plan_file import Experiment
from rnnbench.records.record import Record
from rnnbench.report.labels import colours, regrouping, same_group
from rnnbench.sources.prices import PriceList
from rnnbench.sources.probes import Probe
from rnnbench.sources.published import PublishedRow
from rnnbench.tables import estimates
from rnnbench.tables.certificates import Certificates
from rnnbench.tables.comparison import builds
from rnnbench.tables.cost import cost, efficiency, scaling
from rnnbench.tables.estimates import with_named_options
from rnnbench.tables.frame import ranked, tidy
from rnnbench.tables.learning import accuracy, find_accuracy_outliers, learning
from rnnbench.tables.runs import runs, steadiness
from rnnbench.tables.time import calls, fastest, time

ANSWERS = 6  # on a page; if there are more, a headline and a table take their place


@dataclass(frozen=True)
class ReportInputs:
    """`certificates` and `probes` of the experiment; `prices`: the price list in use (None: no cost
    is shown); `published`: rows to show next to measured ones; `deadline` in seconds and `budget`
    in USD, both per training, for the recommendation (None: no recommendation); `mlflow`: record
    key → MLflow run id, of tracked runs."""

    certificates: Certificates = field(default_factory=Certificates)
    probes: tuple[Probe, ...] = ()
    prices: PriceList | None = None
    published: tuple[PublishedRow, ...] = ()
    deadline: float | None = None
    budget: float | None = None
    mlflow: Mapping[str, str] = field(default_factory=dict)


class Tables:
    """`records`: all runs, including void ones. The tables have the names of the functions that
    make them from what is `measured`, for all functions of networks that the `reference` of the
    `experiment` separates. `regroup` and `regrouped`: see `regrouping`. `is_long`: there are too
    many comparisons for an answer each."""

    def __init__(
        self,
        records: Sequence[Record],
        experiment: Experiment,
        inputs: ReportInputs,
    ) -> None:
        self.experiment, self.inputs = experiment, inputs
        self.reference = reference = experiment.reference
        self.records = inputs.certificates.mark_wrong_gradients(records)
        every_function = tidy(self.records)
        self.frame = frame = ranked(with_named_options(every_function, reference))
        self.measured = measured = estimates.Measurements(
            frame, reference, inputs.certificates, inputs.prices, inputs.probes
        )
        self.run_values, self.steadiness = measured.runs, steadiness(frame)
        self.runs = runs(frame)
        self.time = time(measured)
        self.palette = colours(self.time["implementation"])
        self.regroup = regrouping(self.time, reference)
        self.regrouped = self.regroup(self.time)
        self.fastest = fastest(measured, self.time)
        groups = self.fastest[same_group(reference)]
        self.is_long = len(groups.drop_duplicates()) > ANSWERS
        self.accuracy = accuracy(measured)
        self.alike = with_named_options(find_accuracy_outliers(every_function), reference)
        # One sentence speaks about all comparisons of a long page.
        self.learning = learning(measured, together=self.is_long)
        self.builds = builds(measured)
        self.calls = calls(measured)
        self.cost = cost(measured, self.time)
        self.efficiency = efficiency(measured)
        self.scaling = scaling(measured)
