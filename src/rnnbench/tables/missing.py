"""Missing data: impossible grid points, and planned runs without a record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pandas as pd


def skipped(points: Iterable[Mapping[str, str]]) -> pd.DataFrame:
    """One row per impossible grid point: `name`, `why`. Source: the expansion of the experiment."""
    return pd.DataFrame(
        [(point["name"], point["why"]) for point in points], columns=["name", "why"]
    )


def missing(planned: Iterable[str], recorded: Iterable[str]) -> pd.DataFrame:
    """One row per planned run without a readable record: `name`, in the planned order."""
    present = set(recorded)
    return pd.DataFrame({"name": [name for name in planned if name not in present]})
