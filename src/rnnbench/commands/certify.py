"""``rnnbench certify FILE --digest …``: do the implementations compute the same function?
Snakemake calls this."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from typing import Any

from rnnbench.commands.planned_item import preflight_asked
from rnnbench.commands.round import check_dataset, die_with_parent, interrupt
from rnnbench.running.certify import certify
from rnnbench.running.progress import say
from rnnworker.options import is_own


def main(arguments: Sequence[str]) -> int:
    die_with_parent()
    signal.signal(signal.SIGTERM, interrupt)
    planned, place = preflight_asked("certify", __doc__, arguments, "certificate")
    certificate = certify(planned, place, pinned_md5=check_dataset(place.root, planned))
    rnns = {entry["name"]: entry["rnn"] for entry in planned["implementations"]}
    for line in summary(certificate, rnns):
        say(line)
    return 0


def summary(certificate: Mapping[str, Any], rnns: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What a person reads: one line, and one more for each implementation that failed. `rnns`: by
    their names, their sections of a config."""
    found = certificate["implementations"]
    by = {
        status: [name for name, one in found.items() if one["status"] == status]
        for status in ("certified", "failed", "not_run")
    }
    words = [f"{len(names)} {status.replace('_', ' ')}" for status, names in by.items() if names]
    lines = [f"certificate {certificate['key']}: {', '.join(words)}"]
    return lines + [
        f"  {name} failed: {found[name]['why'].rstrip('.')}{_remedy(rnns[name])}"
        for name in by["failed"]
    ]


def _remedy(rnn: Mapping[str, Any]) -> str:
    if not is_own(rnn.get("implementation")):
        return ""
    file = rnn["implementation"]
    return f". Fix: mend {file} or its YAML; docs/own_kernel.md has the contract."
