"""Environments of locked builds: made once by uv, looked at before use, remade where damaged.

An environment is whole when its marker, written last, is in it. Its packages are copies, not
links into uv's cache: damage to one stays in one.
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
from rnnbench.builds.interpreters import find, how_to_get
from rnnbench.builds.pins import Pins, lock_without, locked_versions, pins_of
from rnnbench.builds.uv import run, run_uv
from rnnbench.errors import BuildError

MARKER = "rnnbench.json"
PACKAGES_REMEDY = (
    "see that the package registry can be reached and run the same command again; wheels that "
    "are on no registry (torch's without CUDA) are found through UV_FIND_LINKS or UV_INDEX."
)


def prepare(
    build: Mapping[str, Any], root: Path, say: Callable[[str], None] = lambda words: None
) -> dict[str, Any] | None:
    """Sees to it that the environment of a locked build is there and whole, and returns what
    its marker says; None for a build that has none of its own. See `make`."""
    pins = pins_of(build, root)
    return None if pins is None else make(pins, root, say)


def make(pins: Pins, root: Path, say: Callable[[str], None] = lambda words: None) -> dict[str, Any]:
    """The environment of `pins` below `root`, made unless it is there and whole. Returns its
    marker. One process makes it, others wait. Raises `BuildError`."""
    folder = pins.folder(root)

    def waiting(holder: str) -> None:
        say(f"waiting for the environment {pins.key} ({holder})")

    try:
        with locks.locked(folder.with_suffix(".lock"), f"process {os.getpid()}", waiting):
            why = damage(folder)
            if why is None:
                return _marker(folder)
            if (folder / MARKER).exists():
                say(f"the environment {pins.key} is damaged ({why}) and is made anew")
            return _make(pins, folder)
    except OSError as error:
        raise BuildError(
            f"cannot be made: {error}.", where=str(folder), remedy="make room there, or unlock it."
        ) from error


def damage(folder: Path) -> str | None:
    """None where the environment is whole, else the first thing that is wrong. Every file
    that a package has recorded is looked at, its size and not its content: some 50 ms."""
    try:
        marker = _marker(folder)
    except (OSError, ValueError):
        return "it was not finished"
    python = folder / "bin" / "python"
    if not os.access(python, os.X_OK):
        return f"{python.resolve()} is gone"
    packages = folder / marker["packages"]
    records = list(packages.glob("*.dist-info/RECORD"))
    if len(records) < len(marker["versions"]):
        return f"{len(marker['versions']) - len(records)} packages are gone"
    for record in records:
        if lost := _lost(record, packages):
            return lost
    return None


def _lost(record: Path, packages: Path) -> str | None:
    with record.open(encoding="utf-8", newline="") as file:
        for row in csv.reader(file):
            # Bytecode is recorded by some packages and compiled anew by us.
            if len(row) != 3 or not row[2].isdigit() or row[0].endswith(".pyc"):
                continue
            try:
                size = os.stat(f"{packages}/{row[0]}").st_size
            except OSError:
                return f"{row[0]} is gone"
            if size != int(row[2]):
                return f"{row[0]} has {size} bytes, not {row[2]}"
    return None


def _marker(folder: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((folder / MARKER).read_text(encoding="utf-8"))
    return data


def _make(pins: Pins, folder: Path) -> dict[str, Any]:
    python = find(pins.python)
    if python is None:
        raise BuildError(
            f"there is no Python {pins.python} on this machine.",
            where=str(pins.lock),
            remedy=how_to_get(pins.python),
        )
    start = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    _uv(pins, "venv", "--no-project", "--no-config", "--python", str(python), str(folder))
    lock = folder / "packages.lock"
    lock.write_text(lock_without(pins), encoding="utf-8")
    inside = ("--python", str(folder / "bin" / "python"), "--link-mode", "copy")
    _uv(pins, "pip", "sync", "--no-config", *inside, "--require-hashes", str(lock))
    if pins.wheel is not None:
        wheel = str(pins.wheel.resolve())
        _uv(pins, "pip", "install", "--no-config", *inside, "--no-deps", "--no-index", wheel)
    packages = next(folder.glob("lib/python*/site-packages"))
    # uv's own --compile-bytecode needs Python 3.7; compileall is in all of them. A package may
    # hold a file that is no Python of this version: that is exit status 1 and no fault.
    shell = 'exec 2>&1; "$0" -m compileall -q -j 0 "$1" || test $? -eq 1'
    compile_all = ["sh", "-c", shell, str(folder / "bin" / "python"), str(packages)]
    run(compile_all, where=pins.key, remedy=PACKAGES_REMEDY)
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
    temporary = folder / f".{MARKER}"
    temporary.write_text(json.dumps(marker, indent=1), encoding="utf-8")
    if why := _unlike(folder, packages, len(marker["versions"])):
        raise BuildError(f"{pins.key}: {why}.", where=str(folder), remedy=PACKAGES_REMEDY)
    temporary.replace(folder / MARKER)
    return marker


def _unlike(folder: Path, packages: Path, count: int) -> str | None:
    found = len(list(packages.glob("*.dist-info/RECORD")))
    return None if found >= count else f"{found} of {count} packages were installed"


def _uv(pins: Pins, *arguments: str) -> None:
    run_uv(["--quiet", *arguments], where=f"environment {pins.key}", remedy=PACKAGES_REMEDY)
