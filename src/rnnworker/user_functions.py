"""Loads a function by ``module:function`` or ``file.py:function``, and locates errors in
user-supplied files."""

import contextlib
import importlib
import importlib.util
import inspect
import os
import re
import sys
import traceback
import warnings
import zlib
from types import FrameType, ModuleType
from typing import Any, Callable, Iterator, List, Optional, Set, Tuple

from rnnworker.arguments import Refusal

USER_MODULE_PREFIX = "rnnbench_user_"  # prefix of the names of modules from user-supplied files
MODELS = (USER_MODULE_PREFIX, "rnnworker.models.")
_folders: Set[str] = set()  # of user-supplied files, whose modules they import
_executed: Set[str] = set()  # the names of the modules of user-supplied files
# First line of TensorFlow's errors that list places → lines from the last place to the message: it
# may have its source.
PLACES = {"in user code:": 2, "Graph execution error:": 1}
# In what TensorFlow and torch say of a number of threads or devices that is set after their start.
TOO_LATE = re.compile("cannot .*after (being )?(initializ|parallel work)", re.IGNORECASE)
COLOURS = re.compile("\x1b\\[[0-9;]*m")
# Codes of faults.
EXCEPTION = "exception"
OUT_OF_MEMORY = "out_of_memory"
# In messages of glibc, C++, NumPy, TensorFlow, torch and XLA that memory ran out, in lower case.
MESSAGES = (
    "bad_alloc", "cannot allocate memory", "can't allocate memory", "failed to allocate",
    "memoryerror", "out of memory", "oom when allocating", "resource_exhausted",
    "resourceexhaustederror", "unable to allocate", "oom killer",
)  # fmt: skip


def function(reference: str) -> Callable[..., Any]:
    """Returns the function that `reference` names. Raises ValueError if it does not exist."""
    source, _, name = reference.rpartition(":")
    if not source:
        raise ValueError("{!r} is not module:function or file.py:function".format(reference))
    if source.endswith(".py"):
        module = from_file(source)
    else:
        module = importlib.import_module(source)
    if not hasattr(module, name):
        raise ValueError("{} has no function {!r}".format(source, name))
    found: Callable[..., Any] = getattr(module, name)
    return found


def from_file(path: str, prefix: str = USER_MODULE_PREFIX) -> ModuleType:
    """Imports a file as a module whose name begins with `prefix` and differs from that of any other
    file, as ``python FILE`` would: its folder is on the import path. It is executed once until
    `forget`. Raises ValueError if the file does not exist."""
    if not os.path.exists(path):
        raise ValueError("{} does not exist".format(path))

    absolute = os.path.abspath(path)
    stem = os.path.splitext(os.path.basename(path))[0]
    digest = zlib.crc32(absolute.encode("utf-8"))
    name = "{}{}_{:08x}".format(prefix, stem, digest)
    if name in _executed:
        return sys.modules[name]
    folder = os.path.dirname(absolute)
    if prefix == USER_MODULE_PREFIX:
        _folders.add(folder)
        if folder not in sys.path:
            sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError("{} is no file of Python".format(path))
    module = importlib.util.module_from_spec(spec)
    # A module may look itself up there: dataclasses, pickle and nvidia-ml-py do.
    sys.modules[name] = module
    try:
        with as_program(str(path)):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    _executed.add(name)
    return module


@contextlib.contextmanager
def as_program(program: str) -> Iterator[None]:
    """Lets the code of a file find in the block what ``python FILE`` would give it: no arguments on
    the command line. Which warnings it makes errors is its own affair, in the block only. Raises
    `Refusal` if it ends the program, or sets what a framework lets a program set at its start only.

    `program`: the file, or the module."""
    before = sys.argv
    sys.argv = [program]
    try:
        with warnings.catch_warnings():
            yield
    except SystemExit as error:
        fault = (
            "{}it ends the program, as argparse does without an argument that it needs: rnnbench "
            "gives none, so state a default for each"
        )
        raise Refusal(fault.format(_location(error, ""))) from error
    except RuntimeError as error:
        if not TOO_LATE.search(str(error)):
            raise
        fault = "{}{}: the device in the grid decides that: remove the line"
        raise Refusal(fault.format(_location(error, ""), str(error).rstrip("."))) from error
    finally:
        sys.argv = before


def forget() -> None:
    """Lets each user-supplied file, and the modules in its folder, be executed anew: what they keep
    belongs to one model."""
    _executed.clear()
    are_users = {}  # top-level names
    for name in list(sys.modules):
        top = name.partition(".")[0]
        if top not in are_users:
            are_users[top] = is_of_user(top)
        if are_users[top]:
            del sys.modules[name]
    _forget_gradients()


