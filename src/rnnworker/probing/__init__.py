"""Matrix products with each framework's operations, for the probe."""

import importlib

ARITHMETIC = {
    "keras3_tensorflow": "rnnworker.probing.on_tensorflow2",
    "keras2_tensorflow2": "rnnworker.probing.on_tensorflow2",
    "keras2_tensorflow1": "rnnworker.probing.on_tensorflow1",
    "keras206_tensorflow1": "rnnworker.probing.on_tensorflow1",
    "keras3_torch": "rnnworker.probing.on_torch",
    "keras3_jax": "rnnworker.probing.on_jax",
}


def arithmetic(session):
    """Returns the `Arithmetic` of a session. Its ``product(size)`` returns a function without
    arguments that multiplies two square matrices of float32 and returns when it is done."""
    name = session.config["build"]["framework"]
    return importlib.import_module(ARITHMETIC[name]).Arithmetic(session)
