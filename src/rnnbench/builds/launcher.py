"""A build → the command that starts its Python, its environment variables, its identity, and why it
cannot run on this machine.

A build is the section ``build`` of a grid point's config: ``name``, ``framework``, ``environment``
(extra variables) and one of

- ``lock``, with ``python`` a version (3.7): a separate environment of pinned packages, one of which
  may be replaced by a ``wheel`` of the user;
- ``python``: a path, a name on PATH, a version, or None for the running interpreter;
- ``command``: a command line that ends in a Python, such as ``apptainer exec image.sif python3``.

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
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec

from rnnbench.builds.pins import build_file, locked_versions, normal, pins_of, wrong
from rnnbench.builds.uv import find, install_hint, is_version
from rnnbench.errors import BuildError, ConfigError
from rnnbench.grid.choices import Build
from rnnworker.frameworks.names import FRAMEWORKS
from rnnworker.workers import build_variables

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


class Versions(msgspec.Struct, frozen=True):
    """The versions of a build's Python and of those `distributions` that it has, by name."""

    python: str
    distributions: dict[str, str]


def launcher(build: Build, root: Path) -> tuple[str, ...]:
    """The first arguments of every command that runs in the build; the last one is its Python.

    - `root`: the project's top folder, to which relative paths are relative.

    For a locked build the path is returned even if its environment does not exist yet. Raises
    `ConfigError` if the program does not exist.
    """
    pins = pins_of(build, root)
    if pins:
        return (str((pins.folder(root) / "bin" / "python").absolute()),)
    python = build.python
    command = build.command
    if python and command:
        remedy = "keep the one that starts the build's Python."
        raise wrong(build, "has both a `python` and a `command`.", remedy)
    if not python and not command:
        return (sys.executable,)
    if python and is_version(str(python)):
        found = find(str(python))
        if found is None:
            what = f"Python {python} is not installed on this machine."
            raise wrong(build, what, install_hint(str(python)))
        return (str(found),)

    words = [str(python)]
    try:
        if command:
            words = shlex.split(command)
    except ValueError as error:
        what = f"command {command!r} cannot be split into words ({error})."
        raise wrong(build, what, "close its quotes.") from error
    if not words or not words[0]:
        raise wrong(build, "command is blank.", "name a program.")
    path = words[0]
    if "/" in path:
        # Do not resolve links: a virtual environment's python is a link that identifies it.
        path = str((root / Path(path).expanduser()).absolute())
    program = shutil.which(path)
    if program is None:
        key = "python"
        if command:
            key = "command"
        what = f"{key} {path} is not an executable program on this machine."
        raise wrong(build, what, f"install it, or correct {key}.")
    words[0] = program
    return tuple(words)


def environment(build: Build) -> dict[str, str]:
    """The environment variables that the build adds, as strings: booleans become 1 and 0, None
    becomes the empty string."""
    return build_variables({"environment": build.environment})


def lock_of(build: Build, root: Path = Path()) -> str:
    """SHA-256 (hexadecimal) of the build; if it changes, the build's runs must be repeated.

    - `root`: as for `launcher`.

    It does not depend on the location of the build. For a build with a lock file it is the digest
    of its pins, known before anything is installed; for any other build it covers the versions of
    its Python and its `DISTRIBUTIONS`. Raises the errors of `versions`.
    """
    pins = pins_of(build, root)
    if pins:
        return pins.digest
    canonical = json.dumps(
        msgspec.to_builtins(versions(build, root)), sort_keys=True, separators=(",", ":")
    )
    return hashlib.sha256(canonical.encode()).hexdigest()


def versions(build: Build, root: Path = Path()) -> Versions:
    """The versions of the build.

    - `root`: as for `launcher`.

    Raises `ConfigError` if its Python does not exist, `BuildError` if that Python cannot be run.
    """
    pins = pins_of(build, root)
    if pins:
        locked = locked_versions(pins)
        installed = {name: locked[normal(name)] for name in DISTRIBUTIONS if normal(name) in locked}
        return Versions(pins.python, installed)
    extra = environment(build)
    command = launcher(build, root)
    # A variable such as PYTHONPATH changes which packages the running interpreter would find.
    is_changed = any(name.startswith("PYTHON") for name in extra)
    if command == (sys.executable,) and not is_changed:
        return _running()
    return _foreign(command, tuple(sorted(extra.items())), build_file(build))


def forget() -> None:
    """Asks again for the `versions` of builds: packages may change while a process lives."""
    _running.cache_clear()
    _foreign.cache_clear()


@functools.cache
def _running() -> Versions:
    """The `versions` of the running interpreter."""
    installed = {}
    for name in DISTRIBUTIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            installed[name] = importlib.metadata.version(name)
    return Versions(platform.python_version(), installed)


@functools.cache
def _foreign(
    command: tuple[str, ...],
    extra: tuple[tuple[str, str], ...],
    where: str,
) -> Versions:
    """The `versions` that the Python of `command` reports when it has the variables `extra`."""
    try:
        result = subprocess.run(
            # -B: write no bytecode into the build.
            [*command, "-B", "-c", SCRIPT, json.dumps(DISTRIBUTIONS)],
            env={**os.environ, **dict(extra)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        if result.returncode:
            messages = result.stderr.strip().splitlines() or ["no message"]
            raise ValueError(f"exit status {result.returncode}: {messages[-1]}")
        return msgspec.json.decode(result.stdout.strip().splitlines()[-1], type=Versions)
    except (
        OSError,
        subprocess.TimeoutExpired,
        ValueError,
        IndexError,
    ) as error:
        what = f"{shlex.join(command)} cannot be run or does not report its versions ({error})."
        remedy = "make sure that this command starts a working Python 3."
        raise BuildError(what, where=where, remedy=remedy) from error


def missing(build: Build, root: Path = Path()) -> str | None:
    """Why the build cannot run on this machine and what to install, in one line; None if it can.

    - `root`: as for `launcher`.

    Reads package metadata; imports nothing."""
    try:
        pins = pins_of(build, root)
        if pins and find(pins.python) is None:
            return f"no Python {pins.python} on this machine: {install_hint(pins.python)}"
        command = launcher(build, root)
        installed = versions(build, root).distributions
    except (ConfigError, BuildError) as error:
        return f"{error.where}: {error.what.rstrip('.')}: {error.remedy.rstrip('.')}"

    for group in FRAMEWORKS[build.framework].needs:
        if any(installed.get(name, "").startswith(prefix) for name, prefix in group.items()):
            continue
        needed = " or ".join(f"{name} {prefix}x" for name, prefix in group.items())
        where = shlex.join(command)
        others = ", ".join(f"{name} {installed[name]}" for name in group if name in installed)
        if others:
            where += f" (it has {others})"
        name, prefix = next(iter(group.items()))
        package = f"'{name}=={prefix}*'"
        how = ""
        if len(command) == 1:
            how = f": uv pip install --python {command[0]} {package}"
        return f"{build.framework} needs {needed} in {where}. Install {package} there{how}"
    return None
