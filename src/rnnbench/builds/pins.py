"""The inputs of a locked build: a lock file, a Python version and, optionally, a user's wheel; and
how its lock file is resolved again.

Builds that differ only in their flags have equal pins and share one environment.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rnnbench.builds.uv import is_version, run, uv_program
from rnnbench.errors import ConfigError
from rnnbench.grid.choices import Build
from rnnbench.grid.files import file_of, files_of, name_of_choice
from rnnbench.grid.values import typed
from rnnbench.project import home, read_yaml

LOCKS = Path("workflow/envs")
ENVIRONMENTS = Path("results/envs")
# The first line of a package in a lock file.
PACKAGE = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)")
# Distributions with the same import name: a wheel of one replaces the others.
SAME_IMPORT = ({"tensorflow", "tensorflow-cpu", "tensorflow-gpu"},)

PLATFORM = "x86_64-manylinux_2_28"
OPTIONS = (
    "--quiet",
    "--no-config",
    "--no-header",
    "--no-annotate",
    "--generate-hashes",
    "--no-emit-index-url",
    "--no-emit-find-links",
    "--python-platform",
    PLATFORM,
)


@dataclass(frozen=True)
class Pins:
    """The inputs of a locked build.

    - `lock`: the lock file.
    - `python`: a version.
    - `wheel`: a file or None.
    - `digest`: SHA-256 over the three, without the comments of the lock and independent of file
      locations.
    """

    lock: Path
    python: str
    wheel: Path | None
    digest: str

    @property
    def key(self) -> str:
        """The name of the environment: readable, and different for different pins."""
        return f"{self.lock.stem}-{self.digest[:8]}"

    def folder(self, root: Path) -> Path:
        """The folder of the environment in the project `root`."""
        return root / ENVIRONMENTS / self.key


def build_of(section: Mapping[str, object]) -> Build:
    """The build that the section ``build`` of a config describes. Raises a `ConfigError` that names
    the first wrong key."""
    where = f"conf/build/{section.get('name')}.yaml"
    return typed(section, Build, lambda key: where, "write another value.")


def build_named(name: str, conf: Sequence[Path], option: str) -> Build:
    """A build by its name in one of the config folders, or by the path of its YAML file. `option`:
    what names it. Raises `ConfigError`."""
    # Here, because processes that measure import this module and must stay small.
    from rnnbench.grid.compose import compose_choices

    file = file_of(files_of(conf, "build"), "build", name, option, Path.cwd())
    choice = name_of_choice(file)
    library = compose_choices(conf, {"build": {choice: file}}, default_model=True)
    return build_of(library.sections["build", choice])


def pins_of(build: Build, root: Path) -> Pins | None:
    """The pins of a build with a ``lock``, None for any other build.

    ``lock`` is a name in `LOCKS` of the project or of rnnbench, or a path relative to `root`.
    Raises `ConfigError`.
    """
    python = str(build.python or "")
    if not build.lock:
        if build.wheel:
            remedy = "add the `lock` with the packages that the wheel needs."
            raise wrong(build, "has a `wheel` but no `lock`.", remedy)
        return None
    if build.command or not is_version(python):
        what = f"has a `lock`, but `python` is {python or None!r} or there is a `command`."
        remedy = 'give a locked build a Python version (python: "3.11") and no `command`.'
        raise wrong(build, what, remedy)

    if build.lock.endswith(".lock"):
        file = root / build.lock
    else:
        name = LOCKS / f"{build.lock}.lock"
        file = root / name
        if not file.is_file():
            file = home(root) / name
    if not file.is_file():
        raise wrong(build, f"{file} does not exist.", "run `make lock-builds`.")

    if not build.wheel:
        return pins(file, python, None)
    path = root / Path(build.wheel).expanduser()
    if path.suffix != ".whl" or not path.is_file():
        raise wrong(build, f"wheel {path} is not a .whl file.", "correct the path.")
    return pins(file, python, path)


def build_file(build: Build) -> str:
    """The config file of the build, for messages."""
    return f"conf/build/{build.name}.yaml"


def wrong(build: Build, what: str, remedy: str) -> ConfigError:
    """The error about the build, in the words of `what` and `remedy`."""
    return ConfigError(what, where=build_file(build), remedy=remedy)


def pins(lock: Path, python: str, wheel: Path | None) -> Pins:
    """The pins of these files, whose content is read only once.

    - `lock`, `python`, `wheel`: as in `Pins`.

    Raises `OSError` if one of them cannot be read.
    """
    times = [lock.stat().st_mtime_ns]
    if wheel is not None:
        times.append(wheel.stat().st_mtime_ns)
    return Pins(lock, python, wheel, _digest(lock, python, wheel, tuple(times)))


@functools.cache
def _digest(
    lock: Path,
    python: str,
    wheel: Path | None,
    times: tuple[int, ...],
) -> str:
    """The digest of these files. `times`: when they were modified; only for the cache."""
    state = hashlib.sha256(f"python {python}\n".encode())
    for line in lock.read_text(encoding="utf-8").splitlines():
        line = line.strip()
        if line and not line.startswith("#"):
            state.update(f"{line}\n".encode())
    if wheel is not None:
        with wheel.open("rb") as file:
            state.update(hashlib.file_digest(file, "sha256").digest())
    return state.hexdigest()


def locked_versions(pins: Pins) -> dict[str, str]:
    """Distribution (normalized as in PEP 503: lower case, hyphens) → version."""
    locked = {}
    for line in lock_without(pins).splitlines():
        match = PACKAGE.match(line)
        if match:
            locked[normal(match[1])] = match[2]
    if pins.wheel:
        name, version = wheel_name(pins.wheel)
        locked[name] = version
    return locked


def lock_without(pins: Pins) -> str:
    """The text of the lock file without the packages that the wheel replaces."""
    text = pins.lock.read_text(encoding="utf-8")
    if pins.wheel is None:
        return text
    name, _ = wheel_name(pins.wheel)
    replaced = {name}
    for group in SAME_IMPORT:
        if name in group:
            replaced = group

    kept = ""
    keep = True
    for line in text.splitlines():
        match = PACKAGE.match(line)
        if match:
            keep = normal(match[1]) not in replaced
        if keep:
            kept += f"{line}\n"
    return kept


def wheel_name(wheel: Path) -> tuple[str, str]:
    """(distribution, version) of a wheel, from its file name (PEP 427).

    The distribution is normalized.
    """
    name, version = wheel.stem.split("-")[:2]
    return normal(name), version


def normal(name: str) -> str:
    """The name of a distribution as PEP 503 normalizes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def python_versions(conf: Path, choices: tuple[str, ...] = ()) -> dict[str, str]:
    """Lock → its Python version according to ``conf/build``.

    `choices`: the locks; all of them if empty. Raises `ConfigError` if two builds give one lock
    different versions, or if no build has a lock in `choices`.
    """
    versions: dict[str, str] = {}
    for file in sorted((conf / "build").glob("*.yaml")):
        build = read_yaml(file)
        if not isinstance(build, dict) or not build.get("lock"):
            continue
        lock = str(build["lock"])
        python = str(build.get("python"))
        if not is_version(python):
            what = f"python is {python}, which is not a version."
            raise ConfigError(what, where=str(file), remedy='write python: "3.11".')
        known = versions.setdefault(lock, python)
        if known != python:
            what = f"{lock} is for Python {python}, but for {known} in another build."
            remedy = "give one of them a separate lock."
            raise ConfigError(what, where=str(file), remedy=remedy)

    unknown = sorted(set(choices) - set(versions))
    if unknown:
        remedy = f"use one of {', '.join(sorted(versions))}."
        raise ConfigError(f"no build has the lock {unknown[0]}.", where=str(conf), remedy=remedy)
    return {lock: versions[lock] for lock in sorted(versions) if not choices or lock in choices}


def relock(
    name: str,
    python: str,
    root: Path,
    *,
    upgrade: bool,
) -> Path:
    """Resolves a lock file again, writes it and returns its path, relative to `root`.

    - `name`: the lock's; it is made of ``NAME.in``, with ``NAME.overrides`` if that exists.
    - `python`: the version; the platform is x86-64 Linux.
    - `upgrade`: whether packages may get newer versions than in the existing lock file.

    Raises `BuildError`.
    """
    source = LOCKS / f"{name}.in"
    lock = LOCKS / f"{name}.lock"
    overrides = root / LOCKS / f"{name}.overrides"
    arguments = ["pip", "compile", *OPTIONS, "--python-version", python]
    if overrides.exists():
        arguments += ["--overrides", str(overrides)]
    if upgrade:
        arguments.append("--upgrade")
    arguments += [str(root / source), "--output-file", str(root / lock)]
    run(
        [uv_program(), *arguments],
        where=str(source),
        remedy="correct its requirements, or check the access to the package registry.",
    )
    return lock
