"""Environments of locked builds: created by uv, checked before use, recreated if damaged.

An environment is complete when it contains its marker, which is written last. Its packages are
copies, not links into uv's cache, so damage does not spread to other environments.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from rnnbench import locks
from rnnbench.builds.pins import Pins, lock_without, locked_versions, pins_of
from rnnbench.builds.uv import find, install_hint, run, uv_program
from rnnbench.errors import BuildError
from rnnbench.grid.choices import Build

MARKER = "rnnbench.json"
LINK_MODE = "copy"  # how uv brings packages from its cache into an environment
PACKAGES_REMEDY = (
    "check the access to the package registry and run the same command again. Wheels that the "
    "registry does not have (torch without CUDA) are found through UV_FIND_LINKS or UV_INDEX."
)


class Marker(msgspec.Struct, frozen=True):
    """What an environment is made of.

    - `environment`, `digest`, `python`: of its `Pins`.
    - `lock`, `wheel`: the names of their files.
    - `interpreter`: the path of the Python that made it.
    - `versions`: package → version.
    - `packages`: the folder of its packages, relative to its own.
    - `seconds`: that making it took.
    """

    environment: str
    digest: str
    python: str
    interpreter: str
    lock: str
    wheel: str | None
    versions: dict[str, str]
    packages: str
    seconds: float


def prepare(
    build: Build,
    root: Path,
    say: Callable[[str], None] = lambda message: None,
) -> None:
    """Ensures that the environment of a locked build exists and is undamaged.

    `root`, `say`: as for `make`. Raises `ConfigError` and `BuildError`.
    """
    pins = pins_of(build, root)
    if pins is not None:
        make(pins, root, say)


def make(
    pins: Pins,
    root: Path,
    say: Callable[[str], None] = lambda message: None,
) -> Marker:
    """Creates the environment of `pins`, unless it exists and is undamaged. Returns its marker.

    Of several processes, one creates it and the others wait.

    - `root`: the project's folder.
    - `say`: called with messages about waiting and about damage.

    Raises `BuildError`.
    """
    folder = pins.folder(root)

    def on_wait(holder: str) -> None:
        say(f"waiting for the environment {pins.key} ({holder})")

    marker = folder / MARKER
    with locks.locked(folder.with_suffix(".lock"), f"process {os.getpid()}", on_wait):
        reason = damage(folder)
        if reason:
            if marker.exists():
                say(f"the environment {pins.key} is damaged ({reason}) and is created anew")
            _make(pins, folder)
        return _read(folder)


def _read(folder: Path) -> Marker:
    """The marker of an environment. Raises `OSError` or `ValueError` if there is none."""
    return msgspec.json.decode((folder / MARKER).read_bytes(), type=Marker)


def damage(folder: Path) -> str | None:
    """The first fault of the environment, or None.

    Checks the size, not the content, of every file that a package has recorded; takes about 50 ms.
    """
    try:
        marker = _read(folder)
    except (OSError, ValueError):
        return "it is incomplete"
    python = folder / "bin" / "python"
    if not os.access(python, os.X_OK):
        return f"{python.resolve()} is missing"
    packages = folder / marker.packages
    records = list(packages.glob("*.dist-info/RECORD"))
    lacking = len(marker.versions) - len(records)
    if lacking > 0:
        return f"{lacking} packages are missing"

    for record in records:
        with record.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
        for row in rows:
            if len(row) != 3 or not row[2].isdigit():
                continue
            name, _, recorded = row
            # Some packages record bytecode, which is recompiled here.
            if name.endswith(".pyc"):
                continue
            try:
                size = os.stat(f"{packages}/{name}").st_size
            except OSError:
                return f"{name} is missing"
            if size != int(recorded):
                return f"{name} has {size} bytes, not {recorded}"
    return None


def _make(pins: Pins, folder: Path) -> None:
    """Creates the environment, whatever is in its folder. Raises `BuildError`."""
    python = find(pins.python)
    if python is None:
        what = f"Python {pins.python} is not installed on this machine."
        raise BuildError(what, where=str(pins.lock), remedy=install_hint(pins.python))
    start = time.monotonic()
    where = f"environment {pins.key}"
    shutil.rmtree(folder, ignore_errors=True)

    def uv(*arguments: str) -> None:
        command = [uv_program(), "--quiet", *arguments, "--no-config"]
        run(command, where=where, remedy=PACKAGES_REMEDY)

    uv("venv", "--no-project", "--python", str(python), str(folder))
    created = str(folder / "bin" / "python")
    lock = folder / "packages.lock"
    lock.write_text(lock_without(pins), encoding="utf-8")
    target = ("--python", created, "--link-mode", LINK_MODE)
    uv("pip", "sync", *target, "--require-hashes", str(lock))
    wheel_file = None
    if pins.wheel is not None:
        wheel_file = pins.wheel.name
        wheel = str(pins.wheel.resolve())
        uv("pip", "install", *target, "--no-deps", "--no-index", wheel)

    packages = next(folder.glob("lib/python*/site-packages"))
    compile_packages(created, packages, where)
    versions = locked_versions(pins)
    count = len(list(packages.glob("*.dist-info/RECORD")))
    if count < len(versions):
        what = f"{pins.key}: {count} of {len(versions)} packages were installed."
        raise BuildError(what, where=str(folder), remedy=PACKAGES_REMEDY)
    marker = Marker(
        environment=pins.key,
        digest=pins.digest,
        python=pins.python,
        interpreter=str(python),
        lock=pins.lock.name,
        wheel=wheel_file,
        versions=versions,
        packages=str(packages.relative_to(folder)),
        seconds=round(time.monotonic() - start, 1),
    )
    temporary = folder / f".{MARKER}"
    temporary.write_text(json.dumps(msgspec.to_builtins(marker), indent=1), encoding="utf-8")
    temporary.replace(folder / MARKER)


def compile_packages(python: str, packages: Path, where: str) -> None:
    """Compiles the modules in the folder `packages` with the interpreter `python`. `where`: of a
    `BuildError`."""
    # uv's --compile-bytecode needs Python 3.7; every Python has compileall. A package may contain
    # files that this Python version cannot compile: exit status 1 is not an error.
    shell = 'exec 2>&1; "$0" -m compileall -q -j 0 "$1" || test $? -eq 1'
    run(["sh", "-c", shell, python, str(packages)], where=where, remedy=PACKAGES_REMEDY)
