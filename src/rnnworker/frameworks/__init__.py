"""One module per framework, each with a ``Session`` class that has the same methods. The modules
are imported late: describing a run never imports a framework."""

import importlib
from typing import Any

from rnnworker.frameworks.names import FRAMEWORKS
from rnnworker.json_types import Config


def open_session(config: Config, threads: int) -> Any:
    """Imports the framework that ``build.framework`` of the run's `config` names and returns its
    session, for a process that is pinned to cores for `threads` threads already. Raises ValueError
    if the framework is unknown."""
    name = config["build"]["framework"]
    if name not in FRAMEWORKS:
        known = ", ".join(sorted(FRAMEWORKS))
        raise ValueError("build.framework {!r} must be one of {}".format(name, known))
    module = FRAMEWORKS[name].module
    if (config["device"].get("replicas") or 1) > 1:
        if not FRAMEWORKS[name].has_replicas:
            raise ValueError("device.replicas: {} trains on one device".format(name))
        # Imported by name, so that the module does not count towards the digest of other runs.
        module = "replicas"
    return importlib.import_module("rnnworker.frameworks." + module).Session(config, threads)
