"""The inputs of a locked build: a lock file, a Python version and, optionally, a user's wheel; and
how its lock file is resolved again.

Builds that differ only in their flags have equal pins and share one environment.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rnnbench.builds.uv import is_version, run, uv_program
from rnnbench.errors import ConfigError
from rnnbench.project import home

LOCKS = Path("workflow/envs")
ENVIRONMENTS = Path("results/envs")
# The first line of a package in a lock file.
PACKAGE = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)")
# Distributions with the same import name: a wheel of one replaces the others.
SAME_IMPORT = ({"tensorflow", "tensorflow-cpu", "tensorflow-gpu"},)

PLATFORM = "x86_64-manylinux_2_28"
OPTIONS = (
    *("--quiet", "--no-config", "--no-header", "--no-annotate", "--generate-hashes"),
    *("--no-emit-index-url", "--no-emit-find-links", "--python-platform", PLATFORM),
)


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
    of the project or of rnnbench, or a path relative to `root`. Raises `ConfigError`."""
    lock, python, wheel = build.get("lock"), str(build.get("python") or ""), build.get("wheel")
    if not lock:
        if wheel:
            remedy = "add the `lock` with the packages that the wheel needs."
            raise wrong(build, "has a `wheel` but no `lock`.", remedy)
        return None
    if build.get("command") or not is_version(python):
        what = f"has a `lock`, but `python` is {python or None!r} or there is a `command`."
        remedy = 'give a locked build a Python version (python: "3.11") and no `command`.'
        raise wrong(build, what, remedy)
    file = root / (lock if str(lock).endswith(".lock") else LOCKS / f"{lock}.lock")
    if not file.is_file() and not str(lock).endswith(".lock"):
        file = home(root) / LOCKS / f"{lock}.lock"
    if not file.is_file():
        raise wrong(build, f"{file} does not exist.", "run `make lock-builds`.")
    path = None if not wheel else root / Path(str(wheel)).expanduser()
    if path is not None and not (path.suffix == ".whl" and path.is_file()):
        raise wrong(build, f"wheel {path} is not a .whl file.", "correct the path.")
    return pins(file, python, path)


def build_file(build: Mapping[str, Any]) -> str:
    """The config file of the build, for messages."""
    return f"conf/build/{build.get('name')}.yaml"


def wrong(build: Mapping[str, Any], what: str, remedy: str) -> ConfigError:
    return ConfigError(what, where=build_file(build), remedy=remedy)


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
    matches = map(PACKAGE.match, lock_without(pins).splitlines())
    locked = {normal(match[1]): match[2] for match in matches if match}
    return locked | (dict([wheel_name(pins.wheel)]) if pins.wheel else {})


def lock_without(pins: Pins) -> str:
    """The text of the lock file without the packages that the wheel replaces."""
    text = pins.lock.read_text(encoding="utf-8")
    if pins.wheel is None:
        return text
    name, _ = wheel_name(pins.wheel)
    replaced = next((group for group in SAME_IMPORT if name in group), {name})
    kept, keep = "", True
    for line in text.splitlines():
        if match := PACKAGE.match(line):
            keep = normal(match[1]) not in replaced
        kept += f"{line}\n" if keep else ""
    return kept


def wheel_name(wheel: Path) -> tuple[str, str]:
    """(distribution, version) of a wheel, from its file name (PEP 427)."""
    name, version, *_ = wheel.stem.split("-")
    return normal(name), version


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def python_versions(conf: Path, choices: tuple[str, ...] = ()) -> dict[str, str]:
    """Lock → its Python version according to ``conf/build``. Raises `ConfigError` if two builds
    give one lock different versions, or if no build has a lock in `choices`."""
    versions: dict[str, str] = {}
    for file in sorted((conf / "build").glob("*.yaml")):
        build = yaml.safe_load(file.read_text(encoding="utf-8"))
        if not isinstance(build, dict) or not build.get("lock"):
            continue
        lock, python = str(build["lock"]), str(build.get("python"))
        if not is_version(python):
            what, remedy = f"python is {python}, which is not a version.", 'write python: "3.11".'
            raise ConfigError(what, where=str(file), remedy=remedy)
        if (known := versions.setdefault(lock, python)) != python:
            what = f"{lock} is for Python {python}, but for {known} in another build."
            remedy = "give one of them a separate lock."
            raise ConfigError(what, where=str(file), remedy=remedy)
    if unknown := sorted(set(choices) - set(versions)):
        remedy = f"use one of {', '.join(sorted(versions))}."
        raise ConfigError(f"no build has the lock {unknown[0]}.", where=str(conf), remedy=remedy)
    return {lock: versions[lock] for lock in sorted(versions) if not choices or lock in choices}


def relock(name: str, python: str, root: Path, *, upgrade: bool) -> Path:
    """Resolves ``NAME.in`` (with ``NAME.overrides``, if it exists) for that Python on x86-64 Linux,
    writes the lock file and returns its path. Raises `BuildError`."""
    source, lock = LOCKS / f"{name}.in", LOCKS / f"{name}.lock"
    overrides = LOCKS / f"{name}.overrides"
    arguments = ["pip", "compile", *OPTIONS, "--python-version", python]
    arguments += ["--overrides", str(root / overrides)] if (root / overrides).exists() else []
    arguments += ["--upgrade"] if upgrade else []
    run(
        [uv_program(), *arguments, str(root / source), "--output-file", str(root / lock)],
        where=str(source),
        remedy="correct its requirements, or check the access to the package registry.",
    )
    return lock
