"""The files that a grid names: ``conf/GROUP/CHOICE.yaml`` in every config folder, and the Python
code that these name: a model's functions (``package.module:name`` or ``mine.py:name``) and the
implementation of an rnn choice (a name or ``mine.py``). Code is checked by its syntax tree and
never executed.

A relative path is relative to the YAML file that contains it, so a model or a kernel is a pair of
files that can be placed in any folder.
"""

from __future__ import annotations

import ast
import hashlib
import os
import platform
import re
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import rnnworker
from rnnbench.errors import ConfigError, display_path, suggestion
from rnnbench.grid.overrides import ABSENT, Config, SourceOf, lookup, replaced
from rnnworker.options import IMPLEMENTATIONS, KERNEL_CLASS, SAVED, is_user_file

# A model as the function of a Python file, FILE.py or FILE.py:FUNCTION, without a YAML file.
PYTHON_MODEL = re.compile(r"(?P<file>.+\.py)(?::(?P<function>[A-Za-z_]\w*))?")
BUILD = "build"  # the function if none is named
SAVED_MODEL = ".keras"
GIVEN_ARRAYS = "rnnworker.readers.given:prepare"  # those of the file, by name
IMPLEMENTATION = "rnn.implementation"
OF_RUNTIME = "runtime.implementation"
DATA = "dataset.path"
STAR = "*"  # stands for the names of a star import, which are known only after executing the file
# What to write in place of a path that does not lead to a YAML file.
BY_PATH = {
    "model": "write FILE.py:FUNCTION, FILE.keras, or the path of a YAML file (docs/models.md).",
    "rnn": "write the path of a YAML file that names the Python file (docs/own_kernel.md).",
    "runtime": "write the path of a YAML file that names the Python file (docs/runtimes.md).",
    "dataset": "write dataset=file dataset.path=FILE (docs/data.md, Your own data).",
}
# Function of any other implementation's file → number of positional arguments of its call.
OF_IMPLEMENTATION = {"make": 4, "to_canonical": 2, "from_canonical": 2}
# The same for the functions of a model; build takes (), (keras), (keras, config) or all three.
OF_MODEL = {
    "model.function": (3, 2, 1, 0),
    "model.data.prepare": (2,),
    "model.data.augment": (3,),
    "model.loss": (2,),
}
FUNCTIONS = tuple(OF_MODEL)


def files_of(conf: Sequence[Path], group: str) -> dict[str, Path]:
    """Maps each choice of `group` to its file, sorted by choice, over all config folders."""
    files: dict[str, Path] = {}
    for folder in conf:
        for path in sorted((Path(folder) / group).glob("*.yaml")):
            if path.stem in files:
                raise ConfigError(
                    f"{group}={path.stem} is also defined in {display_path(files[path.stem])}.",
                    where=display_path(path),
                    remedy="rename one of the two files.",
                )
            files[path.stem] = path.resolve()

    return dict(sorted(files.items()))


def file_of(
    known: Mapping[str, Path],
    group: str,
    choice: str,
    where: str,
    folder: Path,
) -> Path:
    """The file of a choice: one of the `known` of `files_of`, or the YAML file at the path
    `choice`, which may be relative to `folder`. `where` locates the choice in errors."""
    if choice in known:
        return _readable(known[choice])
    is_model = group == "model"
    python = PYTHON_MODEL.fullmatch(choice) if is_model else None
    is_saved_model = is_model and choice.endswith(SAVED_MODEL)
    if not python and not is_saved_model and not choice.endswith((".yaml", ".yml")):
        if "/" in choice or choice.endswith(".py"):
            remedy = BY_PATH.get(group, "write the path of a YAML file.")
        else:
            remedy = (
                f"{suggestion(choice, known)}the choices of {group} are "
                f"{', '.join(known) or 'none'}; to add one, create conf/{group}/{choice}.yaml."
            )
        raise ConfigError(f"{group}={choice} is not a choice.", where=where, remedy=remedy)

    text = python["file"] if python else choice
    path = (folder / Path(text).expanduser()).resolve()
    if not path.is_file():
        raise ConfigError(
            f"{group}={path}: no such file.",
            where=where,
            remedy="correct the path.",
        )

    file = path
    if python:
        file = Path(f"{path}:{python['function'] or BUILD}")
    name = name_of_choice(file)
    if known.get(name, path) != path:
        raise ConfigError(
            f"{group}={path} has the same name as {display_path(known[name])}.",
            where=where,
            remedy="rename your file: its stem is the name of the choice.",
        )

    if not is_saved_model:
        _readable(path)
    return file


def name_of_choice(file: Path) -> str:
    """The name of the choice in a `file_of`: its stem, and the function's name unless that is
    build."""
    python = PYTHON_MODEL.fullmatch(file.name)
    if python is None:
        return file.stem
    stem = Path(python["file"]).stem
    if python["function"] in (None, BUILD):
        return stem
    return f"{stem}_{python['function']}"


