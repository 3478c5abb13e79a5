"""The inputs of a locked build: a lock file, a Python version and, optionally, a user's wheel.

Builds that differ only in their flags have equal pins and share one environment.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rnnbench.builds.uv import is_version, run_uv
from rnnbench.errors import ConfigError

LOCKS = Path("workflow/envs")
ENVIRONMENTS = Path("results/envs")
# The first line of a package in a lock file.
PACKAGE = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)")
# Distributions with the same import name: a wheel of one replaces the others.
SAME_IMPORT = ({"tensorflow", "tensorflow-cpu", "tensorflow-gpu"},)


@dataclass(frozen=True)
class Pins:
    """`lock`: the lock file; `python`: a version; `wheel`: a file or None. `digest`: SHA-256 over
    the three, without the comments of the lock and independent of file locations."""

    lock: Path
    python: str
    wheel: Path | None
    digest: str

    @property
    def key(self) -> str:
        """The name of the environment: readable, and different for different pins."""
        return f"{self.lock.stem}-{self.digest[:8]}"

    def folder(self, root: Path) -> Path:
        return root / ENVIRONMENTS / self.key


def pins_of(build: Mapping[str, Any], root: Path) -> Pins | None:
    """The pins of a build with a ``lock``, None for any other build. ``lock`` is a name in `LOCKS`
    or a path relative to `root`. Raises `ConfigError`."""
    where = build_file(build)
    lock, python, wheel = build.get("lock"), str(build.get("python") or ""), build.get("wheel")
    if not lock:
        if wheel:
            raise ConfigError(
                "has a `wheel` but no `lock`.",
                where=where,
                remedy="add the `lock` with the packages that the wheel needs.",
            )
        return None
    if build.get("command") or not is_version(python):
        raise ConfigError(
            f"has a `lock`, but `python` is {python or None!r} or there is a `command`.",
            where=where,
            remedy='give a locked build a Python version (python: "3.11") and no `command`.',
        )
    file = root / (lock if str(lock).endswith(".lock") else LOCKS / f"{lock}.lock")
    if not file.is_file():
        raise ConfigError(f"{file} does not exist.", where=where, remedy="run `make lock-builds`.")
    path = None if not wheel else root / Path(str(wheel)).expanduser()
    if path is not None and not (path.suffix == ".whl" and path.is_file()):
        raise ConfigError(
            f"wheel {path} is not a .whl file.", where=where, remedy="correct the path."
        )
    return pins(file, python, path)


def build_file(build: Mapping[str, Any]) -> str:
    """The config file of the build, for messages."""
    return f"conf/build/{build.get('name')}.yaml"


def pins(lock: Path, python: str, wheel: Path | None) -> Pins:
    """The pins of these files, whose content is read only once. Raises `OSError`."""
    times = tuple(file.stat().st_mtime_ns for file in (lock, wheel) if file is not None)
    return Pins(lock, python, wheel, _digest(lock, python, wheel, times))


@functools.cache
def _digest(lock: Path, python: str, wheel: Path | None, times: tuple[int, ...]) -> str:
    state = hashlib.sha256(f"python {python}\n".encode())
    for line in lock.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            state.update(line.strip().encode() + b"\n")
    if wheel is not None:
        with wheel.open("rb") as file:
            state.update(hashlib.file_digest(file, "sha256").digest())
    return state.hexdigest()


def locked_versions(pins: Pins) -> dict[str, str]:
    """Distribution (normalized as in PEP 503: lower case, hyphens) → version."""
    locked = dict(_packages(pins.lock.read_text(encoding="utf-8")))
    if pins.wheel is not None:
        name, version = wheel_name(pins.wheel)
        replaced = replaced_by(name)
        locked = {other: locked[other] for other in locked if other not in replaced}
        locked[name] = version
    return locked


def lock_without(pins: Pins) -> str:
    """The text of the lock file without the packages that the wheel replaces."""
    text = pins.lock.read_text(encoding="utf-8")
    if pins.wheel is None:
        return text
    replaced = replaced_by(wheel_name(pins.wheel)[0])
    lines, keep = [], True
    for line in text.splitlines():
        if match := PACKAGE.match(line):
            keep = normal(match[1]) not in replaced
        if keep:
            lines.append(line)
    return "\n".join(lines) + "\n"


def replaced_by(name: str) -> set[str]:
    """The distributions that a wheel of `name` replaces."""
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


PLATFORM = "x86_64-manylinux_2_28"
OPTIONS = (
    *("--quiet", "--no-config", "--no-header", "--no-annotate", "--generate-hashes"),
    *("--no-emit-index-url", "--no-emit-find-links", "--python-platform", PLATFORM),
)


def python_versions(conf: Path, choices: tuple[str, ...] = ()) -> dict[str, str]:
    """Lock → its Python version according to ``conf/build``. Raises `ConfigError` if two builds
    give one lock different versions, or if no build has a lock in `choices`."""
    versions: dict[str, str] = {}
    for file, build in _locked(conf):
        lock, python = str(build["lock"]), str(build.get("python"))
        if not is_version(python):
            raise ConfigError(
                f"python is {python}, which is not a version.",
                where=str(file),
                remedy='write, for example, python: "3.11".',
            )
        if versions.setdefault(lock, python) != python:
            raise ConfigError(
                f"{lock} is for Python {python}, but for {versions[lock]} in another build.",
                where=str(file),
                remedy="give one of them a separate lock.",
            )
    unknown = sorted(set(choices) - set(versions))
    if unknown:
        raise ConfigError(
            f"no build has the lock {unknown[0]}.",
            where=str(conf),
            remedy=f"use one of {', '.join(sorted(versions))}.",
        )
    return {lock: versions[lock] for lock in sorted(versions) if not choices or lock in choices}


def relock(name: str, python: str, root: Path, *, upgrade: bool) -> Path:
    """Resolves ``NAME.in`` (with ``NAME.overrides``, if it exists) for that Python on x86-64 Linux,
    writes the lock file and returns its path. Raises `BuildError`."""
    source, lock = LOCKS / f"{name}.in", LOCKS / f"{name}.lock"
    overrides = LOCKS / f"{name}.overrides"
    arguments = ["pip", "compile", *OPTIONS, "--python-version", python]
    arguments += ["--overrides", str(root / overrides)] if (root / overrides).exists() else []
    arguments += ["--upgrade"] if upgrade else []
    run_uv(
        [*arguments, str(root / source), "--output-file", str(root / lock)],
        where=str(source),
        remedy="correct its requirements, or check the access to the package registry.",
    )
    return lock


def _locked(conf: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    for file in sorted((conf / "build").glob("*.yaml")):
        data = yaml.safe_load(file.read_text(encoding="utf-8"))
        if isinstance(data, dict) and data.get("lock"):
            yield file, data
