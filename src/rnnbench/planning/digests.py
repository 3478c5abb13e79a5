"""The digest of the worker code that a run uses. It depends on what the code computes, not on
comments, docstrings or the Python version of the controller."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import rnnworker
from rnnbench.grid.files import parsed
from rnnworker.cards import replicas_of
from rnnworker.frameworks.names import FRAMEWORKS
from rnnworker.options import is_keras, is_user_file

_ROOT = Path(rnnworker.__file__).parent
_PACKAGE = "rnnworker"
# Modules that only list names, or only reject invalid configs before a run starts.
_IGNORED_MODULES = ("frameworks/names.py", "options.py")


def worker_digest(config: Mapping[str, Any]) -> str:
    """SHA-256 over the modules that a run with `config` may use: its entry point, its framework,
    its implementation, the file of its model, that of replicas if it has several, and the worker's
    modules that these import. Raises `ConfigError` if one of them is not valid Python."""
    data = config["model"]["data"]
    functions = {config["model"]["function"], data["prepare"], data.get("augment")} - {None}
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
    files = [_ROOT / "frameworks" / f"{FRAMEWORKS.get(framework, framework)}.py"]
    if replicated:
        files.append(_ROOT / "frameworks" / "replicas.py")
    if implementation:
        module = "keras" if is_keras(implementation) else implementation
        builtin = _ROOT / f"kernels/{module}.py"
        files.append(Path(implementation) if is_user_file(implementation) else builtin)
    return _digest_of_files([_ROOT / "__main__.py", *files, *sorted(map(_file_of, functions))])


def certifier_digest(configs: Sequence[Mapping[str, Any]]) -> str:
    """SHA-256 over the modules that certifying the runs with `configs` uses."""
    return _combined(configs, "certify.py")


def prober_digest(configs: Sequence[Mapping[str, Any]]) -> str:
    """SHA-256 over the modules that probing with the models of `configs` uses."""
    return _combined(configs, "probe.py")


def _combined(configs: Sequence[Mapping[str, Any]], file: str) -> str:
    digests = [*map(worker_digest, configs), _digest_of_files([_ROOT / file])]
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


# Fields that follow from the position of a node, from its notation, or from comments.
_IGNORED_FIELDS = ("ctx", "kind", "type_comment", "type_ignores")
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def canonical(value: Any) -> str:
    """A syntax tree, or a part of it, without comments, docstrings and layout: a text that depends
    only on what the code computes, and not on the Python version that parses it. `ast.dump` is
    unsuitable: 3.12 added a field to functions and classes, 3.13 omits empty lists."""
    if isinstance(value, ast.Constant):
        return _constant(value.value)
    if isinstance(value, ast.JoinedStr):
        return f"JoinedStr({canonical(_merged(value.values))})"
    if isinstance(value, ast.AST):
        return f"{type(value).__name__}({','.join(_fields(value))})"
    if isinstance(value, list):
        return f"[{','.join(map(canonical, value))}]"
    # None in a list: the missing key of `{**a}`, or the missing default of a keyword argument.
    return "absent" if value is None else _constant(value)


def _fields(node: ast.AST) -> list[str]:
    """The non-empty fields, each with its name. Fields that only some versions have are empty."""
    fields = []
    for name, value in sorted(ast.iter_fields(node)):
        if name == "body" and isinstance(node, _WITH_DOCSTRING):
            value = _without_docstring(value)
        if name not in _IGNORED_FIELDS and value is not None and value != []:
            fields.append(f"{name}={canonical(value)}")
    return fields


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0] if body else None
    constant = first.value if isinstance(first, ast.Expr) else None
    is_text = isinstance(constant, ast.Constant) and isinstance(constant.value, str)
    return body[1:] if is_text else body


def _merged(values: list[ast.expr]) -> list[ast.expr | str]:
    """The parts of an f-string; adjacent literals are joined and empty ones are omitted."""
    parts: list[ast.expr | str] = []
    for value in values:
        text = value.value if isinstance(value, ast.Constant) else None
        if not isinstance(text, str):
            parts.append(value)
        elif parts and isinstance(parts[-1], str):
            parts[-1] += text
        elif text:
            parts.append(text)
    return parts


def _constant(value: Any) -> str:
    """A constant with its type, so that 1, 1.0 and True differ. In ASCII, because the set of
    printable characters depends on the version; integers in hexadecimal, because the conversion to
    decimal has a limit."""
    if type(value) is int:
        return f"int {value:x}"
    return f"{type(value).__name__} {value!a}"
