"""The digest of the worker code that a cell uses: what it computes, not how it is commented."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import rnnworker

_ROOT = Path(rnnworker.__file__).parent


def worker_digest(config: Mapping[str, Any]) -> str:
    """SHA-256 over the syntax trees of the modules that a run with `config` may use: the
    worker's common modules, its framework's, its implementation's, its model's file."""
    files = [
        *sorted(_ROOT.glob("*.py")),
        *_family("frameworks", _framework_files(config["build"]["framework"])),
        *_family("recurrent", ("__init__", "cells", config["rnn"].get("implementation"))),
    ]
    functions = {config["model"]["function"], config["model"]["data"]["prepare"]}
    files += sorted({_file_of(reference) for reference in functions})
    state = hashlib.sha256()
    for file in files:
        state.update(_tree(file).encode("utf-8"))
    return state.hexdigest()


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
