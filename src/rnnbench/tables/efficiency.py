"""Efficiency: time per timestep, GFLOP/s, and share of the measured peak of the machine."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from rnnbench.axes import CONFIGURATION, KEY
from rnnbench.tables.estimates import Estimates
from rnnbench.tables.grouping import Rows, counts, split
from rnnbench.tables.stats import Interval
from rnnbench.tables.usable_runs import run_values

PROBE_PRECISION = "float32"  # see rnnworker.probe
ABOVE_PEAK = (
    "the runs exceed the peak of the probe, which is therefore not the peak of the device: probe "
    "again while nothing else runs"
)
INTERVALS = ["us_per_timestep", "gflops", "peak_share"]
EFFICIENCY_COLUMNS = [
    *CONFIGURATION, "runs", "suspect", "step_seconds",
    *(f"{name}{end}" for name in INTERVALS for end in ("", "_low", "_high")),
    "peak_gflops", "timesteps", "flops_per_step", "foreign_load", "complete", "why",
]  # fmt: skip


def efficiency(frame: pd.DataFrame, probes: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """One row per configuration and machine, from runs that are not void and the probe of the same
    machine, device and build. Values follow from the seconds of the `Estimates`, each with its 95 %
    interval (`…_low`, `…_high`; missing for a single run).

    Columns:

    - the configuration; `runs`, `suspect` (numbers of runs); `step_seconds` (seconds per training
      step); `us_per_timestep` (`step_seconds` / `timesteps`, in µs).
    - `gflops`: GFLOP/s of the matrix products of a step, forward and backward.
    - `peak_share`: `gflops` / `peak_gflops`, where `peak_gflops` is the best median rate of large
      float32 products; for float32 runs only. Missing if the runs exceed the peak, which is then
      wrong.
    - `timesteps` (length of the longest sequence), `flops_per_step`, `complete` (bool: every
      layer is counted).
    - `foreign_load`: CPU seconds per second that other processes used on the probe's cores during
      the probe.
    - `why`: the reason for missing values (``""`` if none is missing).

    For an incomplete model too little work is counted, so it has a time per timestep but no shares.
    """
    by_key = {(probe["machine"], probe["key"]): probe for probe in probes}
    facts = frame.drop_duplicates("record").set_index("record")[["probe", "config", "precision"]]
    values = run_values(frame, companions=True).join(facts, on="record")
    estimates, rows = Estimates(values), []
    columns = ["steps", "samples", "suspect", "implementation", *facts.columns]
    for key, runs in split(values[~values["companion"]], KEY, columns).items():
        configuration = dict(zip(KEY, key, strict=True))
        probe = by_key.get((configuration["machine"], runs["probe"][0]))
        model = _model_of(probe, runs["config"][0])
        steps = statistics.median(runs["steps"].tolist())
        step = estimates.seconds(key).scaled(1 / steps)
        rows.append({**configuration, **_row(runs, step, probe, model)})
    return pd.DataFrame(rows, columns=EFFICIENCY_COLUMNS)


def _model_of(probe: Mapping[str, Any] | None, config: str) -> Mapping[str, Any] | None:
    models = probe["models"] if probe else ()
    return next((model for model in models if model["config"] == config), None)


def _why(probe: Mapping[str, Any] | None, model: Mapping[str, Any] | None, precision: str) -> str:
    if precision != PROBE_PRECISION:
        return f"the peak is measured in {PROBE_PRECISION}, and these runs compute in {precision}"
    if probe is None:
        return "this device and build were not probed on this machine"
    if probe.get("error"):
        return f"the probe failed: {probe['error']}"
    if model is None:
        return "the probe does not include this model"
    if model.get("error"):
        return f"the probe failed on this model: {model['error']}"
    if not model["complete"]:
        return "not all layers of the model are counted (convolutions are not)"
    return ""


def _row(
    runs: Rows,
    step: Interval,
    probe: Mapping[str, Any] | None,
    model: Mapping[str, Any] | None,
) -> dict[str, Any]:
    why = _why(probe, model, runs["precision"][0])
    comparable = runs["precision"][0] == PROBE_PRECISION
    probe, model = probe or {}, model or {}
    timesteps, complete = model.get("timesteps"), bool(model.get("complete"))
    flops = (model.get("flops_per_step") or {}).get("training")
    peak = probe.get("peak_gflops") if comparable else None
    row: dict[str, Any] = {
        **counts(runs),
        "step_seconds": step.estimate,
        "peak_gflops": peak,
        "timesteps": timesteps,
        "flops_per_step": flops,
        "foreign_load": probe.get("foreign_load"),
        "complete": complete,
        "why": why,
    }
    if timesteps:
        row |= step.map(lambda s: s * (1e6 / timesteps)).columns("us_per_timestep")
    if not (complete and flops):
        return row
    gflop = flops * _mean_fill(runs, model.get("batch")) / 1e9
    row |= step.map(lambda s: gflop / s).columns("gflops")
    if peak and gflop / step.estimate > peak:
        return {**row, "why": ABOVE_PEAK}
    if peak:
        row |= step.map(lambda s: gflop / peak / s).columns("peak_share")
    return row


def _mean_fill(runs: Rows, batch: int | None) -> float:
    """Mean share of a batch that is filled: the last batch of an epoch may be smaller."""
    if not batch:
        return 1.0
    steps = statistics.median(runs["steps"].tolist())
    return statistics.median(runs["samples"].tolist()) / (steps * batch)
