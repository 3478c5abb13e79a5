"""Loads a function by ``module:function`` or ``file.py:function``, and locates errors in
user-supplied files."""

import importlib
import importlib.util
import inspect
import os
import re
import sys
import traceback
import zlib

USER_MODULE_PREFIX = "rnnbench_user_"  # prefix of the names of modules from user-supplied files
# First line of TensorFlow's errors that list places → lines from the last place to the message: it
# may have its source.
PLACES = {"in user code:": 2, "Graph execution error:": 1}
COLOURS = re.compile("\x1b\\[[0-9;]*m")


def function(reference):
    """Returns the function that `reference` names. Raises ValueError if it does not exist."""
    source, _, name = reference.rpartition(":")
    if not source:
        raise ValueError("{!r} is not module:function or file.py:function".format(reference))
    module = from_file(source) if source.endswith(".py") else importlib.import_module(source)
    if not hasattr(module, name):
        raise ValueError("{} has no function {!r}".format(source, name))
    return getattr(module, name)


def from_file(path, prefix=USER_MODULE_PREFIX):
    """Imports a file as a module whose name begins with `prefix` and differs from that of any other
    file. Raises ValueError if the file does not exist."""
    if not os.path.exists(path):
        raise ValueError("{} does not exist".format(path))
    stem = os.path.splitext(os.path.basename(path))[0]
    name = "{}{}_{:08x}".format(prefix, stem, zlib.crc32(os.path.abspath(path).encode("utf-8")))
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    # A module may look itself up there: dataclasses, pickle and nvidia-ml-py do.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def needed(function):
    """Returns (the number of positional arguments that `function` needs, the names of its optional
    ones). A function of ``*arguments`` takes any number: None."""
    parameters = inspect.signature(function).parameters.values()
    if any(each.kind == each.VAR_POSITIONAL for each in parameters):
        return None, []
    optional = [each.name for each in parameters if each.default is not each.empty]
    of_keyword = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    positional = [each for each in parameters if each.kind not in of_keyword]
    return sum(each.default is each.empty for each in positional), optional


def one_line(error, model=None):
    """Returns the message of `error` as one line of at most 500 characters. If it was raised in or
    below a user-supplied file, the line begins with that file and line number; else, if a framework
    raised it, with the user-supplied `model`, FILE:FUNCTION."""
    lines = [line.strip() for line in COLOURS.sub("", str(error)).splitlines() if line.strip()]
    places = [index for index, line in enumerate(lines) if line.startswith('File "')]
    if places and lines[0] in PLACES:
        lines = lines[places[-1] + PLACES[lines[0]] :]
    if len(lines) > 1 and "Exception encountered when calling" in lines[0]:
        lines = lines[1:]  # Keras puts the cause on the next line
    message = lines[0] if lines else repr(error)
    if message.startswith(type(error).__name__ + ": "):
        message = message.partition(": ")[2]
    location = _location(error, model or "")
    return (message if message.startswith(location) else location + message)[:500]


def described(error, model=None):
    """Returns the type of `error` and its message on one line, with `model` as in `one_line`."""
    return "{}: {}".format(type(error).__name__, one_line(error, model))


def _location(error, model):
    frames = [
        (str(frame.f_globals.get("__name__")), frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    own = [frame for frame in frames if frame[0].startswith(USER_MODULE_PREFIX)]
    if own:
        return "{1}, line {2}: ".format(*own[-1])
    if isinstance(error, MemoryError):
        return ""
    by_framework = frames and not frames[-1][0].startswith("rnnworker.")
    return "model {}: ".format(model) if by_framework and ".py:" in model else ""
