"""The commands about what this machine has and lacks: datasets, environments, `doctor`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from rnnbench.builds.environments import make
from rnnbench.builds.launcher import launcher, missing
from rnnbench.builds.pins import build_of, pins, pins_of, python_versions, relock
from rnnbench.commands.arguments import CONF, Arguments, command_parser, project_conf
from rnnbench.datasets.generate import GENERATORS
from rnnbench.datasets.pins import pin_of, pinned, verify
from rnnbench.datasets.provide import MIRROR, provide, read_dataset
from rnnbench.errors import BuildError, RnnbenchError, say
from rnnbench.grid.choices import Build
from rnnbench.records.store import write_json
from rnnworker import cuda_toolkit, machine, workers

LOW_DISK_BYTES = 5e9  # free


def environment(arguments: Sequence[str]) -> int:
    """Make the environment of a lock file, a Python version and an optional wheel, unless it is
    complete already, and write its description to ``--output``."""
    declared: Arguments = {
        "lock": {"type": Path, "help": "a lock file with hashes"},
        "--python": {
            "required": True,
            "metavar": "VERSION",
            "help": "the Python version, such as 3.7",
        },
        "--wheel": {"type": Path, "help": "a wheel that replaces the locked one"},
        "--output": {
            "type": Path,
            "help": "a JSON file to write: path, Python and package versions",
        },
    }
    options = command_parser(environment, declared).parse_args(arguments)
    try:
        requested = pins(options.lock, options.python, options.wheel)
    except OSError as error:
        raise BuildError(f"cannot be read: {error}.", where=str(options.lock)) from error

    made = make(requested, Path.cwd(), say)

    if options.output:
        write_json(options.output, made)
    packages = len(made.versions)
    print(f"{made.environment}: Python {made.python}, {packages} packages")
    return 0


def lock(arguments: Sequence[str]) -> int:
    """Resolve the packages of builds, workflow/envs/*.in, to lock files with hashes: of the named
    builds, or of all builds that have a lock."""
    declared: Arguments = {
        "names": {"nargs": "*", "metavar": "NAME", "help": "a lock's name (default: all)"},
        "--upgrade": {"action": "store_true", "help": "use newer versions where they are allowed"},
    }
    options = command_parser(lock, declared).parse_args(arguments)

    root = Path.cwd()
    versions = python_versions(root / "conf", tuple(options.names))
    for name, python in versions.items():
        file = relock(
            name,
            python,
            root,
            upgrade=options.upgrade,
        )
        print(f"{file}: Python {python}")
    return 0


def dataset(arguments: Sequence[str]) -> int:
    """Provide the pinned files of data sets in data/: fetch or make what is missing."""
    declared: Arguments = {
        "names": {"nargs": "+", "metavar": "NAME", "help": "a data set of conf/dataset"},
        "--check": {
            "action": "store_true",
            "help": "check the files that are there; fetch nothing",
        },
    }
    options = command_parser(dataset, declared).parse_args(arguments)

    root = Path.cwd()
    code = 0
    for name in options.names:
        try:
            choice = read_dataset(name, root)
            if options.check:
                pin = pin_of(choice.path, root)
                verify(root / pin.path, pin, name)
            else:
                provide(choice, root)
            print(f"{name}: {choice.path} holds the pinned bytes.")
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

    options = command_parser(doctor, {"--conf": CONF}).parse_args(arguments)
    root = Path.cwd()
    conf = project_conf(root, options.conf)

    files = {group: files_of(conf, group) for group in ("device", "build", "dataset")}
    sections = compose_choices(conf, files, default_model=True).sections

    devices: dict[str, str | None] = {}
    builds = []
    datasets = []
    for (group, name), section in sorted(sections.items()):
        if group == "device":
            devices[name] = unmet_here(section)
        elif group == "build":
            builds.append(build_of(section))
        elif group == "dataset":
            datasets.append(section)

    facts = machine.fingerprint()
    cards = ", ".join(card["name"] for card in facts["gpus"]) or "no NVIDIA GPU"
    memory = facts["memory_bytes"] / 2**30
    cores = f"{facts['available_cores']} of {facts['cores']} cores"
    print(f"machine    {facts['machine']}: {facts['cpu']}, {cores}, {memory:.0f} GiB, {cards}")

    lines = _host(root)
    lines += _available("devices", devices)
    lines += _builds(builds, root)
    lines += _datasets(datasets, root)
    lines.append(_tracking(root))
    for line in lines:
        print(line)
    return 0


def _host(root: Path) -> list[str]:
    """What would distort the numbers, and whether the disk is nearly full."""
    from rnnbench.running import host_check

    warnings = host_check.warnings(host_check.read_host_facts())
    free = shutil.disk_usage(root).free
    if free < LOW_DISK_BYTES:
        warnings.append(f"only {free / 1e9:.1f} GB of disk are free; an environment takes 2 GB")
    if not warnings:
        return [f"host       quiet; {free / 1e9:.0f} GB of disk free"]
    return [f"warning    {warning}" for warning in warnings]


def _available(
    title: str,
    reasons: Mapping[str, str | None],
    of_others: str = "not {names}: {why}",
) -> list[str]:
    """One line with the choices that this machine has (reason None), and one line with the other
    choices for each reason.

    `of_others`: the form of these lines.
    """
    able = []
    names_by_reason: dict[str, list[str]] = {}
    for name, why in reasons.items():
        if why is None:
            able.append(name)
        else:
            names_by_reason.setdefault(why, []).append(name)

    lines = [f"{title:10} {', '.join(able) or 'none'}"]
    for why, names in names_by_reason.items():
        line = of_others.format(names=", ".join(names), why=why)
        lines.append(f"  {line}")
    return lines


def _builds(builds: Sequence[Build], root: Path) -> list[str]:
    """Which builds can run, with the state of the environments of those that have a separate one;
    and those that run on this machine's GPU only with a CUDA toolkit, which is not found."""
    reasons: dict[str, str | None] = {}
    warnings = []
    for build in builds:
        name = str(build.name)
        why = missing(build, root)
        if why is not None:
            reasons[name] = why
            continue

        pins = pins_of(build, root)
        if pins is not None:
            state = "made at first use"
            if pins.folder(root).exists():
                state = "ready"
            name = f"{name} ({state})"
        elif build.framework == "keras3_jax" and machine.gpus():
            variables = workers.environment_of({"build": to_builtins(build)}, 1)
            advice = cuda_toolkit.advice_for(launcher(build, root), variables)
            if advice:
                warnings.append(f"warning    {name}: {advice}")
        reasons[name] = None
    return _available("builds", reasons) + warnings


def _datasets(datasets: Sequence[Mapping[str, Any]], root: Path) -> list[str]:
    """The pinned data sets that are here, and where each of the others comes from."""
    mirror = os.environ.get(MIRROR)
    pins = pinned(root)
    sources: dict[str, str | None] = {}
    for dataset in datasets:
        path = dataset.get("path")
        if path not in pins:
            continue

        url = dataset.get("url")
        if (root / path).exists():
            source = None
        elif dataset["file"] in GENERATORS:
            source = "generated without network access"
        elif mirror and url:
            source = f"from {MIRROR}={mirror} or their URLs"
        elif mirror:
            source = f"from {MIRROR}={mirror} only"
        elif url:
            source = "from their URLs"
        else:
            source = f"need {MIRROR}, which is not set"
        sources[dataset["name"]] = source
    return _available("datasets", sources, of_others="{why}: {names}")


def _tracking(root: Path) -> str:
    """The address of MLflow's store, or why its server cannot be reached."""
    from rnnbench.tracking.store import check_server, is_server, redacted, tracking_uri

    uri = tracking_uri(root)
    try:
        if is_server(uri):
            check_server(uri)
    except RnnbenchError as error:
        return f"warning    MLflow: {error}"
    return f"MLflow     {redacted(uri, uri)}"
