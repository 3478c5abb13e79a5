"""The Python code that YAML files name: a model's functions (``package.module:name`` or
``mine.py:name``) and the implementation of an rnn choice (a name or ``mine.py``). It is checked by
its syntax tree and never executed.

A relative path to a Python file is relative to the YAML file that contains it, so a model or a
kernel is a pair of files that can be placed in any folder.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import rnnworker
from rnnbench.errors import ConfigError
from rnnbench.grid.catalogue import suggestion
from rnnbench.grid.overrides import ABSENT, lookup
from rnnworker.options import IMPLEMENTATIONS, is_user_file

FUNCTIONS = ("model.function", "model.data.prepare", "model.data.augment")
IMPLEMENTATION = "rnn.implementation"
STAR = "*"  # stands for the names of a star import, which are known only after executing the file
# Function of an implementation's file → number of positional arguments of its call.
OF_IMPLEMENTATION = {"make": 4, "to_canonical": 2, "from_canonical": 2}


def absolute(text: Any, folder: Path, where: str) -> Any:
    """`text` with its path to a Python file made absolute; unchanged if it has none. Raises a
    `ConfigError` if the file does not exist."""
    path, end, name = str(text).partition(".py")
    if not end or (name and not name.startswith(":")):
        return text
    file = (folder / Path(path + end).expanduser()).resolve()
    if not file.is_file():
        raise ConfigError(
            f"{path}{end}: {file} does not exist.",
            where=where,
            remedy="write the path of the Python file relative to the YAML file, or absolute.",
        )
    return f"{file}{name}"


def with_absolute_paths(section: Mapping[str, Any], folder: Path, where: str) -> dict[str, Any]:
    """The section of a model or of an rnn choice, with its paths made absolute."""
    changed = dict(section)
    for key in {"function", "implementation"} & changed.keys():
        changed[key] = absolute(changed[key], folder, where)
    if isinstance(changed.get("data"), dict):
        changed["data"] = {
            key: absolute(value, folder, where) if f"model.data.{key}" in FUNCTIONS else value
            for key, value in changed["data"].items()
        }
    return changed


def user_files(config: Mapping[str, Any]) -> set[Path]:
    """The user's Python files that a run with `config` uses."""
    paths = [str(lookup(config, key)).rpartition(":")[0] for key in FUNCTIONS]
    paths.append(str(lookup(config, IMPLEMENTATION)))
    return {Path(path) for path in paths if path.endswith(".py")}


def check_own_code(config: Mapping[str, Any], source_of: Callable[[str], str]) -> None:
    """Raises a `ConfigError` if a function of the model or of the implementation does not exist.
    `source_of`: maps a key to the file or grid that sets it."""
    for key in FUNCTIONS:
        if (reference := lookup(config, key)) not in (ABSENT, None):
            _check_function(key, reference, source_of(key))
    _check_implementation(config["rnn"]["implementation"], source_of(IMPLEMENTATION))


@cache  # thousands of grid points have the same functions
def _check_function(key: str, reference: str, where: str) -> None:
    module, _, name = reference.rpartition(":")
    file = Path(module)
    if not module.endswith(".py"):
        first, *parts = module.split(".")
        if first != rnnworker.__name__:
            return
        file = Path(rnnworker.__file__).parent.joinpath(*parts).with_suffix(".py")
    names = top_level(file)
    if name not in names and STAR not in names:
        raise ConfigError(
            f"{key}: {file} has no function {name}.",
            where=where,
            remedy=f"{suggestion(name, names)}name a function of that file, or add this one.",
        )


@cache
def _check_implementation(implementation: str, where: str) -> None:
    if not is_user_file(implementation):
        if implementation in IMPLEMENTATIONS:
            return
        raise ConfigError(
            f"rnn.implementation is {implementation!r}.",
            where=where,
            remedy=f"{suggestion(implementation, IMPLEMENTATIONS)}name a file (mine.py) or one of "
            f"{', '.join(IMPLEMENTATIONS)}.",
        )
    bound = top_level(Path(implementation))
    for name, count in OF_IMPLEMENTATION.items():
        if name not in bound and STAR not in bound:
            raise ConfigError(
                f"has no function {name}.",
                where=implementation,
                remedy=f"add {name}, as described in docs/own_kernel.md.",
            )
        statement = bound.get(name)
        if isinstance(statement, ast.FunctionDef) and not _accepts(statement.args, count):
            raise ConfigError(
                f"{name} cannot be called with {count} arguments.",
                where=f"{implementation}, line {statement.lineno}",
                remedy="give it the arguments described in docs/own_kernel.md.",
            )


def _accepts(arguments: ast.arguments, count: int) -> bool:
    """Whether a function can be called with `count` positional arguments."""
    maximum = len(arguments.posonlyargs) + len(arguments.args)
    required = maximum - len(arguments.defaults)
    has_required_keywords = any(default is None for default in arguments.kw_defaults)
    fits = required <= count and (count <= maximum or arguments.vararg is not None)
    return fits and not has_required_keywords


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
