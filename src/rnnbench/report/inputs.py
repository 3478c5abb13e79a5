"""What a report needs beside the records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rnnbench.sources.prices import PriceList
from rnnbench.sources.published import PublishedRow
from rnnbench.tables.certificates import Certificates


@dataclass(frozen=True)
class ReportInputs:
    """`certificates` and `probes` of the experiment; `prices`, the list in use (None: no cost is
    shown); `published` rows that may stand beside measured ones; `deadline` in seconds per training
    and `budget` in USD per training, for the recommendation (None: none is given); `mlflow`: record
    key → MLflow's run id, of the runs that are tracked."""

    certificates: Certificates = field(default_factory=Certificates)
    probes: tuple[Mapping[str, Any], ...] = ()
    prices: PriceList | None = None
    published: tuple[PublishedRow, ...] = ()
    deadline: float | None = None
    budget: float | None = None
    mlflow: Mapping[str, str] = field(default_factory=dict)
