"""Check what this machine can measure and what would disturb its measurements."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rnnbench.builds.launcher import missing
from rnnbench.builds.pins import pins_of
from rnnbench.commands.arguments import add_conf, command_parser, conf_folders
from rnnbench.datasets.generate import GENERATORS
from rnnbench.datasets.pins import pinned
from rnnbench.datasets.provide import MIRROR
from rnnbench.errors import RnnbenchError
from rnnbench.grid.catalogue import files_of
from rnnbench.grid.compose import compose_choices
from rnnbench.grid.requirements import unmet_here
from rnnbench.running import host_check
from rnnbench.tracking.store import check_server, is_server, redacted, tracking_uri
from rnnworker import machine

LOW_DISK_BYTES = 5e9


def main(arguments: Sequence[str]) -> int:
    """Prints the findings. Returns 0 always: the user judges each finding."""
    parser = command_parser("doctor", __doc__)
    add_conf(parser)
    options = parser.parse_args(list(arguments))
    root = Path.cwd()
    conf = conf_folders(root / "conf", options.conf)
    groups = ("device", "build", "dataset")
    files = {group: files_of(conf, group) for group in groups}
    sections = compose_choices(conf, files, default_model=True).sections
    devices, builds, datasets = (
        [section for (of_group, _), section in sorted(sections.items()) if of_group == group]
        for group in groups
    )
    device_reasons = {device["name"]: unmet_here({"device": device}) for device in devices}
    build_reasons = {build["name"]: missing(build, root) for build in builds}
    for line in [
        *_machine(),
        *_host(root),
        *_available("devices", device_reasons),
        *_available("builds", build_reasons, _environment_states(builds, root)),
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
    warnings = host_check.warnings(host_check.read_host_facts())
    free = shutil.disk_usage(root).free
    if free < LOW_DISK_BYTES:
        warnings.append(f"only {free / 1e9:.1f} GB of disk are free; an environment takes 2 GB")
    for warning in warnings:
        yield f"warning    {warning}"
    if not warnings:
        yield f"host       quiet; {free / 1e9:.0f} GB of disk free"


def _available(
    title: str, reasons: Mapping[str, str | None], notes: Mapping[str, str] = MappingProxyType({})
) -> Iterator[str]:
    """One line with the choices that can run on this machine (reason None), and one line with the
    other choices for each reason."""
    able = [name for name, why in reasons.items() if why is None]
    labels = (f"{name} ({notes[name]})" if name in notes else name for name in able)
    yield f"{title:10} {', '.join(labels) or 'none'}"
    unavailable: dict[str, list[str]] = {}
    for name, why in reasons.items():
        if why is not None:
            unavailable.setdefault(why, []).append(name)
    for why, names in unavailable.items():
        yield f"  not {', '.join(names)}: {why}"


def _environment_states(builds: Sequence[Mapping[str, Any]], root: Path) -> dict[str, str]:
    """Build → the state of its environment, for builds that have a separate one."""
    states = {}
    for build in builds:
        with suppress(RnnbenchError):  # `missing` says why it cannot run
            if pins := pins_of(build, root):
                ready = pins.folder(root).exists()
                states[str(build["name"])] = "ready" if ready else "made at first use"
    return states


def _datasets(datasets: Sequence[Mapping[str, Any]], root: Path) -> Iterator[str]:
    listed = [dataset for dataset in datasets if dataset.get("path") in pinned(root)]
    present = [dataset["name"] for dataset in listed if (root / dataset["path"]).exists()]
    absent = [dataset for dataset in listed if dataset["name"] not in present]
    yield f"datasets   {', '.join(present) or 'none'}"
    mirror = os.environ.get(MIRROR)
    from_mirror = f"from {MIRROR}={mirror}"
    sources: dict[str, list[str]] = {}
    for dataset in absent:
        if dataset["file"] in GENERATORS:
            source = "generated without network access"
        elif dataset.get("url"):
            source = f"{from_mirror} or their URLs" if mirror else "from their URLs"
        else:
            source = (
                f"from {MIRROR}={mirror} only" if mirror else f"need {MIRROR}, which is not set"
            )
        sources.setdefault(source, []).append(dataset["name"])
    for source, names in sources.items():
        yield f"  {source}: {', '.join(names)}"


def _tracking(root: Path) -> Iterator[str]:
    uri = tracking_uri(root)
    try:
        if is_server(uri):
            check_server(uri)
        yield f"MLflow     {redacted(uri, uri)}"
    except RnnbenchError as error:
        yield f"warning    MLflow: {error}"
