"""How well a device is used: the energy of a GPU; time per timestep, GFLOP/s and their share of
the device's peak."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rnnbench.axes import Row
from rnnbench.records.interval import Interval
from rnnbench.tables.estimates import Measurements
from rnnbench.tables.frame import COUNTED, Rows, identified
from rnnbench.tables.stats import mean_interval

ENERGY_COLUMNS = [
    *COUNTED,
    "millijoules",
    "low",
    "high",
    "watts",
]
EFFICIENCY_COLUMNS = [
    *COUNTED,
    "step_seconds",
    "us_per_timestep",
    "us_per_timestep_low",
    "us_per_timestep_high",
    "gflops",
    "gflops_low",
    "gflops_high",
    "mfu",
    "mfu_low",
    "mfu_high",
    "peak_tflops",
    "timesteps",
    "flops_per_sample",
    "why",
]
UNCOUNTED = (
    "their records do not count the products of a step: a layer is neither recurrent nor dense, or "
    "they are older than this count"
)
ABOVE_PEAK = "the runs exceed the device's peak_tflops, which is therefore too low"


def energy(measured: Measurements) -> pd.DataFrame:
    """One row per configuration and machine whose runs report the energy of their GPU.

    Columns:

    - the configuration; `runs`, `suspect`.
    - `millijoules` per training sample, with the 95 % interval `low`, `high`: of the whole card,
      from the beginning to the end of the training, including its validations; geometric mean over
      runs.
    - `watts`: mean power of the card in that time, geometric mean over runs.

    Source: the counter of the card, in records of runs that are not void.
    """
    rows = []
    for key, every in measured.groups.items():
        reported = (every["joules_per_sample"] > 0) & (every["card_watts"] > 0)  # excludes NaN
        if not reported.any():
            continue
        runs = {name: column[reported] for name, column in every.items()}
        millijoules = mean_interval((1e3 * runs["joules_per_sample"]).tolist())
        watts = mean_interval(runs["card_watts"].tolist())
        rows.append(
            {
                **identified(key, runs),
                **millijoules.columns("millijoules", "low", "high"),
                "watts": watts.estimate,
            }
        )
    return pd.DataFrame(rows, columns=ENERGY_COLUMNS)


def efficiency(measured: Measurements) -> pd.DataFrame:
    """One row per configuration and machine, from runs that are not void. Values follow from the
    seconds of the `Estimates`, each with its interval.

    Columns:

    - the configuration; `runs`, `suspect`; `step_seconds` (seconds per training step);
      `us_per_timestep` (`step_seconds` / `timesteps`, in µs).
    - `gflops`: GFLOP/s of the matrix products of a step, forward and backward.
    - `mfu`: model FLOP/s utilisation, `gflops` / (1000 · `peak_tflops`), where `peak_tflops` is the
      peak of the device at the precision of the runs, from its datasheet. Missing if the device
      states none, if the runs use another number of its threads or replicas, or if they exceed it.
    - `timesteps` (length of the longest sequence), `flops_per_sample`.
    - `why`: the reason for missing `gflops` or `mfu` (``""`` if neither is missing).
    """
    rows = []
    for key, runs in measured.groups.items():
        step = measured.estimates.seconds(key).scaled(1 / _median(runs, "steps"))
        variant = runs["variant"][0]
        peak = None
        # A datasheet states the peak of a device as it is.
        if not (variant.get("device.replicas") or variant.get("device.threads")):
            peaks = measured.peaks.get(runs["device"][0], {})
            peak = peaks.get(runs["precision"][0])
        rows.append({**identified(key, runs), **_efficiency(runs, step, peak)})
    return pd.DataFrame(rows, columns=EFFICIENCY_COLUMNS)


def _efficiency(runs: Rows, step: Interval, peak: float | None) -> Row:
    """The columns of a configuration from `step_seconds` on.

    - `runs`: its rows of `run_values`.
    - `step`: seconds per training step.
    - `peak`: of the device in TFLOP/s, None if it is unknown.
    """
    timesteps = _median(runs, "timesteps")
    flops = _median(runs, "flops_per_sample")
    row: Row = {
        "step_seconds": step.estimate,
        "peak_tflops": peak,
        "timesteps": timesteps,
        "flops_per_sample": flops,
        "why": "",
    }
    if timesteps > 0:  # not NaN
        row |= step.scaled(1e6 / timesteps).columns("us_per_timestep")
    if not flops > 0:
        row["why"] = UNCOUNTED
        return row

    # The last batch of an epoch may be smaller.
    gflop = flops * _median(runs, "samples") / _median(runs, "steps") / 1e9
    gflops = step.map(lambda seconds: gflop / seconds)
    row |= gflops.columns("gflops")
    if peak is None:
        file = f"conf/device/{runs['device'][0]}.yaml"
        row["why"] = f"{file} states no peak_tflops of {runs['precision'][0]}"
    elif gflop / step.estimate > 1e3 * peak:
        row["why"] = ABOVE_PEAK
    else:
        share = step.map(lambda seconds: gflop / (1e3 * peak) / seconds)
        row |= share.columns("mfu")
    return row


def _median(runs: Rows, name: str) -> float:
    """The median of a column over the runs."""
    return float(np.median(runs[name]))
