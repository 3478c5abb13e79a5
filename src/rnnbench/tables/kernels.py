"""What ran: the kernels that the worker attested."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rnnbench.tables.frame import CELL

if TYPE_CHECKING:
    import pandas as pd


def kernels(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per cell and different attested kernel: the cell, `kernel`, `why_not_cudnn`, `runs`.
    Empty where no record attests one. Source: ``measured.kernel`` of runs that are not void."""
    whole = frame[
        (frame["phase"] == "run") & (frame["verdict"] != "void") & (frame["kernel"] != "")
    ]
    counted = whole.groupby([*CELL, "kernel", "why_not_cudnn"], sort=False)["record"].count()
    return counted.rename("runs").reset_index()
