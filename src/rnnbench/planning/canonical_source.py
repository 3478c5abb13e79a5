"""A canonical form of Python source that depends only on what the code computes, and not on the
Python version that parses it.

`ast.dump` is unsuitable: 3.12 added a field to functions and classes, 3.13 omits empty lists.
Standard library only.
"""

from __future__ import annotations

import ast
import warnings
from typing import Any

# Fields that follow from the position of a node, from its notation, or from comments.
_IGNORED_FIELDS = ("ctx", "kind", "type_comment", "type_ignores")
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def canonical(source: bytes | str) -> str:
    """`source` without comments, docstrings and layout. Raises `SyntaxError` if it is invalid."""
    return of_tree(parsed(source))


def parsed(source: bytes | str) -> ast.Module:
    """The syntax tree of `source`. Raises `SyntaxError` if it is invalid."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as for an invalid escape sequence
        return ast.parse(source)


def of_tree(tree: ast.Module) -> str:
    """The `canonical` form of the source with this `tree`, which is not modified."""
    return _serialised(tree)


def _serialised(value: Any) -> str:
    if isinstance(value, ast.Constant):
        return _constant(value.value)
    if isinstance(value, ast.JoinedStr):
        return f"JoinedStr({_serialised(_merged(value.values))})"
    if isinstance(value, ast.AST):
        return f"{type(value).__name__}({','.join(_fields(value))})"
    if isinstance(value, list):
        return f"[{','.join(map(_serialised, value))}]"
    # None in a list: the missing key of `{**a}`, or the missing default of a keyword argument.
    return "absent" if value is None else _constant(value)


def _fields(node: ast.AST) -> list[str]:
    """The non-empty fields, each with its name. Fields that only some versions have are empty."""
    fields = []
    for name, value in sorted(ast.iter_fields(node)):
        if name == "body" and isinstance(node, _WITH_DOCSTRING):
            value = _without_docstring(value)
        if name not in _IGNORED_FIELDS and value is not None and value != []:
            fields.append(f"{name}={_serialised(value)}")
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
