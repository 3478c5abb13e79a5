"""Finds the names that a Python file defines, without executing the file."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from rnnbench.errors import ConfigError

STAR = "*"  # represents the names of a star import, which are known only after executing the file


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
    bindings: dict[str, ast.stmt] = {}
    for node in body:
        if isinstance(node, ast.If | ast.Try):
            bindings |= _bindings([*node.body, *node.orelse])
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bindings[node.name] = node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            bindings |= {alias.asname or alias.name: node for alias in node.names}
        elif isinstance(node, ast.Assign):
            parts = (part for target in node.targets for part in ast.walk(target))
            bindings |= {part.id: node for part in parts if isinstance(part, ast.Name)}
    return bindings
