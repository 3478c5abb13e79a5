"""The commands about what this machine has and lacks: datasets, environments, `doctor`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rnnbench.builds.environments import make
from rnnbench.builds.launcher import launcher, missing
from rnnbench.builds.pins import pins, pins_of, python_versions, relock
from rnnbench.commands.arguments import add_conf, command_parser, conf_folders
from rnnbench.datasets.generate import GENERATORS
from rnnbench.datasets.pins import pin_of, pinned, verify
from rnnbench.datasets.provide import MIRROR, provide, read_dataset
from rnnbench.errors import BuildError, RnnbenchError, say
from rnnbench.project import own_conf
from rnnbench.records.store import write_json
from rnnworker import cuda_toolkit, machine, workers

LOW_DISK_BYTES = 5e9


def environment(arguments: Sequence[str]) -> int:
    """Make the environment of a lock file, a Python version and an optional wheel, unless it is
    complete already, and write its description to ``--output``."""
    parser = command_parser(environment)
    parser.add_argument("lock", type=Path, help="a lock file with hashes")
    version = "the Python version, such as 3.7"
    parser.add_argument("--python", required=True, metavar="VERSION", help=version)
    parser.add_argument("--wheel", type=Path, help="a wheel that replaces the locked one")
    output = "a JSON file to write: path, Python and package versions"
    parser.add_argument("--output", type=Path, help=output)
    options = parser.parse_args(arguments)
    try:
        requested = pins(options.lock, options.python, options.wheel)
    except OSError as error:
        raise BuildError(f"cannot be read: {error}.", where=str(options.lock)) from error
    marker: dict[str, Any] = make(requested, Path.cwd(), say)
    if options.output:
        write_json(options.output, marker)
    print(f"{marker['environment']}: Python {marker['python']}, {len(marker['versions'])} packages")
    return 0


def lock(arguments: Sequence[str]) -> int:
    """Resolve the packages of builds, workflow/envs/*.in, to lock files with hashes: of the named
    builds, or of all builds that have a lock."""
    parser = command_parser(lock)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a lock's name (default: all)")
    parser.add_argument(
        "--upgrade", action="store_true", help="use newer versions where they are allowed"
    )
    options = parser.parse_args(arguments)
    root = Path.cwd()
    for name, python in python_versions(root / "conf", tuple(options.names)).items():
        print(f"{relock(name, python, root, upgrade=options.upgrade)}: Python {python}")
    return 0


def dataset(arguments: Sequence[str]) -> int:
    """Provide the pinned files of data sets in data/: fetch or make what is missing."""
    parser = command_parser(dataset)
    parser.add_argument("names", nargs="+", metavar="NAME", help="a data set of conf/dataset")
    parser.add_argument(
        "--check", action="store_true", help="check the files that are there; fetch nothing"
    )
    options = parser.parse_args(arguments)
    root = Path.cwd()
    code = 0
    for name in options.names:
        try:
            choice = read_dataset(name, root)
            if options.check:
                pin = pin_of(choice["path"], root)
                verify(root / pin.path, pin, name)
            else:
                provide(choice, root)
            print(f"{name}: {choice['path']} holds the pinned bytes.")
        except RnnbenchError as error:
            say(error)
            code = max(code, error.exit_code)  # the others are provided or checked all the same
    return code


def doctor(arguments: Sequence[str]) -> int:
    """Check what this machine can measure and what would disturb its measurements."""
    # Imported late: the other commands, which rules call, do not need them.
    from rnnbench.grid.compose import compose_choices
    from rnnbench.grid.files import files_of
    from rnnbench.grid.requirements import unmet_here

    parser = command_parser(doctor)
    add_conf(parser)
    options = parser.parse_args(arguments)
    root = Path.cwd()
    conf = conf_folders(root, options.conf or own_conf(root))
    groups = ("device", "build", "dataset")
    files = {group: files_of(conf, group) for group in groups}
    sections = compose_choices(conf, files, default_model=True).sections
    devices, builds, datasets = (
        [section for (group, _), section in sorted(sections.items()) if group == each]
        for each in groups
    )
    device_reasons = {device["name"]: unmet_here({"device": device}) for device in devices}
    build_reasons = {build["name"]: missing(build, root) for build in builds}
    for line in [
        *_machine(),
        *_host(root),
        *_available("devices", device_reasons),
        *_available("builds", build_reasons, _environment_states(builds, root)),
        *_toolkits([build for build in builds if build_reasons[build["name"]] is None], root),
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
    from rnnbench.running import host_check

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
    by_reason: dict[str | None, list[str]] = {None: []}
    for name, why in reasons.items():
        by_reason.setdefault(why, []).append(name)
    labels = (f"{n} ({notes[n]})" if n in notes else n for n in by_reason.pop(None))
    yield f"{title:10} {', '.join(labels) or 'none'}"
    for why, names in by_reason.items():
        yield f"  not {', '.join(names)}: {why}"


def _environment_states(builds: Sequence[Mapping[str, Any]], root: Path) -> dict[str, str]:
    """Build → the state of its environment, for builds that have a separate one."""
    states = {}
    for build in builds:
        with suppress(RnnbenchError):  # `missing` says why it cannot run
            pins = pins_of(build, root)
            if pins:
                ready = pins.folder(root).exists()
                states[str(build["name"])] = "ready" if ready else "made at first use"
    return states


def _toolkits(builds: Sequence[Mapping[str, Any]], root: Path) -> Iterator[str]:
    """The builds that run on this machine's GPU only with a CUDA toolkit, which is not found."""
    if not machine.gpus():
        return
    for build in builds:
        if build["framework"] == "keras3_jax" and pins_of(build, root) is None:
            environment = workers.environment_of({"build": build}, 1)
            advice = cuda_toolkit.advice_for(launcher(build, root), environment)
            if advice:
                yield f"warning    {build['name']}: {advice}"


def _datasets(datasets: Sequence[Mapping[str, Any]], root: Path) -> Iterator[str]:
    listed = [dataset for dataset in datasets if dataset.get("path") in pinned(root)]
    present = [dataset["name"] for dataset in listed if (root / dataset["path"]).exists()]
    absent = [dataset for dataset in listed if dataset["name"] not in present]
    yield f"datasets   {', '.join(present) or 'none'}"
    only = f"need {MIRROR}, which is not set"
    or_url = "from their URLs"
    mirror = os.environ.get(MIRROR)
    if mirror:
        only, or_url = (f"from {MIRROR}={mirror} {end}" for end in ("only", "or their URLs"))
    sources: dict[str, list[str]] = {}
    for dataset in absent:
        source = or_url if dataset.get("url") else only
        if dataset["file"] in GENERATORS:
            source = "generated without network access"
        sources.setdefault(source, []).append(dataset["name"])
    for source, names in sources.items():
        yield f"  {source}: {', '.join(names)}"


def _tracking(root: Path) -> Iterator[str]:
    from rnnbench.tracking.store import check_server, is_server, redacted, tracking_uri

    uri = tracking_uri(root)
    try:
        if is_server(uri):
            check_server(uri)
        yield f"MLflow     {redacted(uri, uri)}"
    except RnnbenchError as error:
        yield f"warning    MLflow: {error}"
