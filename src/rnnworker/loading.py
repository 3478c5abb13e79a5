"""Finds a function by ``module:function`` or ``/path/to/file.py:function``."""

import importlib
import importlib.util
import os


def function(reference):
    """The function that `reference` names, or a ValueError that says what is missing."""
    place, _, name = reference.rpartition(":")
    if not place:
        raise ValueError("{!r} is not module:function or file.py:function".format(reference))
    if place.endswith(".py"):
        module = _from_file(place)
    else:
        module = importlib.import_module(place)
    if not hasattr(module, name):
        raise ValueError("{} has no function {!r}".format(place, name))
    return getattr(module, name)


def _from_file(path):
    if not os.path.exists(path):
        raise ValueError("{} does not exist".format(path))
    stem = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location("rnnbench_user_" + stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
