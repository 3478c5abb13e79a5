"""The inputs of a report other than the records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rnnbench.sources.prices import PriceList
from rnnbench.sources.published import PublishedRow
from rnnbench.tables.certificates import Certificates


@dataclass(frozen=True)
class ReportInputs:
    """`certificates` and `probes` of the experiment; `prices`: the price list in use (None: no cost
    is shown); `published`: rows to show next to measured ones; `deadline` in seconds and `budget`
    in USD, both per training, for the recommendation (None: no recommendation); `mlflow`: record
    key → MLflow run id, of tracked runs."""

    certificates: Certificates = field(default_factory=Certificates)
    probes: tuple[Mapping[str, Any], ...] = ()
    prices: PriceList | None = None
    published: tuple[PublishedRow, ...] = ()
    deadline: float | None = None
    budget: float | None = None
    mlflow: Mapping[str, str] = field(default_factory=dict)
