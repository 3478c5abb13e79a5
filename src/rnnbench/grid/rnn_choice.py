"""Checks an rnn choice when a grid is read: its implementation (one of rnnbench's, or a
user-supplied kernel, see ``docs/own_kernel.md``), its kernels and its cells."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rnnbench.errors import ConfigError
from rnnbench.grid.catalogue import suggestion
from rnnbench.grid.dotted_keys import ABSENT, MISSING, lookup
from rnnbench.grid.python_file import STAR, top_level
from rnnworker.attest import KERNELS
from rnnworker.options import HONOURED, is_user_file

# The keys of an rnn choice that rnnbench reads.
KEYS = ("name", "about", "source", "requires", "cells", "implementation", "options", "kernels")
# Function of an implementation's file → number of positional arguments of its call.
FUNCTIONS = {"make": 4, "to_canonical": 2, "from_canonical": 2}
# Key of a model → the option of its recurrent layer.
DROPOUTS = {"model.input_dropout": "dropout", "model.recurrent_dropout": "recurrent_dropout"}


def check_rnn(section: Mapping[str, Any], where: str, cells: Sequence[str]) -> None:
    """Raises a `ConfigError` for an invalid key of the rnn choice in the file `where`. `cells`: the
    choices of the axis cell."""
    implementation = section.get("implementation")
    if implementation is None:
        raise ConfigError(
            "has no implementation.",
            where=where,
            remedy="add implementation: mine.py, a Python file in the same folder, or one of "
            f"{', '.join(HONOURED)}.",
        )
    for key in section if is_user_file(implementation) else ():
        if key not in KEYS:
            raise ConfigError(
                f"unknown key {key!r}.",
                where=where,
                remedy=f"{suggestion(key, KEYS)}the keys are {', '.join(KEYS[1:])}.",
            )
    if implementation != MISSING and "${" not in str(implementation):
        check_implementation(implementation, where)
    _check_names("cells", section.get("cells"), cells, where, "every cell")
    for kernels in _leaves(section.get("kernels")):
        _check_names("kernels", kernels, KERNELS, where, "any kernel")
    options = section.get("options")
    if options is not None and not isinstance(options, dict):
        raise ConfigError(
            f"options is {options!r}.", where=where, remedy="write options: {NAME: DEFAULT}."
        )


def check_implementation(implementation: Any, where: str) -> None:
    """Raises a `ConfigError` if `implementation` is neither one of rnnbench's nor a file with the
    required functions. The file is not executed."""
    if is_user_file(implementation):
        _check_file(Path(implementation))
    elif implementation not in HONOURED:
        raise ConfigError(
            f"rnn.implementation is {implementation!r}.",
            where=where,
            remedy=f"{suggestion(str(implementation), HONOURED)}name a file (mine.py) or one of "
            f"{', '.join(HONOURED)}.",
        )


def unmet_rnn_requirement(config: Mapping[str, Any]) -> str | None:
    """Why a grid point is excluded by the ``cells`` of its rnn choice or by the requirements of
    every user-supplied kernel, or None."""
    rnn = config["rnn"]
    cells, name = rnn.get("cells"), f"rnn={rnn.get('name')}"
    if cells is not None and lookup(config, "cell.name") not in cells:
        return f"{name} is for cell={','.join(cells)} only"
    if not is_user_file(rnn.get("implementation")):
        return None
    if lookup(config, "model.recurrent") is False:
        return "this model has no recurrent layer: it takes rnn=none"
    for key, option in DROPOUTS.items():
        requested = lookup(config, key) not in (ABSENT, None, 0.0)
        if requested and option not in (rnn.get("options") or {}):
            return f"{name} has no {option}: its file does not list it in options"
    return None


def _check_file(file: Path) -> None:
    bound = top_level(file)
    for name, count in FUNCTIONS.items():
        if name not in bound and STAR not in bound:
            raise ConfigError(
                f"has no function {name}.",
                where=str(file),
                remedy=f"add {name}, as described in docs/own_kernel.md.",
            )
        statement = bound.get(name)
        if isinstance(statement, ast.FunctionDef) and not _accepts(statement.args, count):
            raise ConfigError(
                f"{name} cannot be called with {count} arguments.",
                where=f"{file}, line {statement.lineno}",
                remedy="give it the arguments described in docs/own_kernel.md.",
            )


def _accepts(arguments: ast.arguments, count: int) -> bool:
    """Whether a function can be called with `count` positional arguments."""
    maximum = len(arguments.posonlyargs) + len(arguments.args)
    required = maximum - len(arguments.defaults)
    has_required_keywords = any(default is None for default in arguments.kw_defaults)
    fits = required <= count and (count <= maximum or arguments.vararg is not None)
    return fits and not has_required_keywords


def _leaves(kernels: Any) -> Iterable[Any]:
    if not isinstance(kernels, dict):
        return (kernels,)
    return [leaf for value in kernels.values() for leaf in _leaves(value)]


def _check_names(key: str, names: Any, known: Sequence[str], where: str, null: str) -> None:
    """`null`: the meaning of null at `key`, for the error."""
    if names is None:
        return
    if not isinstance(names, list) or not names:
        raise ConfigError(
            f"{key} is {names!r}; it must be a list or null.",
            where=where,
            remedy=f"write a list, such as [{known[0]}], or null for {null}.",
        )
    for name in names:
        if name not in known:
            raise ConfigError(
                f"{key} has the unknown name {name!r}.",
                where=where,
                remedy=f"{suggestion(str(name), known)}the names are {', '.join(known)}.",
            )
