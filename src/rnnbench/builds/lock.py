"""What a build is locked to: the bytes of its lock file, or else its Python and the versions of
what computes.

The latter are read from the installed distributions' metadata; no framework is imported.
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

from rnnbench.builds.launcher import environment, launcher, place
from rnnbench.builds.pins import locked_versions, normal, pins_of
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
SECONDS = 120

# Runs in any build's Python, from 3.6 on.
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
    """SHA-256 (hexadecimal); another one means that the build's runs are to be measured again.
    Where the build lies does not matter. Of a build with a lock file it is its pins' digest,
    known before anything is installed; of any other it is made from the build's Python
    version and the versions of its `DISTRIBUTIONS`. Errors: see `versions`."""
    if pins := pins_of(build, root):
        return pins.digest
    canonical = json.dumps(versions(build, root), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def versions(build: Mapping[str, Any], root: Path = Path()) -> dict[str, Any]:
    """``{"python": version, "distributions": {name: version}}`` of the build. Raises
    `ConfigError` where its Python is not there, `BuildError` where that cannot be run."""
    if pins := pins_of(build, root):
        locked = locked_versions(pins)
        named = {name: locked[normal(name)] for name in DISTRIBUTIONS if normal(name) in locked}
        return {"python": pins.python, "distributions": named}
    # What points into carried packages is about the machine that they are carried to.
    own = {key: value for key, value in environment(build).items() if "{packages}" not in value}
    start, extra = launcher(build, root), own
    # A variable such as PYTHONPATH changes what even this interpreter finds when it starts.
    if start == (sys.executable,) and not any(name.startswith("PYTHON") for name in extra):
        found = _running()
    else:
        found = _foreign(start, tuple(sorted(extra.items())), place(build))
    data: dict[str, Any] = json.loads(found)
    return data


@functools.cache
def _running() -> str:
    found = {}
    for name in DISTRIBUTIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return json.dumps({"python": platform.python_version(), "distributions": found})


@functools.cache
def _foreign(start: tuple[str, ...], extra: tuple[tuple[str, str], ...], where: str) -> str:
    # -B: nothing is written into the build.
    command = [*start, "-B", "-c", SCRIPT, json.dumps(DISTRIBUTIONS)]
    try:
        answer = subprocess.run(
            command,
            env={**os.environ, **dict(extra)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=True,
        )
        return json.dumps(json.loads(answer.stdout.strip().splitlines()[-1]))
    except subprocess.CalledProcessError as error:
        reason = (error.stderr.strip().splitlines() or ["no message"])[-1]
        raise _unusable(start, f"exit status {error.returncode}: {reason}", where) from error
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
        raise _unusable(start, str(error), where) from error


def _unusable(start: tuple[str, ...], reason: str, where: str) -> BuildError:
    return BuildError(
        f"{shlex.join(start)} cannot be run or says nothing about itself ({reason}).",
        where=where,
        remedy="see that this command line starts a working Python 3.",
    )
