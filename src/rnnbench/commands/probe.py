"""``rnnbench probe FILE --digest …``: what can this device do in this build? Snakemake calls
this."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from typing import Any

from rnnbench.commands.planned_item import preflight_asked
from rnnbench.commands.round import die_with_parent, interrupt
from rnnbench.running.probe import probe
from rnnbench.running.progress import say


def main(arguments: Sequence[str]) -> int:
    """Returns 0 also where the probe failed: its file says why, and the runs go on."""
    die_with_parent()
    signal.signal(signal.SIGTERM, interrupt)
    planned, place = preflight_asked("probe", __doc__, arguments, "probe")
    say(summary(probe(planned, place)))
    return 0


def summary(found: Mapping[str, Any]) -> str:
    """The line that a person reads."""
    if found["error"]:
        return f"probe {found['key']} failed: {found['error']}"
    failed = sum(model["error"] is not None for model in found["models"])
    words = [
        f"{found['peak_gflops']:.3g} GFLOP/s",
        f"{found['peak_gb_per_s']:.3g} GB/s",
        f"{len(found['models'])} models" + (f", {failed} of them failed" if failed else ""),
    ]
    return f"probe {found['key']}: {', '.join(words)}"
