"""The digest of the worker code that a cell uses: what it computes, not how it is commented, and
the same whichever Python the conductor has."""

from __future__ import annotations

import ast
import hashlib
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import rnnworker
from rnnbench.errors import ConfigError
from rnnbench.planning import canonical_source
from rnnworker.options import is_own

_ROOT = Path(rnnworker.__file__).parent
_PACKAGE = "rnnworker"
_ENTRY = ("__main__.py",)
_CERTIFIER = ("certify.py",)
_PROBER = ("probe.py", "probing/*.py")
# What says which names there are, or what is refused before anything is made.
_REGISTERS = ("frameworks/names.py", "options.py")
Read = TypeVar("Read")


def worker_digest(config: Mapping[str, Any]) -> str:
    """SHA-256 over the modules that a run with `config` may use: its entry point, its
    framework, its implementation, its model's file, and what these import. Raises `ConfigError`
    where one of them is no Python."""
    data = config["model"]["data"]
    functions = {config["model"]["function"], data["prepare"], data.get("augment")} - {None}
    return _digest(
        config["build"]["framework"], config["rnn"].get("implementation"), frozenset(functions)
    )


@cache
def _digest(framework: str, implementation: str | None, functions: frozenset[str]) -> str:
    """Of thousands of runs a few differ in these, and no file changes while a plan is made."""
    chosen = [_ROOT / "frameworks" / f"{framework}.py"]
    if implementation:
        builtin = _ROOT / f"recurrent/{implementation}.py"
        chosen.append(Path(implementation) if is_own(implementation) else builtin)
    return _over([*_files(_ENTRY), *chosen, *sorted(map(_file_of, functions))])


def certifier_digest(configs: Sequence[Mapping[str, Any]]) -> str:
    """The same over what certifying the runs with `configs` uses."""
    return _joined(configs, _CERTIFIER)


def prober_digest(configs: Sequence[Mapping[str, Any]]) -> str:
    """The same over what probing with the models of `configs` uses."""
    return _joined(configs, _PROBER)


def _joined(configs: Sequence[Mapping[str, Any]], patterns: tuple[str, ...]) -> str:
    parts = [*map(worker_digest, configs), _over(_files(patterns))]
    return hashlib.sha256("\n".join(parts).encode("utf-8")).hexdigest()


def _files(patterns: Iterable[str]) -> list[Path]:
    return [file for pattern in patterns for file in sorted(_ROOT.glob(pattern))]


def _file_of(reference: str) -> Path:
    place = reference.rpartition(":")[0]
    if place.endswith(".py"):
        return Path(place)
    return _ROOT.parent.joinpath(*place.split(".")).with_suffix(".py")


def _over(files: Iterable[Path]) -> str:
    """SHA-256 over `files` and the worker's modules that they import, and so on."""
    found = list(dict.fromkeys(files))
    for file in found:
        found += [other for other in _needed(file) if other not in found]
    state = hashlib.sha256()
    for name, file in sorted((_name(file), file) for file in found):
        state.update(f"{name}\n{_tree(file)}\n".encode())
    return state.hexdigest()


def _name(file: Path) -> str:
    """Of a user's own file the name alone: where it lies is in its run's config."""
    own = not file.is_relative_to(_ROOT)
    return f"/{file.name}" if own else file.relative_to(_ROOT).as_posix()


@cache
def _needed(file: Path) -> tuple[Path, ...]:
    """The worker's modules that `file` imports, wherever in it, and the packages they are in."""
    if not file.exists():
        return ()
    inside = file.relative_to(_ROOT).parent.parts if file.is_relative_to(_ROOT) else None
    names = set() if inside is None else {".".join((_PACKAGE, *inside))}
    for node in ast.walk(_read(file, ast.parse)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    found = {path for name in names for path in _modules(name)} - {file}
    return tuple(sorted(path for path in found if _name(path) not in _REGISTERS))


def _modules(name: str) -> Iterator[Path]:
    """The files that importing the module `name` runs, where it is one of the worker's."""
    first, *parts = name.split(".")
    place = _ROOT
    for part in (None, *parts) if first == _PACKAGE else ():
        place = place / part if part else place
        yield from (
            path for path in (place / "__init__.py", place.with_suffix(".py")) if path.exists()
        )


@cache
def _tree(file: Path) -> str:
    """What the file computes, as text; a missing file is told at run time."""
    return _read(file, canonical_source.canonical) if file.exists() else f"missing {file.name}"


def _read(file: Path, parse: Callable[[bytes], Read]) -> Read:
    try:
        return parse(file.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise ConfigError(
            f"is no Python that {platform.python_version()} reads ({error}).",
            where=str(file),
            remedy="correct it.",
        ) from error
