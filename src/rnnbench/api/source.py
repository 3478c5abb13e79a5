"""A function that makes a model → what the command takes: ``FILE.py:FUNCTION``.

A function of a Python file is named by it. The workers that measure cannot import a notebook or the
program that runs, so the source of such a function is written to a file, with what it needs: the
imports of its modules and names, constants, and the functions and classes beside it.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import importlib
import inspect
import keyword
import linecache
import symtable
import sys
import textwrap
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rnnbench.errors import ConfigError
from rnnbench.records.store import write_bytes

CONSTANTS = (bool, int, float, complex, str, bytes, type(None))
WRITE_A_FILE = 'write it to a file and name it: "mine.py:{}".'
HEAD = (
    '"""A function of a notebook or of a program, and what it needs, as rnnbench took them."""\n\n'
)


def file_of_function(build: Callable[..., Any] | str | Path, kept: Path) -> str:
    """``FILE.py:FUNCTION`` of a function, or what names a model already, with an absolute path.

    `kept`: the folder in which a function's source is written. Raises `ConfigError` if the source
    cannot be found, or something that it needs; it is named.
    """
    if isinstance(build, (str, Path)):
        return str(Path(build).expanduser().absolute())
    name = getattr(build, "__name__", "")
    if not isinstance(build, types.FunctionType) or keyword.iskeyword(name) or name == "<lambda>":
        raise ConfigError(
            f"{build!r} is not a function that `def` made.",
            where="build",
            remedy='give a function, "mine.py:build" or the path of a .keras file.',
        )
    module = sys.modules.get(build.__module__)
    file = getattr(module, "__file__", None)
    if file and build.__module__ != "__main__" and getattr(module, name, None) is build:
        return f"{Path(file).absolute()}:{name}"

    content = (HEAD + _taken(build)).encode()
    digest = hashlib.sha256(content).hexdigest()[:8]
    path = kept / "functions" / digest / f"{name}.py"
    if not path.is_file():
        write_bytes(path, content)
    return f"{path}:{name}"


def _taken(build: types.FunctionType) -> str:
    """The source of a function after what it needs: imports, constants, functions and classes."""
    imports: dict[str, None] = {}
    definitions: dict[str, str] = {}
    waiting: list[tuple[str, Any]] = [(build.__name__, build)]
    while waiting:
        name, value = waiting.pop()
        if name in definitions:
            continue
        if isinstance(value, CONSTANTS) or _is_plain(value):
            definitions[name] = f"{name} = {value!r}\n"
        elif isinstance(value, types.ModuleType):
            as_name = "" if value.__name__ == name else f" as {name}"
            imports[f"import {value.__name__}{as_name}"] = None
        elif getattr(value, "__module__", None) == build.__module__ and isinstance(
            value, (types.FunctionType, type)
        ):
            source = _source_of(name, value, build.__name__)
            definitions[name] = source
            for needed in _free_names(source):
                waiting.append((needed, _value_of(needed, name, value, build)))
        else:
            imports[_import_of(name, value, build.__name__)] = None
    # What is needed first stands first; functions look names up when they are called.
    parts = ["".join(f"{line}\n" for line in sorted(imports))]
    parts += reversed(definitions.values())
    return "\n\n".join(part for part in parts if part)


def _is_plain(value: Any) -> bool:
    """Whether `value` is a tuple, list or dict of constants."""
    if isinstance(value, dict):
        return all(_is_plain(each) for pair in value.items() for each in pair)
    if isinstance(value, (tuple, list)):
        return all(map(_is_plain, value))
    return type(value) in CONSTANTS


def _source_of(name: str, value: Any, asked: str) -> str:
    """The source of a function or class, from its first column on."""
    try:
        if isinstance(value, type):
            return _source_of_class(value)
        return textwrap.dedent(inspect.getsource(value))
    except (OSError, TypeError) as error:
        raise ConfigError(
            f"the source of {name} cannot be found.",
            where="build",
            remedy=WRITE_A_FILE.format(asked),
        ) from error


def _source_of_class(value: type) -> str:
    """The source of a class. `inspect` does not find those of notebooks, but their methods know
    their cell. Raises `OSError`."""
    for method in vars(value).values():
        if isinstance(method, types.FunctionType):
            lines = linecache.getlines(method.__code__.co_filename)
            for node in ast.walk(ast.parse("".join(lines))):
                if isinstance(node, ast.ClassDef) and node.name == value.__name__:
                    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                    return textwrap.dedent("".join(lines[first - 1 : node.end_lineno]))
    return textwrap.dedent(inspect.getsource(value))


def _free_names(source: str) -> list[str]:
    """The names that `source` uses and neither defines nor has from Python."""
    module = symtable.symtable(source, "source", "exec")
    used: dict[str, None] = {}
    scopes = [module]
    for scope in scopes:  # which grow meanwhile
        scopes += scope.get_children()
        for symbol in scope.get_symbols():
            if symbol.is_referenced() and symbol.is_global():
                used[symbol.get_name()] = None
    bound = {symbol.get_name() for symbol in module.get_symbols() if symbol.is_assigned()}
    return [name for name in used if name not in bound and not hasattr(builtins, name)]


def _value_of(name: str, user: str, value: Any, build: types.FunctionType) -> Any:
    """What `name` stands for in `user`, a function or class. Raises `ConfigError` if it is nothing,
    or a variable of a function around it."""
    code = getattr(value, "__code__", None)
    if code and name in code.co_freevars:
        what = f"{user} uses {name}, which is a variable of the function around it."
        remedy = f"define {name} inside {user}."
        raise ConfigError(what, where="build", remedy=remedy)
    if name not in build.__globals__:
        remedy = f"define or import it inside {user}."
        raise ConfigError(
            f"{user} uses {name}, which is not defined.", where="build", remedy=remedy
        )
    return build.__globals__[name]


def _import_of(name: str, value: Any, asked: str) -> str:
    """The statement that gives something of a module this name. Raises `ConfigError` if no module
    has it."""
    original = getattr(value, "__name__", name)
    own = getattr(value, "__module__", None)
    if isinstance(own, str) and own != "__main__":
        root = own.partition(".")[0]
        places = []
        for place, module in list(sys.modules.items()):
            if place.partition(".")[0] == root and vars(module or object).get(original) is value:
                places.append(place)
        # The public place of a class is shorter than the one where it is written.
        for place in sorted(places, key=lambda each: (".src" in each or "._" in each, len(each))):
            if getattr(importlib.import_module(place), original) is value:
                as_name = "" if original == name else f" as {name}"
                return f"from {place} import {original}{as_name}"
    raise ConfigError(
        f"it uses {name}, which is {type(value).__name__} of the notebook or program and cannot be "
        "written to a file.",
        where="build",
        remedy=f"make {name} inside {asked}, or {WRITE_A_FILE.format(asked)}",
    )
