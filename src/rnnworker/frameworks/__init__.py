"""One module per framework. Each has a ``Session`` with the same methods, imported late:
describing a run never imports a framework."""

import importlib

from rnnworker.frameworks.names import FRAMEWORKS


def open_session(config, threads):
    """Imports the framework that ``build.framework`` names and returns its session.

    **Arguments:**

    - `config`: the run's config.
    - `threads`: how many threads the run may use; the process is pinned already.
    """
    name = config["build"]["framework"]
    if name not in FRAMEWORKS:
        known = ", ".join(sorted(FRAMEWORKS))
        raise ValueError("build.framework {!r} is none of {}".format(name, known))
    return importlib.import_module("rnnworker.frameworks." + name).Session(config, threads)
