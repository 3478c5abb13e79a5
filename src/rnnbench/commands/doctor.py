"""``rnnbench doctor``: what this machine can measure, and what would spoil its numbers."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rnnbench.builds.missing import missing
from rnnbench.builds.pins import pins_of
from rnnbench.commands.experiment_arguments import conf_folders
from rnnbench.datasets.pins import pinned
from rnnbench.datasets.provide import MIRROR
from rnnbench.errors import RnnbenchError
from rnnbench.grid.catalogue import files_of
from rnnbench.grid.compose import compose_choices
from rnnbench.grid.local_constraints import unmet_constraints
from rnnbench.running import host_check
from rnnbench.tracking.address import is_server, redacted, tracking_uri
from rnnbench.tracking.store import reach
from rnnworker import machine

LITTLE_SPACE = 5e9  # a build's environment has some 2 GB


def main(arguments: Sequence[str]) -> int:
    """Prints what it finds. Returns 0: each finding is for the person to judge."""
    parser = argparse.ArgumentParser(prog="rnnbench doctor", description=__doc__)
    parser.add_argument(
        "--conf", action="append", default=[], type=Path, metavar="DIR", help="further choices"
    )
    options = parser.parse_args(list(arguments))
    root = Path.cwd()
    conf = conf_folders(root / "conf", options.conf)
    groups = ("device", "build", "dataset")
    wanted = {group: files_of(conf, group) for group in groups}
    sections = compose_choices(conf, wanted, default_model=True).sections
    devices, builds, datasets = (
        [section for (found, _), section in sorted(sections.items()) if found == group]
        for group in groups
    )
    for line in [
        *_machine(),
        *_host(root),
        *_split("device", {one["name"]: unmet_constraints({"device": one}) for one in devices}),
        *_split("build", {one["name"]: missing(one, root) for one in builds}, _made(builds, root)),
        *_datasets(datasets, root),
        *_tracking(root),
    ]:
        print(line)
    return 0


def _machine() -> Iterator[str]:
    facts = machine.fingerprint()
    cards = ", ".join(card["name"] for card in facts["gpus"]) or "no NVIDIA GPU"
    memory = facts["memory_bytes"] / 2**30
    cores = f"{facts['available_cores']} of {facts['cores']} cores"
    yield f"machine    {facts['machine']}: {facts['cpu']}, {cores}, {memory:.0f} GiB, {cards}"


def _host(root: Path) -> Iterator[str]:
    found = host_check.warnings(host_check.look())
    free = shutil.disk_usage(root).free
    if free < LITTLE_SPACE:
        found.append(f"{free / 1e9:.1f} GB of disk are free; an environment takes some 2 GB")
    for warning in found:
        yield f"warning    {warning}"
    if not found:
        yield f"host       quiet; {free / 1e9:.0f} GB of disk free"


def _split(
    what: str, reasons: Mapping[str, str | None], notes: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Which can run here, in one line; then the others by the reason."""
    able = [name for name, why in reasons.items() if why is None]
    said = (f"{name} ({notes[name]})" if notes and name in notes else name for name in able)
    yield f"{what + 's':10} {', '.join(said) or 'none'}"
    others: dict[str, list[str]] = {}
    for name, why in reasons.items():
        if why is not None:
            others.setdefault(why, []).append(name)
    for why, names in others.items():
        yield f"  not {', '.join(names)}: {why}"


def _made(builds: Sequence[Mapping[str, Any]], root: Path) -> dict[str, str]:
    """Build → whether its environment is there, for those that have one of their own."""
    found = {}
    for build in builds:
        with suppress(RnnbenchError):  # `missing` says why it cannot run
            if pins := pins_of(build, root):
                ready = pins.folder(root).exists()
                found[str(build["name"])] = "ready" if ready else "made at first use"
    return found


def _datasets(datasets: Sequence[Mapping[str, Any]], root: Path) -> Iterator[str]:
    listed = [one for one in datasets if one.get("path") in pinned(root)]
    here = [one["name"] for one in listed if (root / one["path"]).exists()]
    absent = [one for one in listed if one["name"] not in here]
    yield f"datasets   {', '.join(here) or 'none'}"
    mirror = os.environ.get(MIRROR)
    for has_url, where in (
        (True, f"from {MIRROR}={mirror} or their URLs" if mirror else "from their URLs"),
        (False, f"from {MIRROR}={mirror} alone" if mirror else f"need {MIRROR}, which is not set"),
    ):
        names = [one["name"] for one in absent if bool(one.get("url")) == has_url]
        if names:
            yield f"  {where}: {', '.join(names)}"


def _tracking(root: Path) -> Iterator[str]:
    uri = tracking_uri(root)
    try:
        if is_server(uri):
            reach(uri)
        yield f"MLflow     {redacted(uri, uri)}"
    except RnnbenchError as error:
        yield f"warning    MLflow: {error}"
