"""The digest of the worker code that a run uses: of what the code computes, without comments,
docstrings and layout."""

from __future__ import annotations

import ast
import copy
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import rnnworker
from rnnbench.grid.files import parsed
from rnnworker.cards import replicas_of
from rnnworker.frameworks.names import FRAMEWORKS
from rnnworker.options import is_function, is_keras, is_user_file

_ROOT = Path(rnnworker.__file__).parent
_PACKAGE = "rnnworker"
# Modules that only describe frameworks, or only reject invalid configs before a run starts.
_IGNORED_MODULES = ("frameworks/names.py", "options.py")


def worker_digest(config: Mapping[str, Any]) -> str:
    """SHA-256 over the modules that a run with `config` may use: its entry point, its framework,
    its implementation, the file of its model, that of replicas if it has several, and the worker's
    modules that these import. Raises `ConfigError` if one of them is not valid Python."""
    data = config["model"]["data"]
    functions = {config["model"]["function"], data["prepare"], data.get("augment")} - {None}
    if is_function(config["model"].get("loss")):
        functions.add(config["model"]["loss"])
    return _digest(
        config["build"]["framework"],
        config["rnn"].get("implementation"),
        frozenset(functions),
        replicas_of(config.get("device") or {}) > 1,
    )


@cache
def _digest(
    framework: str, implementation: str | None, functions: frozenset[str], replicated: bool
) -> str:
    """Cached, because thousands of runs share few combinations, and no file changes while a plan is
    made."""
    files = [_ROOT / "frameworks" / f"{FRAMEWORKS[framework].module}.py"]
    if replicated:
        files.append(_ROOT / "frameworks" / "replicas.py")
    if implementation:
        module = "keras" if is_keras(implementation) else implementation
        builtin = _ROOT / f"kernels/{module}.py"
        files.append(Path(implementation) if is_user_file(implementation) else builtin)
    return _digest_of_files([_ROOT / "__main__.py", *files, *sorted(map(_file_of, functions))])


def certifier_digest(configs: Sequence[Mapping[str, Any]]) -> str:
    """SHA-256 over the modules that certifying the runs with `configs` uses."""
    digests = [*map(worker_digest, configs), _digest_of_files([_ROOT / "certify.py"])]
    return hashlib.sha256("\n".join(digests).encode("utf-8")).hexdigest()


def _file_of(reference: str) -> Path:
    module = reference.rpartition(":")[0]
    if module.endswith(".py"):
        return Path(module)
    return _ROOT.parent.joinpath(*module.split(".")).with_suffix(".py")


def _digest_of_files(files: Iterable[Path]) -> str:
    """SHA-256 over `files` and the worker's modules that they import, transitively."""
    reached = list(dict.fromkeys(files))
    for file in reached:
        reached += [imported for imported in _imports(file) if imported not in reached]
    state = hashlib.sha256()
    for name, file in sorted((_name(file), file) for file in reached):
        state.update(f"{name}\n{_tree(file)}\n".encode())
    return state.hexdigest()


def _name(file: Path) -> str:
    """The path inside the worker's package; only the file name of a user's file, whose path is
    part of the run's config."""
    inside = file.is_relative_to(_ROOT)
    return file.relative_to(_ROOT).as_posix() if inside else f"/{file.name}"


@cache
def _imports(file: Path) -> tuple[Path, ...]:
    """The worker's modules that `file` imports, at any level, and the packages they are in."""
    if not file.exists():
        return ()
    package = file.relative_to(_ROOT).parent.parts if file.is_relative_to(_ROOT) else None
    names = set() if package is None else {".".join((_PACKAGE, *package))}
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    files = {path for name in names for path in _modules(name)} - {file}
    return tuple(sorted(path for path in files if _name(path) not in _IGNORED_MODULES))


def _modules(name: str) -> Iterator[Path]:
    """The files that importing the module `name` executes; none if it is not the worker's."""
    first, *parts = name.split(".")
    for depth in range(len(parts) + 1) if first == _PACKAGE else ():
        module = _ROOT.joinpath(*parts[:depth])
        yield from filter(Path.exists, (module / "__init__.py", module.with_suffix(".py")))


@cache
def _tree(file: Path) -> str:
    """The canonical source of `file`. A missing file is an error only when the run starts."""
    return canonical(parsed(file)) if file.exists() else f"missing {file.name}"


_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def canonical(tree: ast.Module) -> str:
    """The source of a syntax tree without comments, docstrings and layout. `ast.dump` differs more
    between versions: 3.12 added a field to functions and classes, and 3.13 omits empty lists."""
    tree = copy.deepcopy(tree)
    for node in ast.walk(tree):
        if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)
