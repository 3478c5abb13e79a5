"""``rnnbench certify FILE --digest …``: do the implementations compute the same function?
Snakemake calls this."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rnnbench.commands.train import check_dataset, die_with_parent, interrupt
from rnnbench.errors import RunError
from rnnbench.records.store import read_json
from rnnbench.running.certify import certify
from rnnbench.running.progress import say
from rnnbench.running.train import Place, timing_lock


def main(arguments: Sequence[str]) -> int:
    options = _parse(arguments)
    die_with_parent()
    signal.signal(signal.SIGTERM, interrupt)
    root, file = options.root.resolve(), options.file.resolve()
    experiment, site, results = (file.parents[i] for i in (1, 2, 3))
    place = Place(root, results, site.name, experiment.name, timing_lock())
    planned = read_json(place.folder / "certificates.json").get(file.stem)
    if planned is None or planned["digest"] != options.digest:
        raise RunError(
            "was planned anew while this command was waiting to start.",
            where=f"certificate {file.stem}",
            remedy="run the same snakemake command again.",
        )
    certificate = certify(planned, place, pinned_md5=check_dataset(root, planned))
    for line in summary(certificate):
        say(line)
    return 0


def summary(certificate: Mapping[str, Any]) -> list[str]:
    """What a person reads: one line, and one more for each implementation that failed."""
    found = certificate["implementations"]
    by = {
        status: [name for name, one in found.items() if one["status"] == status]
        for status in ("certified", "failed", "not_run")
    }
    words = [f"{len(names)} {status.replace('_', ' ')}" for status, names in by.items() if names]
    lines = [f"certificate {certificate['key']}: {', '.join(words)}"]
    return lines + [f"  {name} failed: {found[name]['why']}" for name in by["failed"]]


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="rnnbench certify", description=__doc__)
    parser.add_argument("file", type=Path, help="results/SITE/EXPERIMENT/certificates/KEY.json")
    parser.add_argument("--digest", required=True, help="of the certificate, as planned")
    parser.add_argument("--root", type=Path, default=Path(), help="the project's folder")
    return parser.parse_args(arguments)
