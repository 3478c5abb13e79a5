"""``python path/to/rnnworker RUN.json`` executes one run in the environment of this interpreter;
with ``--import`` it executes several (see `importer`), and with ``--serving`` before that it serves
with a model in place of training it.

The worker is started by the path of its folder, not by ``-m``: the parent folder may be the
site-packages of the controller, which must not be on the path of the build under test.
"""

import importlib
import importlib.util
import os
import sys


def load_package(further=()):
    """Makes ``import rnnworker`` find this folder, wherever it lies, and ``import rnnlayers`` and
    the `further` packages those beside it."""
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != folder]
    _load("rnnworker", folder)
    for name in ("rnnlayers",) + tuple(further):
        _load(name, os.path.join(os.path.dirname(folder), name))


def _load(name, folder):
    file = os.path.join(folder, "__init__.py")
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=[folder])
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    serves = arguments[0] == "--serving"
    if serves:
        arguments.pop(0)
    if "rnnworker" not in sys.modules:
        load_package(["rnnserve"] if serves else [])
    if arguments[0] == "--import":
        from rnnworker.importer import main

        sys.exit(main(*arguments[1:]))
    if serves:
        # By name, so that it does not count towards the digest of a run.
        sys.exit(importlib.import_module("rnnworker.serving.prepare").main(*arguments))
    from rnnworker.run import main

    sys.exit(main(arguments))