def section_of_function(file: Path) -> dict[str, Any] | None:
    """The choice of a model that is a function of a Python file, or a file that Keras has saved:
    data as they are in a file of the user's, the cell of the model's own layers. None for a YAML
    file."""
    further = {}
    if file.suffix == SAVED_MODEL:
        with file.open("rb") as content:
            digest = hashlib.file_digest(content, "md5").hexdigest()
        further = {"function": SAVED, "file": str(file), "md5": digest}
    elif not PYTHON_MODEL.fullmatch(file.name):
        return None

    return {
        "defaults": [
            {"override /cell@_global_.cell": "of_model"},
            {"override /dataset@_global_.dataset": "file"},
            "_self_",
        ],
        "function": str(file),
        "data": {"prepare": GIVEN_ARRAYS},
        "batch": 32,
        "epochs": 3,
        "recurrent": True,
        "loss": None,
        "optimizer": None,
        "class_weight": None,
        **further,
    }


def _readable(file: Path) -> Path:
    """`file`. Raises a `ConfigError` unless it can be read as text."""
    try:
        file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"cannot be read ({error}).",
            where=display_path(file),
            remedy="save it as UTF-8.",
        ) from None
    except OSError as error:
        raise ConfigError(
            f"cannot be read ({error.strerror or error}).",
            where=display_path(file),
            remedy="make it readable.",
        ) from None

    return file


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
            remedy="correct the path, which may be relative to the YAML file that has it.",
        )

    return f"{file}{name}"


def data_path(
    text: Any,
    folder: Path,
    root: Path,
    where: str,
) -> Any:
    """The path `text` of a user's data, which may be relative to `folder`: relative to `root`, the
    project, if the file is there, else absolute. Raises a `ConfigError` if the file does not exist;
    those in ``data/`` may be fetched later."""
    if not isinstance(text, str) or not text:
        raise ConfigError(
            f"{DATA}={text} is not a path.",
            where=where,
            remedy=f"write dataset=file {DATA}=FILE, or dataset=none for a model that makes its "
            "data.",
        )

    if "${" in text:
        return text
    file = Path(os.path.abspath(folder / Path(text).expanduser()))
    if not file.exists() and not file.is_relative_to(root / "data"):
        raise ConfigError(
            f"{DATA}={text}: {file} does not exist.",
            where=where,
            remedy="correct the path, which may be relative to the YAML file that has it.",
        )

    if file.is_relative_to(root):
        file = file.relative_to(root)
    return str(file)


def with_absolute_paths(group: str, section: Config, file: Path) -> Config:
    """The `section` of a choice in `file`, with its paths of Python files made absolute."""
    for key in (*FUNCTIONS, IMPLEMENTATION, OF_RUNTIME):
        of_group, _, inner = key.partition(".")
        if of_group != group:
            continue
        value = lookup(section, inner)
        if value is not ABSENT:
            path = absolute(value, file.parent, display_path(file))
            section = replaced(section, inner.split("."), path)
    return section


def user_files(config: Mapping[str, object]) -> set[Path]:
    """The user's Python files, with the modules beside them that they import, and the saved models
    that a run with `config` uses."""
    paths = [str(lookup(config, IMPLEMENTATION)), str(lookup(config, "model.file"))]
    for key in FUNCTIONS:
        paths.append(str(lookup(config, key)).rpartition(":")[0])
    files = {Path(path) for path in paths if path.endswith((".py", SAVED_MODEL))}
    for file in list(files):
        if file.suffix == ".py":
            files |= imported_beside(file)
    return files


@cache
def imported_beside(file: Path) -> frozenset[Path]:
    """The modules in the folder of a user's `file`, and the packages there, that it imports, or
    that these import: Python finds them when it runs ``python FILE`` there."""
    reached = [file]
    for each in reached:  # which grows meanwhile
        for module in _imported_modules(each):
            for path in _files_of(file.parent / module):
                if path not in reached:
                    reached.append(path)
    return frozenset(reached[1:])


def _imported_modules(file: Path) -> set[str]:
    """The top names of the modules that `file` imports."""
    names: set[str] = set()
    try:
        tree = parsed(file)
    except (ConfigError, OSError):  # that is said where the file itself is checked
        return names
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def _files_of(module: Path) -> list[Path]:
    """The files of the `module` or package of this path without an ending, if it exists."""
    if (module / "__init__.py").exists():
        return sorted(module.rglob("*.py"))
    single = module.with_suffix(".py")
    return [single] if single.exists() else []


