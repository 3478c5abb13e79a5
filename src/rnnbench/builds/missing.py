"""Why a build cannot run on this machine."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rnnbench.builds.interpreters import find, how_to_get
from rnnbench.builds.launcher import launcher, place
from rnnbench.builds.lock import versions
from rnnbench.builds.pins import pins_of
from rnnbench.errors import BuildError, ConfigError

# Framework → what it needs: groups of distributions, one of each; name → how its version begins.
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
    """None where the build can run here, else why not and what to install, in one line.

    Metadata decides, nothing is imported. Raises `ConfigError` where the framework is none of
    `FRAMEWORKS`: that is a mistake, not something to install.
    """
    framework = str(build.get("framework"))
    if framework not in FRAMEWORKS:
        raise ConfigError(
            f"framework is {framework!r}.",
            where=place(build),
            remedy=f"take one of {', '.join(FRAMEWORKS)}.",
        )
    try:
        pins = pins_of(build, root)
        if pins and find(pins.python) is None:
            return f"no Python {pins.python} on this machine: {how_to_get(pins.python)}"
        start, found = launcher(build, root), versions(build, root)["distributions"]
    except (ConfigError, BuildError) as error:
        return str(error)
    for group in FRAMEWORKS[framework]:
        if not any(found.get(name, "").startswith(version) for name, version in group.items()):
            return _lacks(group, found, start, framework)
    return None


def _lacks(
    group: Mapping[str, str], found: Mapping[str, str], start: tuple[str, ...], framework: str
) -> str:
    wanted = " or ".join(f"{name} {version}x" for name, version in group.items())
    others = ", ".join(f"{name} {found[name]}" for name in group if name in found)
    has = f" (it has {others})" if others else ""
    first = next(iter(group))
    package = f"'{first}=={group[first]}*'"
    how = "" if len(start) > 1 else f": uv pip install --python {start[0]} {package}"
    return f"{framework} needs {wanted} in {shlex.join(start)}{has}. Install {package} there{how}"