def _forget_gradients() -> None:
    """Lets a file register its gradients of TensorFlow again, which are refused a second time."""
    for name in ("tensorflow", "tensorflow_core"):  # of TensorFlow 2, of 1.15
        ops = sys.modules.get(name + ".python.framework.ops")
        registry = getattr(getattr(ops, "_gradient_registry", None), "_registry", {})
        for op, entry in list(registry.items()):
            code = getattr(entry.get("type"), "__code__", None)
            if code is not None and _is_beside(code.co_filename):
                del registry[op]


def is_of_user(name: str) -> bool:
    """Whether the imported module of this top-level name is in the folder of a user's file."""
    file = vars(sys.modules.get(name) or object).get("__file__")  # `getattr` loads a lazy module
    if not file or name in ("rnnworker", "rnnlayers"):
        return False
    folder = os.path.dirname(os.path.abspath(file))
    if os.path.basename(file) == "__init__.py":
        folder = os.path.dirname(folder)
    return folder in _folders


def caller() -> Optional[str]:
    """``FILE, line N`` of the innermost caller in a model's file or in another one of its folder;
    None if there is none."""
    for frame, line in traceback.walk_stack(None):
        if is_of_model(frame):
            return "{}, line {}".format(frame.f_code.co_filename, line)
    return None


def is_of_model(frame: FrameType) -> bool:
    """Whether `frame` is one of a model's code: a user's file, a module beside it, or a model of
    rnnbench."""
    name = str(frame.f_globals.get("__name__"))
    if name.startswith(MODELS):
        return True
    return _is_beside(frame.f_code.co_filename)


def _is_beside(file: str) -> bool:
    """Whether `file` is in the folder of a user's file."""
    return os.path.dirname(os.path.abspath(file)) in _folders


def needed(function: Callable[..., Any]) -> Tuple[Optional[int], List[str]]:
    """Returns (the number of positional arguments that `function` needs, the names of its optional
    ones). A function of ``*arguments`` takes any number: None."""
    number = 0
    optional = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind == parameter.VAR_POSITIONAL:
            return None, []
        if parameter.default is not parameter.empty:
            optional.append(parameter.name)
        elif parameter.kind not in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD):
            number += 1
    return number, optional


def one_line(error: BaseException, model: Optional[str] = None) -> str:
    """Returns the message of `error` as one line of at most 500 characters. If it was raised in or
    below a user-supplied file, the line begins with that file and line number; else, if a framework
    raised it, with the user-supplied `model`, FILE:FUNCTION."""
    lines: List[str] = []
    last_place = None
    for line in COLOURS.sub("", str(error)).splitlines():
        line = line.strip()
        if line.startswith('File "'):
            last_place = len(lines)
        if line:
            lines.append(line)

    if last_place is not None and lines[0] in PLACES:
        first = last_place + PLACES[lines[0]]
        lines = lines[first:]
    if len(lines) > 1 and "Exception encountered when calling" in lines[0]:
        lines = lines[1:]  # Keras puts the cause on the next line

    message = lines[0] if lines else repr(error)
    if message.startswith(type(error).__name__ + ": "):
        message = message.partition(": ")[2]

    location = _location(error, model or "")
    if not message.startswith(location):
        message = location + message
    path = getattr(error, "filename", None) or ""
    if location and isinstance(error, FileNotFoundError) and not os.path.isabs(path):
        message += "; relative paths begin in {}".format(os.getcwd())
    return message[:500]


def described(error: BaseException, model: Optional[str] = None) -> str:
    """Returns the type of `error` and its message on one line, with `model` as in `one_line`."""
    return "{}: {}".format(type(error).__name__, one_line(error, model))


def code_of(error: BaseException) -> str:
    """Returns the code of a fault that is this `error`: `OUT_OF_MEMORY` or `EXCEPTION`."""
    if says_out_of_memory(described(error)):
        return OUT_OF_MEMORY
    return EXCEPTION


def says_out_of_memory(text: str) -> bool:
    """Whether an error or the end of a log says that memory ran out."""
    text = text.lower()
    return any(message in text for message in MESSAGES)


def _location(error: BaseException, model: str) -> str:
    """Returns where `error` was raised, as `one_line` says it; "" if that is unknown."""
    location = ""
    module = "rnnworker."  # where the error was raised
    for frame, line in traceback.walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__"))
        if is_of_model(frame) and not module.startswith("rnnworker."):
            location = "{}, line {}: ".format(frame.f_code.co_filename, line)
    if location or isinstance(error, MemoryError):
        return location
    by_framework = not module.startswith("rnnworker.")
    if by_framework and ".py:" in model:
        return "model {}: ".format(model)
    return ""
