"""Measure the peak rates of a device in a build (Snakemake calls this)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rnnbench.commands.planned_item import check_inputs, end_with_snakemake, requested_preflight
from rnnbench.planning.code_digest import prober_digest
from rnnbench.running.probe import probe
from rnnbench.running.progress import print_progress


def main(arguments: Sequence[str]) -> int:
    """Returns 0 even if the probe failed: its file says why, and the runs go on."""
    end_with_snakemake()
    planned, place = requested_preflight("probe", __doc__, arguments, "probe")
    code = prober_digest([model["settings"] for model in planned["models"]])
    where = f"probe {planned['key']}"
    check_inputs(where, planned["identity"], planned["config"], place.root, worker=code)
    print_progress(summary(probe(planned, place)))
    return 0


def summary(result: Mapping[str, Any]) -> str:
    """The line to print."""
    if result["error"]:
        return f"probe {result['key']} failed: {result['error']}"
    failed = sum(model["error"] is not None for model in result["models"])
    parts = [
        f"{result['peak_gflops']:.3g} GFLOP/s",
        f"{len(result['models'])} models" + (f", {failed} of them failed" if failed else ""),
    ]
    return f"probe {result['key']}: {', '.join(parts)}"
