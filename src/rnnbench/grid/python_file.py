"""The names that a Python file defines, read without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from rnnbench.errors import ConfigError

STAR = "*"  # stands for the names of a star import, which only running the file would tell


@cache
def top_level(file: Path) -> Mapping[str, ast.stmt]:
    """Maps each name at the top level of `file` to the statement that binds it. Raises a
    `ConfigError` if the file cannot be read or is not valid Python."""
    try:
        return _bindings(ast.parse(file.read_bytes()).body)
    except (OSError, SyntaxError, ValueError) as error:
        raise ConfigError(
            f"cannot be read as Python: {error}.", where=str(file), remedy="correct the file."
        ) from None


def _bindings(body: Iterable[ast.stmt]) -> dict[str, ast.stmt]:
    found: dict[str, ast.stmt] = {}
    for node in body:
        if isinstance(node, ast.If | ast.Try):
            found |= _bindings([*node.body, *node.orelse])
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name: node for alias in node.names}
        elif isinstance(node, ast.Assign):
            names = (one for target in node.targets for one in ast.walk(target))
            found |= {one.id: node for one in names if isinstance(one, ast.Name)}
    return found
