"""Lock files of builds: ``workflow/envs/NAME.in`` → ``NAME.lock``, with hashes but no index URL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from rnnbench.builds.interpreters import is_version
from rnnbench.builds.pins import LOCKS
from rnnbench.builds.uv import run_uv
from rnnbench.errors import ConfigError

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
