"""Why a build cannot run on this machine."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rnnbench.builds.interpreters import find, install_hint
from rnnbench.builds.launcher import launcher
from rnnbench.builds.lock import versions
from rnnbench.builds.pins import build_file, pins_of
from rnnbench.errors import BuildError, ConfigError

# Framework → its requirements. Each group lists alternatives: distribution → version prefix.
FRAMEWORKS: Mapping[str, tuple[Mapping[str, str], ...]] = {
    "keras3_tensorflow": ({"keras": "3."}, {"tensorflow": "2.", "tensorflow-cpu": "2."}),
    "keras2_tensorflow2": (
        {"tf_keras": "2.", "keras": "2."},
        {"tensorflow": "2.", "tensorflow-cpu": "2."},
    ),
    "keras2_tensorflow1": ({"tensorflow": "1."},),
    "keras206_tensorflow1": ({"keras": "2.0."}, {"tensorflow": "1."}),
    "keras3_torch": ({"keras": "3."}, {"torch": "2."}),
    "keras3_jax": ({"keras": "3."}, {"jax": "0."}),
    "fake": (),
}


def missing(build: Mapping[str, Any], root: Path = Path()) -> str | None:
    """None if the build can run on this machine, else the reason and what to install, in one line.

    Reads package metadata; imports nothing. Raises `ConfigError` if the framework is not one of
    `FRAMEWORKS`: that is a mistake, not something to install.
    """
    framework = str(build.get("framework"))
    if framework not in FRAMEWORKS:
        raise ConfigError(
            f"unknown framework {framework!r}.",
            where=build_file(build),
            remedy=f"use one of {', '.join(FRAMEWORKS)}.",
        )
    try:
        pins = pins_of(build, root)
        if pins and find(pins.python) is None:
            return f"no Python {pins.python} on this machine: {install_hint(pins.python)}"
        command, installed = launcher(build, root), versions(build, root)["distributions"]
    except (ConfigError, BuildError) as error:
        return str(error)
    for group in FRAMEWORKS[framework]:
        if not any(installed.get(name, "").startswith(prefix) for name, prefix in group.items()):
            return _unmet(group, installed, command, framework)
    return None


def _unmet(
    group: Mapping[str, str], installed: Mapping[str, str], command: tuple[str, ...], framework: str
) -> str:
    needed = " or ".join(f"{name} {prefix}x" for name, prefix in group.items())
    others = ", ".join(f"{name} {installed[name]}" for name in group if name in installed)
    has = f" (it has {others})" if others else ""
    first = next(iter(group))
    package = f"'{first}=={group[first]}*'"
    how = "" if len(command) > 1 else f": uv pip install --python {command[0]} {package}"
    return f"{framework} needs {needed} in {shlex.join(command)}{has}. Install {package} there{how}"
