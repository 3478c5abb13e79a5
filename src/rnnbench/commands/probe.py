"""``rnnbench probe FILE --digest …``: what can this device do in this build? Snakemake calls
this."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rnnbench.commands.train import die_with_parent, interrupt
from rnnbench.errors import RunError
from rnnbench.records.store import read_json
from rnnbench.running.probe import probe
from rnnbench.running.progress import say
from rnnbench.running.train import Place, timing_lock


def main(arguments: Sequence[str]) -> int:
    """Returns 0 also where the probe failed: its file says why, and the runs go on."""
    options = _parse(arguments)
    die_with_parent()
    signal.signal(signal.SIGTERM, interrupt)
    root, file = options.root.resolve(), options.file.resolve()
    experiment, site, results = (file.parents[i] for i in (1, 2, 3))
    place = Place(root, results, site.name, experiment.name, timing_lock())
    planned = read_json(place.folder / "probes.json").get(file.stem)
    if planned is None or planned["digest"] != options.digest:
        raise RunError(
            "was planned anew while this command was waiting to start.",
            where=f"probe {file.stem}",
            remedy="run the same snakemake command again.",
        )
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


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="rnnbench probe", description=__doc__)
    parser.add_argument("file", type=Path, help="results/SITE/EXPERIMENT/probes/KEY.json")
    parser.add_argument("--digest", required=True, help="of the probe, as planned")
    parser.add_argument("--root", type=Path, default=Path(), help="the project's folder")
    return parser.parse_args(arguments)
