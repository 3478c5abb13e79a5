"""Efficiency: time per timestep, GFLOP/s and share of the measured peak of the machine; and thread
scaling, with Amdahl's law."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from rnnbench.axes import CONFIGURATION, KEY
from rnnbench.sources.published import PublishedRow
from rnnbench.tables.estimates import Estimates
from rnnbench.tables.frame import Rows, counts, run_values, split
from rnnbench.tables.reference import Key
from rnnbench.tables.stats import Interval

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
MIN_COUNTS = 3  # two points fit any line
FAMILY = [name for name in KEY if name != "device"]
SCALING_COLUMNS = [
    *FAMILY, "implementation", "device", "threads", "runs", "suspect", "speedup", "speedup_low",
    "speedup_high", "ideal", "efficiency", "serial_fraction", "fitted",
]  # fmt: skip
PUBLISHED_COLUMNS = [
    "source", "model", "build", "threads", "seconds", "speedup", "speedup_low", "speedup_high",
    "ideal", "serial_fraction", "fitted",
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


def threads_of(device: str) -> int | None:
    """``cpu_16`` → 16; None for a device without a number of threads."""
    match = re.fullmatch(r"cpu_(\d+)", device)
    return int(match.group(1)) if match else None


def scaling(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per configuration and number of threads, for configurations that were measured with
    at least three different numbers of threads.

    Columns: the configuration without its device; `device`, `threads`; `runs`, `suspect` (numbers
    of runs); `speedup` over the fewest threads with the 95 % interval `speedup_low`,
    `speedup_high`; `ideal` (threads / fewest threads); `efficiency` = speedup / ideal;
    `serial_fraction` of the fit of Amdahl's law (equal in all rows of a fit) and the `fitted`
    speed-up. Source: runs that are not void on devices named ``cpu_N``.
    """
    values = run_values(frame, companions=True)
    estimates = Estimates(values)
    families: dict[Key, dict[int, tuple[Key, Rows]]] = {}
    groups = split(values[~values["companion"]], KEY, ["suspect", "implementation", "device"])
    for key, runs in groups.items():
        if (threads := threads_of(runs["device"][0])) is not None:
            family = tuple(dict(zip(KEY, key, strict=True))[name] for name in FAMILY)
            families.setdefault(family, {})[threads] = key, runs
    rows: list[dict[str, Any]] = []
    for family, by_count in families.items():
        if len(by_count) < MIN_COUNTS:
            continue
        least = min(by_count)
        family_rows: list[dict[str, Any]] = []
        for threads in sorted(by_count):
            key, runs = by_count[threads]
            ratio, ideal = estimates.ratio(key, by_count[least][0]), threads / least
            family_rows.append(
                {
                    **dict(zip(FAMILY, family, strict=True)),
                    **counts(runs),
                    "device": runs["device"][0],
                    "threads": threads,
                    **({"speedup": 1.0} if threads == least else ratio.columns("speedup")),
                    "ideal": ideal,
                    "efficiency": ratio.estimate / ideal,
                }
            )
        serial = serial_fraction(
            [row["ideal"] for row in family_rows], [row["speedup"] for row in family_rows]
        )
        for row in family_rows:
            row["serial_fraction"], row["fitted"] = serial, amdahl(row["ideal"], serial)
        rows += family_rows
    return pd.DataFrame(rows, columns=SCALING_COLUMNS)


def published_scaling(frame: pd.DataFrame, published: Sequence[PublishedRow]) -> pd.DataFrame:
    """One row per published row with vCPUs, for models that `frame` has with several numbers of
    threads.

    Columns: `source`, `model`, `build`, `threads` (vCPUs), `seconds` as published, `speedup` over
    the fewest vCPUs of the same source, model and build; `ideal`, `serial_fraction`, `fitted` as in
    `scaling`; `speedup_low`, `speedup_high`: missing.
    """
    measured: dict[str, set[int]] = {}
    for model, device in frame[["model", "device"]].drop_duplicates().itertuples(index=False):
        if (threads := threads_of(device)) is not None:
            measured.setdefault(model, set()).add(threads)
    families: dict[tuple[str, str, str], dict[int, float]] = {}
    for row in published:
        if row.vcpus and not row.below and len(measured.get(row.model, ())) > 1:
            family = families.setdefault((row.source, row.model, row.build), {})
            family.setdefault(row.vcpus, row.train_seconds)
    rows: list[dict[str, Any]] = []
    for (source, model, build), seconds in families.items():
        if len(seconds) < MIN_COUNTS:
            continue
        least = min(seconds)
        speedups = {count: seconds[least] / seconds[count] for count in sorted(seconds)}
        serial = serial_fraction([count / least for count in speedups], list(speedups.values()))
        rows += [
            {
                "source": source, "model": model, "build": build, "threads": count,
                "seconds": seconds[count], "speedup": speedup, "speedup_low": None,
                "speedup_high": None, "ideal": count / least, "serial_fraction": serial,
                "fitted": amdahl(count / least, serial),
            }
            for count, speedup in speedups.items()
        ]  # fmt: skip
    return pd.DataFrame(rows, columns=PUBLISHED_COLUMNS)


def amdahl(threads: float, serial: float) -> float:
    """The speed-up on n = `threads` threads if a share s = `serial` of the work is serial (Amdahl,
    AFIPS 1967): 1 / (s + (1 - s) / n)."""
    return 1 / (serial + (1 - serial) / threads)


def serial_fraction(threads: list[float], speedups: list[float]) -> float:
    """The least-squares estimate of the serial share s in Amdahl's law, clipped to [0, 1]. The
    inverse speed-up is linear in s, 1/S = 1/n + s (1 - 1/n), so it has a closed form."""
    points = [
        (1 - 1 / n, 1 / speedup - 1 / n) for n, speedup in zip(threads, speedups, strict=True)
    ]
    squares = sum(x * x for x, _ in points)
    return min(1.0, max(0.0, sum(x * y for x, y in points) / squares)) if squares else 0.0
