"""The kernels that ran, as attested by the worker."""

from __future__ import annotations

import pandas as pd

from rnnbench.axes import CONFIGURATION


def kernels(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per configuration and attested kernel: the configuration, `kernel`, `why_not_cudnn`
    (reasons as text), `runs` (their number). Empty if no record attests a kernel. Source:
    ``measured.kernel`` of runs that are not void."""
    attested = frame[
        (frame["phase"] == "run") & (frame["verdict"] != "void") & (frame["kernel"] != "")
    ]
    runs = attested.groupby([*CONFIGURATION, "kernel", "why_not_cudnn"], sort=False)[
        "record"
    ].count()
    return runs.rename("runs").reset_index()
