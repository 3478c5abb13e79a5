"""Finds a function by ``module:function`` or ``file.py:function``, and says where in a file of the
user's own something went wrong."""

import importlib
import importlib.util
import os
import re
import traceback

OWN = "rnnbench_user_"  # how the names of modules from a user's own files begin
COLOURS = re.compile("\x1b\\[[0-9;]*m")


def function(reference):
    """The function that `reference` names, or a ValueError that says what is missing."""
    place, _, name = reference.rpartition(":")
    if not place:
        raise ValueError("{!r} is not module:function or file.py:function".format(reference))
    if place.endswith(".py"):
        module = from_file(place)
    else:
        module = importlib.import_module(place)
    if not hasattr(module, name):
        raise ValueError("{} has no function {!r}".format(place, name))
    return getattr(module, name)


def from_file(path, named=OWN):
    """The module in a file, the user's own where it is not `named` otherwise."""
    if not os.path.exists(path):
        raise ValueError("{} does not exist".format(path))
    stem = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(named + stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def one_line(error):
    """What `error` says, on one line of 500 characters at most; where it was raised in or below a
    file of the user's own, this file and its line first."""
    lines = [line.strip() for line in COLOURS.sub("", str(error)).splitlines() if line.strip()]
    if lines and lines[0] == "in user code:":  # TensorFlow lists places, each with its source
        places = [index for index, line in enumerate(lines) if line.startswith('File "')]
        lines = lines[places[-1] + 2 :] if places else lines
    if len(lines) > 1 and "Exception encountered when calling" in lines[0]:
        lines = lines[1:]  # Keras says first that, and then what
    words = lines[0] if lines else repr(error)
    return (_place(error) + words)[:500]


def _place(error):
    frames = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).startswith(OWN)
    ]
    return "{}, line {}: ".format(*frames[-1]) if frames else ""