def check_own_code(config: Config, source_of: SourceOf) -> None:
    """Raises a `ConfigError` if a function of the model or of the implementation does not exist.
    `source_of`: as for `checks.check_config`."""
    for key in FUNCTIONS:
        reference = lookup(config, key)
        if reference not in (ABSENT, None):
            _check_function(key, reference, source_of(key))
    _check_implementation(config["rnn"]["implementation"], source_of(IMPLEMENTATION))


def file_of_module(module: str) -> Path | None:
    """The Python file of a `module`: itself if it is a path, or that of a module of the worker by
    its dotted name, whether or not it exists; None for a module of another package."""
    if module.endswith(".py"):
        return Path(module)
    package, *parts = module.split(".")
    if package != rnnworker.__name__:
        return None
    return Path(rnnworker.__file__).parent.joinpath(*parts).with_suffix(".py")


@cache  # thousands of grid points have the same functions
def _check_function(key: str, reference: str, where: str) -> None:
    module, _, name = reference.rpartition(":")
    file = file_of_module(module)
    if file is None:
        return
    names = bindings_of(file)
    if name not in names and STAR not in names:
        raise ConfigError(
            f"{key}: {file} has no function {name}.",
            where=where,
            remedy=f"{suggestion(name, names)}name a function of that file, or add this one.",
        )

    _check_arguments(
        names.get(name),
        OF_MODEL[key],
        file,
        "docs/models.md",
    )


def check_known(key: str, implementation: str, known: Sequence[str], where: str) -> None:
    """Raises a `ConfigError` unless the value of `key`, which is no file, is one of the `known`."""
    if implementation not in known:
        raise ConfigError(
            f"{key} is {implementation!r}.",
            where=where,
            remedy=f"{suggestion(implementation, known)}name a file (mine.py) or one of "
            f"{', '.join(known)}.",
        )


@cache
def _check_implementation(implementation: str, where: str) -> None:
    if not is_user_file(implementation):
        check_known(IMPLEMENTATION, implementation, IMPLEMENTATIONS, where)
        return

    bound = bindings_of(Path(implementation))
    if KERNEL_CLASS in bound:
        return
    for name, count in OF_IMPLEMENTATION.items():
        if name not in bound and STAR not in bound:
            raise ConfigError(
                f"has no class {KERNEL_CLASS} and no function {name}.",
                where=implementation,
                remedy=f"add {KERNEL_CLASS} or {name}, as described in docs/own_kernel.md.",
            )
        _check_arguments(
            bound.get(name),
            (count,),
            Path(implementation),
            "docs/own_kernel.md",
        )


def _check_arguments(
    statement: ast.AST | None,
    counts: Sequence[int],
    file: Path,
    docs: str,
) -> None:
    """Raises a `ConfigError` unless the function can be called with one of the numbers `counts` of
    arguments."""
    if not isinstance(statement, ast.FunctionDef):
        return
    arguments = statement.args
    if any(each.arg == "recurrent" for each in arguments.args):
        counts = counts[:1]  # build(keras, recurrent) would get the config in its place
    most = len(arguments.posonlyargs) + len(arguments.args)
    least = most - len(arguments.defaults)
    if None not in arguments.kw_defaults:
        for count in counts:
            if least <= count and (count <= most or arguments.vararg):
                return
    raise ConfigError(
        f"{statement.name} cannot be called with {counts[0]} arguments.",
        where=f"{file}, line {statement.lineno}",
        remedy=f"give it the arguments described in {docs}.",
    )


def bindings_of(file: Path) -> dict[str, ast.AST]:
    """Maps each name that a Python file binds, at any depth but not in functions and classes, to
    the last node that binds it. A comprehension's own names are not bound outside it. Raises a
    `ConfigError` if the file cannot be read."""
    bindings: dict[str, ast.AST] = {}
    waiting: list[ast.AST] = [parsed(file)]
    while waiting:
        node = waiting.pop()
        inside = list(ast.iter_child_nodes(node))
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                bindings[node.name] = node
                inside = []
            case ast.alias():
                bindings[node.asname or node.name.partition(".")[0]] = node
            case ast.Name(ctx=ast.Store()):
                bindings[node.id] = node
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                bindings[name] = node
            case ast.AnnAssign(value=None) | ast.Lambda():
                inside = []
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                inside = [part for part in ast.walk(node) if isinstance(part, ast.NamedExpr)]
        waiting += reversed(inside)

    return bindings


@cache
def parsed(file: Path) -> ast.Module:
    """The syntax tree of a Python file. Raises a `ConfigError` if it cannot be read or is not
    valid in the Python that runs this."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as for an invalid escape sequence
            return ast.parse(file.read_bytes(), file)
    except (OSError, SyntaxError, ValueError) as error:
        raise ConfigError(
            f"cannot be read as Python {platform.python_version()}: {error}.",
            where=str(file),
            remedy="correct the file.",
        ) from None
