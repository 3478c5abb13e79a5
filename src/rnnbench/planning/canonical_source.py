"""Python source as a text that says what it computes, the same under every Python that reads it.

`ast.dump` is not that: 3.12 added a field to functions and classes, 3.13 leaves out empty lists.
Standard library only.
"""

from __future__ import annotations

import ast
import warnings
from typing import Any

# What follows from the place of a node, from how it was written, or from comments.
_NOT_MEANT = ("ctx", "kind", "type_comment", "type_ignores")
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def canonical(source: bytes | str) -> str:
    """`source` without comments, docstrings and layout. Raises `SyntaxError` where it is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as of an escape that is none
        return _written(ast.parse(source))


def _written(value: Any) -> str:
    if isinstance(value, ast.Constant):
        return _constant(value.value)
    if isinstance(value, ast.JoinedStr):
        return f"JoinedStr({_written(_joined(value.values))})"
    if isinstance(value, ast.AST):
        return f"{type(value).__name__}({','.join(_fields(value))})"
    if isinstance(value, list):
        return f"[{','.join(map(_written, value))}]"
    # A gap in a list: `{**a}` has no key there, a keyword argument no default.
    return "absent" if value is None else _constant(value)


def _fields(node: ast.AST) -> list[str]:
    """Those that say something, each with its name: what a version adds is empty elsewhere."""
    found = []
    for name, value in sorted(ast.iter_fields(node)):
        if name == "body" and isinstance(node, _WITH_DOCSTRING):
            value = _without_docstring(value)
        if name not in _NOT_MEANT and value is not None and value != []:
            found.append(f"{name}={_written(value)}")
    return found


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0] if body else None
    constant = first.value if isinstance(first, ast.Expr) else None
    is_text = isinstance(constant, ast.Constant) and isinstance(constant.value, str)
    return body[1:] if is_text else body


def _joined(values: list[ast.expr]) -> list[ast.expr | str]:
    """The parts of an f-string, texts that stand side by side as one, empty ones left out."""
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
    """With its type, so that 1, 1.0 and True differ; in ASCII, as which characters can be printed
    is another question in each version; whole numbers in hexadecimal, as decimals have a limit."""
    if type(value) is int:
        return f"int {value:x}"
    return f"{type(value).__name__} {value!a}"
