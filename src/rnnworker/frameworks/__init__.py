"""One module per framework. Each has a ``Session`` with the same methods, imported late:
describing a run never imports a framework."""

import importlib

FRAMEWORKS = {
    "keras3_tensorflow": "rnnworker.frameworks.keras3_tensorflow",
    "keras3_torch": "rnnworker.frameworks.keras3_torch",
    "keras3_jax": "rnnworker.frameworks.keras3_jax",
    "keras2_tensorflow2": "rnnworker.frameworks.keras2_tensorflow2",
    "keras2_tensorflow1": "rnnworker.frameworks.keras2_tensorflow1",
    "keras206_tensorflow1": "rnnworker.frameworks.keras206_tensorflow1",
    "fake": "rnnworker.frameworks.fake",
}


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
    return importlib.import_module(FRAMEWORKS[name]).Session(config, threads)
