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
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rnnbench import locks
from rnnbench.builds.pins import Pins, lock_without, locked_versions, pins_of
from rnnbench.builds.uv import find, install_hint, run, uv_program
from rnnbench.errors import BuildError

MARKER = "rnnbench.json"
PACKAGES_REMEDY = (
    "check the access to the package registry and run the same command again. Wheels that the "
    "registry does not have (torch without CUDA) are found through UV_FIND_LINKS or UV_INDEX."
)


def prepare(
    build: Mapping[str, Any], root: Path, say: Callable[[str], None] = lambda message: None
) -> dict[str, Any] | None:
    """Ensures that the environment of a locked build exists and is undamaged. Returns its marker,
    or None if the build has no environment. See `make`."""
    pins = pins_of(build, root)
    return None if pins is None else make(pins, root, say)


def make(
    pins: Pins, root: Path, say: Callable[[str], None] = lambda message: None
) -> dict[str, Any]:
    """Creates the environment of `pins` below `root`, unless it exists and is undamaged. Returns
    its marker. Of several processes, one creates it and the others wait. Raises `BuildError`."""
    folder = pins.folder(root)

    def on_wait(holder: str) -> None:
        say(f"waiting for the environment {pins.key} ({holder})")

    with locks.locked(folder.with_suffix(".lock"), f"process {os.getpid()}", on_wait):
        if reason := damage(folder):
            if (folder / MARKER).exists():
                say(f"the environment {pins.key} is damaged ({reason}) and is created anew")
            _make(pins, folder)
        return dict(json.loads((folder / MARKER).read_text(encoding="utf-8")))


def damage(folder: Path) -> str | None:
    """The first fault of the environment, or None. Checks the size, not the content, of every file
    that a package has recorded; takes about 50 ms."""
    try:
        marker = json.loads((folder / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "it is incomplete"
    python = folder / "bin" / "python"
    if not os.access(python, os.X_OK):
        return f"{python.resolve()} is missing"
    packages = folder / marker["packages"]
    records = list(packages.glob("*.dist-info/RECORD"))
    if len(records) < len(marker["versions"]):
        return f"{len(marker['versions']) - len(records)} packages are missing"
    for record in records:
        with record.open(encoding="utf-8", newline="") as file:
            # Some packages record bytecode, which is recompiled here.
            rows = [row for row in csv.reader(file) if len(row) == 3 and row[2].isdigit()]
        for name, _, recorded in rows:
            if not name.endswith(".pyc") and (fault := _fault(f"{packages}/{name}", recorded)):
                return f"{name} {fault}"
    return None


def _fault(file: str, recorded: str) -> str | None:
    try:
        size = os.stat(file).st_size
    except OSError:
        return "is missing"
    return None if size == int(recorded) else f"has {size} bytes, not {recorded}"


def _make(pins: Pins, folder: Path) -> None:
    if (python := find(pins.python)) is None:
        what = f"Python {pins.python} is not installed on this machine."
        raise BuildError(what, where=str(pins.lock), remedy=install_hint(pins.python))
    start, where = time.monotonic(), f"environment {pins.key}"
    shutil.rmtree(folder, ignore_errors=True)

    def uv(*arguments: str) -> None:
        command = [uv_program(), "--quiet", *arguments, "--no-config"]
        run(command, where=where, remedy=PACKAGES_REMEDY)

    uv("venv", "--no-project", "--python", str(python), str(folder))
    lock = folder / "packages.lock"
    lock.write_text(lock_without(pins), encoding="utf-8")
    target = ("--python", str(folder / "bin" / "python"), "--link-mode", "copy")
    uv("pip", "sync", *target, "--require-hashes", str(lock))
    if pins.wheel is not None:
        wheel = str(pins.wheel.resolve())
        uv("pip", "install", *target, "--no-deps", "--no-index", wheel)
    packages = next(folder.glob("lib/python*/site-packages"))
    # uv's --compile-bytecode needs Python 3.7; every Python has compileall. A package may contain
    # files that this Python version cannot compile: exit status 1 is not an error.
    shell = 'exec 2>&1; "$0" -m compileall -q -j 0 "$1" || test $? -eq 1'
    compile_all = ["sh", "-c", shell, str(folder / "bin" / "python"), str(packages)]
    run(compile_all, where=where, remedy=PACKAGES_REMEDY)
    marker: dict[str, Any] = {
        "environment": pins.key,
        "digest": pins.digest,
        "python": pins.python,
        "interpreter": str(python),
        "lock": pins.lock.name,
        "wheel": None if pins.wheel is None else pins.wheel.name,
        "versions": locked_versions(pins),
        "packages": str(packages.relative_to(folder)),
        "seconds": round(time.monotonic() - start, 1),
    }
    count, locked = len(list(packages.glob("*.dist-info/RECORD"))), len(marker["versions"])
    if count < locked:
        what = f"{pins.key}: {count} of {locked} packages were installed."
        raise BuildError(what, where=str(folder), remedy=PACKAGES_REMEDY)
    temporary = folder / f".{MARKER}"
    temporary.write_text(json.dumps(marker, indent=1), encoding="utf-8")
    temporary.replace(folder / MARKER)
