"""Check that a model's implementations compute the same function (Snakemake calls this)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rnnbench.commands.planned_item import (
    check_inputs,
    data_md5,
    end_with_snakemake,
    requested_preflight,
)
from rnnbench.planning.certificates import code_of
from rnnbench.running.certify import certify
from rnnbench.running.progress import print_progress
from rnnworker.options import is_user_file


def main(arguments: Sequence[str]) -> int:
    end_with_snakemake()
    planned, place = requested_preflight("certify", __doc__, arguments, "certificate")
    config = planned["config"]
    md5, pinned_md5 = data_md5(place.root, config["dataset"])
    code = code_of(config, planned["implementations"], planned["devices"])
    where = f"certificate {planned['key']}"
    check_inputs(where, planned["identity"], config, place.root, worker=code, md5=md5)
    certificate = certify(planned, place, pinned_md5=pinned_md5)
    rnns = {entry["name"]: entry["rnn"] for entry in planned["implementations"]}
    for line in summary(certificate, rnns):
        print_progress(line)
    return 0


def summary(certificate: Mapping[str, Any], rnns: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The lines to print: the counts, then one line for each implementation that failed. `rnns`:
    implementation → its ``rnn`` config section."""
    results = certificate["implementations"]
    by_status = {
        status: [name for name, result in results.items() if result["status"] == status]
        for status in ("certified", "failed", "not_run")
    }
    counts = [f"{len(names)} {key.replace('_', ' ')}" for key, names in by_status.items() if names]
    return [f"certificate {certificate['key']}: {', '.join(counts)}"] + [
        f"  {name} failed: {results[name]['why'].rstrip('.')}{_fix(rnns[name])}"
        for name in by_status["failed"]
    ]


def _fix(rnn: Mapping[str, Any]) -> str:
    if not is_user_file(rnn.get("implementation")):
        return ""
    return f". Fix: correct {rnn['implementation']} or its YAML, as docs/own_kernel.md describes."
