"""What is not there: cells that cannot exist, and planned runs without a record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def skipped(cells: Iterable[Mapping[str, str]]) -> pd.DataFrame:
    """Cells that cannot exist: `name`, `why`. Source: the experiment's expansion."""
    import pandas as pd

    return pd.DataFrame([(cell["name"], cell["why"]) for cell in cells], columns=["name", "why"])


def missing(planned: Iterable[str], recorded: Iterable[str]) -> pd.DataFrame:
    """Planned runs without a readable record: `name`, in the planned order."""
    import pandas as pd

    there = set(recorded)
    return pd.DataFrame({"name": [name for name in planned if name not in there]})
