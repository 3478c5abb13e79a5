"""Settings of Keras and its framework that a model's file may make, and that the grid decides: they
are refused where they differ, with their line, never overridden in silence."""

import os
import re
import sys

from rnnworker.arguments import Refusal

# Setting → (a regular expression that finds its line, what decides it).
DECIDED = {
    "backend": ("KERAS_BACKEND", "the build decides it: {} measures that"),
    "floatx": ("floatx", "precision in the grid decides it: no build computes in {}"),
    "policy": (
        r"policy\(|clear_session\(",
        "precision in the grid decides it: write precision={}, or remove the line",
    ),
    "threads": ("threads", "the device decides it: write device.threads={}"),
    "eager execution": ("disable_", "each build decides it"),
    "eager functions": (
        "run_functions_eagerly|jax_disable_jit",
        "each build compiles its functions",
    ),
    "XLA by default": ("set_jit", "build.jit_compile in the grid decides it"),
    "TF32": (
        "tensor_float_32|tf32|matmul_precision",
        "precision in the grid decides it: write precision=float32 or precision=tf32",
    ),
    "doubles in jax": ("x64", "precision in the grid decides it"),
}
# No session sets them back, and a process has several of one model.
OF_THE_PROCESS = (
    "backend",
    "eager execution",
    "eager functions",
    "XLA by default",
    "doubles in jax",
)
_at_first = {}  # their values before the first model's file was executed
BUILDS = {
    "tensorflow": "build=current",
    "torch": "build=keras3_torch",
    "jax": "build=keras3_jax",
}


def read(session):
    """The settings of `DECIDED` as they are, as far as this framework has them."""
    keras = session.keras
    found = {
        "backend": os.environ.get("KERAS_BACKEND"),
        "floatx": keras.backend.floatx(),
        "policy": session.policy(),
        "threads": session.thread_counts()[0],
        "TF32": session.tf32(),
    }
    tensorflow = getattr(session, "tensorflow", None)
    if hasattr(getattr(tensorflow, "config", None), "functions_run_eagerly"):
        found["eager execution"] = tensorflow.executing_eagerly()
        found["eager functions"] = tensorflow.config.functions_run_eagerly()
        found["XLA by default"] = tensorflow.config.optimizer.get_jit()
    jax = getattr(session, "jax", None)
    if jax is not None:
        found["doubles in jax"] = jax.config.jax_enable_x64
        found["eager functions"] = jax.config.jax_disable_jit
    return found


def before(session):
    """The settings as they were before the model's file was executed for the first time."""
    found = read(session)
    for name in OF_THE_PROCESS:
        if name in found:
            found[name] = _at_first.setdefault(name, found[name])
    return found


def check(session):
    """Raises `Refusal` if a setting is another one than before the model's file was executed."""
    after = read(session)
    for name, before in session.settings.items():
        if after[name] == before:
            continue
        words, decided = DECIDED[name]
        shown = after[name]
        if name == "backend":
            shown = BUILDS.get(shown, "no build of rnnbench")
        fault = "{}: it sets {} to {}, and this run has {}: {}"
        place = line_with(words, session.function)
        told = decided.format(shown)
        raise Refusal(fault.format(place, name, after[name], before, told))


def line_with(words, function):
    """``FILE, line N`` of the first line in the model's file with `words`, a regular expression;
    else the function."""
    module = function.rpartition(":")[0]
    if module.endswith(".py"):
        path = module
    else:
        path = getattr(sys.modules.get(module), "__file__", None)
    if path:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if re.search(words, line) and not line.lstrip().startswith("#"):
                    return "{}, line {}".format(path, number)
    return function
