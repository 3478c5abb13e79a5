"""What Snakemake asks a command for, as it stands in the plan."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rnnbench.errors import RunError
from rnnbench.records.store import read_json
from rnnbench.running.train import Place, timing_lock


def preflight_asked(
    command: str, about: str | None, arguments: Sequence[str], what: str
) -> tuple[Mapping[str, Any], Place]:
    """The ``certificate`` or ``probe`` (`what`) that the `arguments` of ``rnnbench`` `command` ask
    for, as planned, and where it is made."""
    parser = argparse.ArgumentParser(prog=f"rnnbench {command}", description=about)
    parser.add_argument("file", type=Path, help=f"results/SITE/EXPERIMENT/{what}s/KEY.json")
    parser.add_argument("--digest", required=True, help=f"of the {what}, as planned")
    parser.add_argument("--root", type=Path, default=Path(), help="the project's folder")
    options = parser.parse_args(arguments)
    file = options.file.resolve()
    experiment, site, results = (file.parents[i] for i in (1, 2, 3))
    place = Place(options.root.resolve(), results, site.name, experiment.name, timing_lock())
    planned = read_json(experiment / f"{what}s.json").get(file.stem)
    return still_planned(planned, options.digest, f"{what} {file.stem}"), place


def still_planned(planned: Mapping[str, Any] | None, digest: str, where: str) -> Mapping[str, Any]:
    """`planned`, or a `RunError` where that is no longer what Snakemake asked for."""
    if planned is None or planned["digest"] != digest:
        raise RunError(
            "was planned anew while this command was waiting to start.",
            where=where,
            remedy="run the same snakemake command again.",
        )
    return planned
