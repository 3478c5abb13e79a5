"""How near to what the machine can do: time per timestep, GFLOP/s, share of the measured peak."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rnnbench.tables.frame import CELL
from rnnbench.tables.grouping import Rows, split
from rnnbench.tables.stats import mean_interval
from rnnbench.tables.time import KEY
from rnnbench.tables.usable_runs import run_values

if TYPE_CHECKING:
    import pandas as pd

    from rnnbench.tables.stats import Interval

PROBED = "float32"  # what a probe computes in (rnnworker.probe)
ABOVE_PEAK = (
    "the runs reached more than the probe's peak, which therefore was not the device's: probe "
    "again when nothing else runs"
)
INTERVALS = ["us_per_timestep", "gflops", "peak_share", "products_share"]
EFFICIENCY_COLUMNS = [
    *CELL, "runs", "suspect", "step_seconds",
    *(f"{name}{end}" for name in INTERVALS for end in ("", "_low", "_high")),
    "peak_gflops", "peak_gb_per_s", "intensity", "roof_gflops", "timesteps", "flops_per_step",
    "bytes_per_step", "products_s", "foreign_load", "complete", "why",
]  # fmt: skip


def efficiency(frame: pd.DataFrame, probes: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """One row per cell on one machine, from runs that are not void and the probe of its machine,
    device and build. The run is the unit: geometric means over the runs' median epochs, each with
    its 95 % interval (`…_low`, `…_high`; missing with one run).

    Columns: the cell, `runs`, `suspect`; `step_seconds` (of one training step, epoch / steps);
    `us_per_timestep` (`step_seconds` / `timesteps`, the length of the longest sequence); `gflops`
    (GFLOP/s reached: the step's matrix products, forward and back, over its time); `peak_share` of
    `peak_gflops` (best median of large float32 products, so for runs in float32 alone); missing
    where the runs reached more than the peak, which then is not one; `products_share` (time that
    the products alone would take, `products_s`, over the step's); `peak_gb_per_s`; `intensity`
    (FLOP per byte that the products read and write) and `roof_gflops` = min(peak, intensity ×
    bandwidth); `timesteps`, `flops_per_step`, `bytes_per_step`, `complete` (bool: every layer is
    counted); `foreign_load` (CPU seconds per second that others used on the probe's cores
    meanwhile).
    What a probe cannot tell is missing, and `why` says why (``""`` where nothing is). A model
    that is not complete has its time per timestep and no share: too little work is counted.
    """
    import pandas as pd

    found = {(one["machine"], one["key"]): one for one in probes}
    facts = frame.drop_duplicates("record").set_index("record")[["probe", "config", "precision"]]
    values = run_values(frame).join(facts, on="record")
    rows = []
    columns = [
        "seconds",
        "steps",
        "samples",
        "suspect",
        "implementation",
        "probe",
        "config",
        "precision",
    ]
    for key, runs in split(values, KEY, columns).items():
        cell = dict(zip(KEY, key, strict=True))
        probe = found.get((cell["machine"], runs["probe"][0]))
        rows.append({**cell, **_row(runs, probe, _model_of(probe, runs["config"][0]))})
    return pd.DataFrame(rows, columns=EFFICIENCY_COLUMNS)


def _model_of(probe: Mapping[str, Any] | None, config: str) -> Mapping[str, Any] | None:
    models = probe["models"] if probe else ()
    return next((model for model in models if model["config"] == config), None)


def _why(probe: Mapping[str, Any] | None, model: Mapping[str, Any] | None, precision: str) -> str:
    if precision != PROBED:
        return f"the peak is measured in {PROBED}, and these runs compute in {precision}"
    if probe is None:
        return "this device and build were not probed on this machine"
    if probe.get("error"):
        return f"the probe failed: {probe['error']}"
    if model is None:
        return "the probe did not look at this model"
    if model.get("error"):
        return f"the probe failed on this model: {model['error']}"
    if not model["complete"]:
        return "not all of its layers are counted (convolutions are not)"
    return ""


def _row(
    runs: Rows, probe: Mapping[str, Any] | None, model: Mapping[str, Any] | None
) -> dict[str, Any]:
    why = _why(probe, model, runs["precision"][0])
    same = runs["precision"][0] == PROBED
    probe, model = probe or {}, model or {}
    step = mean_interval((runs["seconds"] / runs["steps"]).tolist())
    timesteps, complete = model.get("timesteps"), bool(model.get("complete"))
    flops = (model.get("flops_per_step") or {}).get("training")
    moved, peak, bandwidth = (
        model.get("bytes_per_step"), probe.get("peak_gflops"), probe.get("peak_gb_per_s")
    ) if same else (None, None, None)  # fmt: skip
    row: dict[str, Any] = {
        "implementation": runs["implementation"][0],
        "runs": len(runs["seconds"]),
        "suspect": int(runs["suspect"].sum()),
        "step_seconds": step.estimate,
        "peak_gflops": peak,
        "peak_gb_per_s": bandwidth,
        "timesteps": timesteps,
        "flops_per_step": flops,
        "bytes_per_step": moved,
        "products_s": model.get("products_s") if same else None,
        "foreign_load": probe.get("foreign_load"),
        "complete": complete,
        "why": why,
    }
    if timesteps:
        row.update(_times(step, "us_per_timestep", 1e6 / timesteps))
    if not (complete and flops):
        return row
    done = flops * _filled(runs, model.get("batch")) / 1e9
    row.update(_over(step, "gflops", done))
    if peak and done / step.estimate > peak:
        return {**row, "why": ABOVE_PEAK}
    if peak:
        row.update(_over(step, "peak_share", done / peak))
    if row["products_s"] is not None:
        row.update(_over(step, "products_share", row["products_s"]))
    if moved:
        row["intensity"] = flops / moved
        if peak and bandwidth:
            row["roof_gflops"] = min(peak, row["intensity"] * bandwidth)
    return row


def _filled(runs: Rows, batch: int | None) -> float:
    """How full a mean step is: an epoch's last batch may be a part of one."""
    if not batch:
        return 1.0
    steps = statistics.median(runs["steps"].tolist())
    return statistics.median(runs["samples"].tolist()) / (steps * batch)


def _times(step: Interval, name: str, factor: float) -> dict[str, float | None]:
    """`step` × `factor`, with its interval."""
    return {
        name: step.estimate * factor,
        f"{name}_low": None if step.low is None else step.low * factor,
        f"{name}_high": None if step.high is None else step.high * factor,
    }


def _over(step: Interval, name: str, amount: float) -> dict[str, float | None]:
    """`amount` / `step`, with its interval, whose ends change places."""
    return {
        name: amount / step.estimate,
        f"{name}_low": None if step.high is None else amount / step.high,
        f"{name}_high": None if step.low is None else amount / step.low,
    }
