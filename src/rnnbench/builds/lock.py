"""The identity of a build: its lock file or, without one, its Python and package versions.

Versions are read from the metadata of the installed distributions; no framework is imported.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rnnbench.builds.launcher import environment, launcher
from rnnbench.builds.pins import build_file, locked_versions, normal, pins_of
from rnnbench.errors import BuildError

DISTRIBUTIONS = (
    "tensorflow",
    "tensorflow-cpu",
    "keras",
    "tf_keras",
    "torch",
    "jax",
    "jaxlib",
    "numpy",
    "ml_dtypes",
    "h5py",
)
TIMEOUT = 120  # seconds

# Runs in the Python of any build, 3.6 or later.
SCRIPT = """
import json, platform, sys
def version(name):
    try:
        try:
            from importlib.metadata import version
        except ImportError:
            import pkg_resources
            return pkg_resources.get_distribution(name).version
        return version(name)
    except Exception:
        return None
found = {name: version(name) for name in json.loads(sys.argv[1])}
versions = {name: found[name] for name in found if found[name] is not None}
print("\\n" + json.dumps({"python": platform.python_version(), "distributions": versions}))
"""


def lock_of(build: Mapping[str, Any], root: Path = Path()) -> str:
    """SHA-256 (hexadecimal) of the build; if it changes, the build's runs must be repeated.

    It does not depend on the location of the build. For a build with a lock file it is the digest
    of its pins, known before anything is installed; for any other build it covers the versions of
    its Python and its `DISTRIBUTIONS`. Raises the errors of `versions`.
    """
    if pins := pins_of(build, root):
        return pins.digest
    canonical = json.dumps(versions(build, root), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def versions(build: Mapping[str, Any], root: Path = Path()) -> dict[str, Any]:
    """``{"python": version, "distributions": {name: version}}`` of the build. Raises `ConfigError`
    if its Python does not exist, `BuildError` if that Python cannot be run."""
    if pins := pins_of(build, root):
        locked = locked_versions(pins)
        installed = {name: locked[normal(name)] for name in DISTRIBUTIONS if normal(name) in locked}
        return {"python": pins.python, "distributions": installed}
    extra = environment(build)
    command = launcher(build, root)
    # A variable such as PYTHONPATH changes which packages the running interpreter would find.
    if command == (sys.executable,) and not any(name.startswith("PYTHON") for name in extra):
        text = _running()
    else:
        text = _foreign(command, tuple(sorted(extra.items())), build_file(build))
    data: dict[str, Any] = json.loads(text)
    return data


@functools.cache
def _running() -> str:
    installed = {}
    for name in DISTRIBUTIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            installed[name] = importlib.metadata.version(name)
    return json.dumps({"python": platform.python_version(), "distributions": installed})


@functools.cache
def _foreign(command: tuple[str, ...], extra: tuple[tuple[str, str], ...], where: str) -> str:
    try:
        result = subprocess.run(
            # -B: write no bytecode into the build.
            [*command, "-B", "-c", SCRIPT, json.dumps(DISTRIBUTIONS)],
            env={**os.environ, **dict(extra)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=True,
        )
        return json.dumps(json.loads(result.stdout.strip().splitlines()[-1]))
    except subprocess.CalledProcessError as error:
        reason = (error.stderr.strip().splitlines() or ["no message"])[-1]
        raise _unusable(command, f"exit status {error.returncode}: {reason}", where) from error
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
        raise _unusable(command, str(error), where) from error


def _unusable(command: tuple[str, ...], reason: str, where: str) -> BuildError:
    return BuildError(
        f"{shlex.join(command)} cannot be run or does not report its versions ({reason}).",
        where=where,
        remedy="make sure that this command starts a working Python 3.",
    )
