"""What a locked build is made from: a lock file, a Python version, perhaps a wheel of one's own.

Builds that differ in their flags only have equal pins, and share one environment.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rnnbench.builds.interpreters import is_version
from rnnbench.errors import ConfigError

LOCKS = Path("workflow/envs")
ENVIRONMENTS = Path("results/envs")
# A line of a lock file that begins a package.
PACKAGE = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)")
# One import name: whichever of them a wheel holds takes the place of the others.
SAME_IMPORT = ({"tensorflow", "tensorflow-cpu", "tensorflow-gpu"},)


@dataclass(frozen=True)
class Pins:
    """`lock`: the lock file; `python`: a version; `wheel`: a file or None. `digest`: SHA-256
    over the three, without the lock's comments and without where anything lies."""

    lock: Path
    python: str
    wheel: Path | None
    digest: str

    @property
    def key(self) -> str:
        """The environment's name: readable, and another one for other pins."""
        return f"{self.lock.stem}-{self.digest[:8]}"

    def folder(self, root: Path) -> Path:
        return root / ENVIRONMENTS / self.key


def pins_of(build: Mapping[str, Any], root: Path) -> Pins | None:
    """The pins of a build with a ``lock``, None for any other. ``lock`` is a name in
    `LOCKS` or a path below `root`. Raises `ConfigError`."""
    where = f"conf/build/{build.get('name')}.yaml"
    lock, python, wheel = build.get("lock"), str(build.get("python") or ""), build.get("wheel")
    if not lock:
        if wheel:
            raise ConfigError(
                "has a `wheel` and no `lock`.",
                where=where,
                remedy="name the lock of the packages that the wheel needs around it.",
            )
        return None
    if build.get("command") or not is_version(python):
        raise ConfigError(
            f"has a `lock`, with python {python or None!r}.",
            where=where,
            remedy='a locked build has a Python version (python: "3.11") and no `command`.',
        )
    file = root / (lock if str(lock).endswith(".lock") else LOCKS / f"{lock}.lock")
    if not file.is_file():
        raise ConfigError(f"{file} does not exist.", where=where, remedy="make lock-builds")
    own = None if not wheel else root / Path(str(wheel)).expanduser()
    if own is not None and not (own.suffix == ".whl" and own.is_file()):
        raise ConfigError(f"wheel {own} is no .whl file.", where=where, remedy="correct the path.")
    return pins(file, python, own)


def pins(lock: Path, python: str, wheel: Path | None) -> Pins:
    """The pins of these files, whose bytes are read once. Raises `OSError`."""
    stamps = tuple(file.stat().st_mtime_ns for file in (lock, wheel) if file is not None)
    return Pins(lock, python, wheel, _digest(lock, python, wheel, stamps))


@functools.cache
def _digest(lock: Path, python: str, wheel: Path | None, stamps: tuple[int, ...]) -> str:
    state = hashlib.sha256(f"python {python}\n".encode())
    for line in lock.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            state.update(line.strip().encode() + b"\n")
    if wheel is not None:
        with wheel.open("rb") as file:
            state.update(hashlib.file_digest(file, "sha256").digest())
    return state.hexdigest()


def locked_versions(pins: Pins) -> dict[str, str]:
    """Distribution (as in PEP 503: small letters and hyphens) → version."""
    found = dict(_packages(pins.lock.read_text(encoding="utf-8")))
    if pins.wheel is not None:
        name, version = wheel_name(pins.wheel)
        found = {other: found[other] for other in found if other not in replaced_by(name)}
        found[name] = version
    return found


def lock_without(pins: Pins) -> str:
    """The lock file's text, less what the wheel takes the place of."""
    text = pins.lock.read_text(encoding="utf-8")
    if pins.wheel is None:
        return text
    gone = replaced_by(wheel_name(pins.wheel)[0])
    kept, keep = [], True
    for line in text.splitlines():
        if match := PACKAGE.match(line):
            keep = normal(match[1]) not in gone
        if keep:
            kept.append(line)
    return "\n".join(kept) + "\n"


def replaced_by(name: str) -> set[str]:
    return next((group for group in SAME_IMPORT if name in group), {name})


def wheel_name(wheel: Path) -> tuple[str, str]:
    """(distribution, version) of a wheel, from its file name (PEP 427)."""
    name, version, *_ = wheel.stem.split("-")
    return normal(name), version


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _packages(text: str) -> list[tuple[str, str]]:
    matches = (PACKAGE.match(line) for line in text.splitlines())
    return [(normal(match[1]), match[2]) for match in matches if match]
