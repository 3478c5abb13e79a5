"""The digest of the worker code that a run uses: of what the code computes, without comments,
docstrings and layout."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

import rnnworker
from rnnbench.grid.files import imported_beside, parsed
from rnnbench.grid.overrides import Config
from rnnworker.cards import replicas_of
from rnnworker.frameworks.names import FRAMEWORKS
from rnnworker.options import IN_PLACE, WITHOUT_LAYERS, is_function, is_user_file

_ROOT = Path(rnnworker.__file__).parent
_PACKAGES = ("rnnworker", "rnnlayers")
_SERVING = ("rnnworker/serving", "rnnserve")
# Modules that only reject invalid configs before a run starts, or describe frameworks: of a run's
# own framework, `_digest` has what the worker uses.
_IGNORED_MODULES = ("frameworks/names.py", "options.py")
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def worker_files() -> list[Path]:
    """All files of the worker's packages, which lie side by side."""
    files: list[Path] = []
    for package in _PACKAGES:
        files += sorted((_ROOT.parent / package).rglob("*.py"))
    return files


def worker_digest(config: Config) -> str:
    """SHA-256, in hexadecimal, over the modules that a run with `config` may use:

    - its entry point, framework and implementation,
    - the file of its model, and the file of replicas if it has several,
    - the worker's modules that these import.

    Raises `ConfigError` if one of them is not valid Python.
    """
    model = config["model"]
    data = model["data"]
    functions = {model["function"], data["prepare"], data.get("augment")}
    functions.discard(None)
    if is_function(model.get("loss")):
        functions.add(model["loss"])
    device = config.get("device") or {}
    return _digest(
        config["build"]["framework"],
        config["rnn"].get("implementation"),
        frozenset(functions),
        replicas_of(device) > 1,
    )


@cache
def _digest(
    framework: str,
    implementation: str | None,
    functions: frozenset[str],
    replicated: bool,
) -> str:
    """Cached, because thousands of runs share few combinations, and no file changes while a plan is
    made."""
    frameworks = _ROOT / "frameworks"
    files = [
        _ROOT / "__main__.py",
        frameworks / f"{FRAMEWORKS[framework].module}.py",
    ]
    if replicated:
        files.append(frameworks / "replicas.py")
    if implementation:
        if is_user_file(implementation):
            files.append(Path(implementation))
        elif implementation in IN_PLACE:
            own = _ROOT.parent / f"rnnlayers/{implementation}.py"
            if own.exists():  # the others are choices of Keras's own code
                files.append(own)
        elif implementation not in WITHOUT_LAYERS:
            files.append(_ROOT / f"kernels/{implementation}.py")
    files += sorted(map(_file_of, functions))
    described = FRAMEWORKS[framework]
    return _digest_of_files(files, f"{described.engine} {sorted(described.kernels.items())}")


def forget() -> None:
    """Reads files again that this process has read: a loop over rounds outlives their edits."""
    for function in (_digest, _imports, _tree, imported_beside, parsed):
        function.cache_clear()


def certifier_digest(configs: Sequence[Config]) -> str:
    """SHA-256, in hexadecimal, over the modules that certifying the runs with `configs` uses."""
    digests = [worker_digest(config) for config in configs]
    digests.append(_digest_of_files([_ROOT / "certify.py"]))
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


def serving_digest(config: Config) -> str:
    """SHA-256, in hexadecimal, over the modules that predicting with the model of `config` uses."""
    files: list[Path] = []
    for folder in _SERVING:
        files += sorted((_ROOT.parent / folder).glob("*.py"))
    return _digest_of_files(files, worker_digest(config))


def _file_of(reference: str) -> Path:
    """The file of a function: ``FILE.py:NAME`` or ``rnnworker.MODULE:NAME``."""
    module = reference.rpartition(":")[0]
    if module.endswith(".py"):
        return Path(module)
    return _ROOT.parent / f"{module.replace('.', '/')}.py"


def _digest_of_files(files: Iterable[Path], text: str = "") -> str:
    """SHA-256, in hexadecimal, over files and the worker's modules that they import, transitively.

    It does not depend on the order of `files`. `text`: is part of the digest, too.
    """
    reached = list(dict.fromkeys(files))
    for file in reached:  # which grows meanwhile
        for imported in _imports(file):
            if imported not in reached:
                reached.append(imported)
    state = hashlib.sha256(text.encode())
    for name, file in sorted((_name(file), file) for file in reached):
        state.update(f"{name}\n{_tree(file)}\n".encode())
    return state.hexdigest()


def _name(file: Path) -> str:
    """The path inside the worker's package, or with the package's name in `rnnlayers`.

    Of a user's file it is the file name alone, because its path is part of the run's config.
    """
    if file.is_relative_to(_ROOT):
        return file.relative_to(_ROOT).as_posix()
    if file.is_relative_to(_ROOT.parent / "rnnlayers"):
        return file.relative_to(_ROOT.parent).as_posix()
    return f"/{file.name}"


@cache
def _imports(file: Path) -> tuple[Path, ...]:
    """The worker's modules that `file` imports, at any level, and the packages they are in."""
    if not file.exists():
        return ()
    names = set()
    for package in _PACKAGES:
        if file.is_relative_to(_ROOT.parent / package):
            folder = file.relative_to(_ROOT.parent).parent
            names.add(".".join(folder.parts))
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names.add(alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            for alias in node.names:
                names.add(f"{node.module}.{alias.name}")

    found = set()
    for name in names:
        for path in _modules(name):
            if path != file and _name(path) not in _IGNORED_MODULES:
                found.add(path)
    if _name(file).startswith("/"):  # a user's
        found |= imported_beside(file)
    return tuple(sorted(found))


def _modules(name: str) -> Iterator[Path]:
    """The files that importing the module `name` executes; none if it is not the worker's."""
    parts = name.split(".")
    if parts[0] not in _PACKAGES:
        return
    path = _ROOT.parent
    for part in parts:
        path /= part
        for file in (path / "__init__.py", path.with_suffix(".py")):
            if file.exists():
                yield file


@cache
def _tree(file: Path) -> str:
    """The canonical source of `file`. A missing file is an error only when the run starts."""
    if not file.exists():
        return f"missing {file.name}"
    return canonical(parsed(file))


def canonical(tree: ast.Module) -> str:
    """The source of a syntax tree without comments, docstrings and layout.

    The tree itself loses its docstrings: copying it would take longer than everything else here.

    `ast.dump` differs more between versions: 3.12 added a field to functions and classes, and 3.13
    omits empty lists.
    """
    for node in ast.walk(tree):
        if not isinstance(node, _WITH_DOCSTRING):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)
