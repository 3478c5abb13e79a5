"""The digest of the worker code that a cell uses: what it computes, not how it is commented."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import rnnworker

_ROOT = Path(rnnworker.__file__).parent
# What certifies, probes or bundles has no part in a run.
_CERTIFIER = ("certify.py", "reference.py")
_PROBER = ("probe.py", "probing/*.py")
_BUNDLE = ("bundle.py", "bundle_process.py", "carried.py", "affinity.py")
# Nor has what is refused before anything is made.
_NO_PART = (*_CERTIFIER, "probe.py", *_BUNDLE, "options.py")


def worker_digest(config: Mapping[str, Any]) -> str:
    """SHA-256 over the syntax trees of the modules that a run with `config` may use: the
    worker's common modules, its framework's, its implementation's, its model's file."""
    data = config["model"]["data"]
    functions = {config["model"]["function"], data["prepare"], data.get("augment")} - {None}
    return _digest(
        config["build"]["framework"], config["rnn"].get("implementation"), frozenset(functions)
    )


@cache
def _digest(framework: str, implementation: str | None, functions: frozenset[str]) -> str:
    """Of thousands of runs a few differ in these, and no file changes while a plan is made."""
    files = [
        *sorted(file for file in _ROOT.glob("*.py") if file.name not in _NO_PART),
        *_family("frameworks", _framework_files(framework)),
        *_family("recurrent", ("__init__", "cells", implementation)),
        *sorted({_file_of(reference) for reference in functions}),
    ]
    state = hashlib.sha256()
    for file in _reached(files):
        state.update(_tree(file).encode("utf-8"))
    return state.hexdigest()


def certifier_digest(configs: Sequence[Mapping[str, Any]]) -> str:
    """The same over what certifying the runs with `configs` uses."""
    return _joined(configs, _CERTIFIER)


def prober_digest(configs: Sequence[Mapping[str, Any]]) -> str:
    """The same over what probing with the models of `configs` uses."""
    return _joined(configs, _PROBER)


def _joined(configs: Sequence[Mapping[str, Any]], patterns: tuple[str, ...]) -> str:
    parts = [worker_digest(config) for config in configs]
    parts += [_tree(file) for pattern in patterns for file in sorted(_ROOT.glob(pattern))]
    return hashlib.sha256("\n".join(parts).encode("utf-8")).hexdigest()


def _framework_files(framework: str) -> tuple[str, ...]:
    common = () if framework == "fake" else ("keras_session", "packages")
    return ("__init__", *common, framework)


def _family(folder: str, names: tuple[str | None, ...]) -> list[Path]:
    paths = [_ROOT / folder / f"{name}.py" for name in names if name]
    return [path for path in paths if path.exists()]


def _file_of(reference: str) -> Path:
    place = reference.rpartition(":")[0]
    if place.endswith(".py"):
        return Path(place)
    return _ROOT.parent.joinpath(*place.split(".")).with_suffix(".py")


def _reached(files: list[Path]) -> list[Path]:
    """`files`, and the modules in the worker's rooms that they import, and so on."""
    found = list(files)
    for file in found:
        found += [other for other in _imported(file) if other not in found]
    return found[: len(files)] + sorted(found[len(files) :])


@cache
def _imported(file: Path) -> tuple[Path, ...]:
    """Modules of ``rnnworker.ROOM`` that a file imports by name."""
    if not file.exists():
        return ()
    modules = []
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rnnworker."):
            modules += [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
    paths = [_ROOT.joinpath(*name.split(".")[1:]).with_suffix(".py") for name in modules]
    return tuple(path for path in paths if path.parent != _ROOT and path.exists())


@cache
def _tree(file: Path) -> str:
    """The file's syntax tree without docstrings; a missing file is told at run time."""
    if not file.exists():
        return f"missing {file.name}"
    tree = ast.parse(file.read_bytes())
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list) or not isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ):
            continue
        first = body[0] if body else None
        if isinstance(first, ast.Expr) and isinstance(getattr(first, "value", None), ast.Constant):
            node.body = body[1:]  # type: ignore[attr-defined]
    return ast.dump(tree)
