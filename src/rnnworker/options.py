"""Lists the ``rnn.options`` that each implementation honours.

Standard library only: the modules of ``kernels`` are read, not imported. The controller rejects
other options when it reads a grid, the worker before it makes a layer. Arguments that the model
itself passes to its layers (``dropout``, ``return_sequences``, …) are not options, nor are
initializers, from which every implementation starts alike (`initializers`).
"""

import ast
import functools
import os
from typing import Any, Dict, List, Mapping, Optional, Tuple

from rnnworker.frameworks.names import FRAMEWORKS
from rnnworker.json_types import Config

OF_MODEL = "of_model"  # the cell of a grid if the model's own layers decide
GATED = ("lstm", "gru", "gru_reset_before", OF_MODEL)
_WEIGHTS = (
    "kernel_regularizer",
    "recurrent_regularizer",
    "bias_regularizer",
    "kernel_constraint",
    "recurrent_constraint",
    "bias_constraint",
)
_LAYER = ("activation",) + _WEIGHTS
LONGEST = "longest"  # of `unrolled`: the most time steps that it compiles
# Options that change the layer's function; the others select how it is computed.
OF_THE_FUNCTION = ("recurrent_activation", "activity_regularizer") + _LAYER + ("use_bias",)

PREFIX = "rnn.options."


def is_user_file(implementation: object) -> bool:
    """Returns whether `implementation` is a user-supplied Python file, not a built-in name."""
    return str(implementation).endswith(".py")


def named(reference: Mapping[str, Any]) -> Dict[str, Any]:
    """Returns {name: value} of the options in an experiment's reference (``rnn.options.NAME``)."""
    options = {}
    for key, value in reference.items():
        if key.startswith(PREFIX):
            options[key[len(PREFIX) :]] = value
    return options


# The kernels that compute Keras's own layers (`rnnlayers`) → the options of the layers that
# ``recurrent`` makes, and those of a kernel.
IN_PLACE = {
    "keras": _LAYER,
    "auto": _LAYER,
    "cudnn": _WEIGHTS,
    "cell": _LAYER,
    "unrolled": _LAYER + (LONGEST,),
    "block": _WEIGHTS,
    "block_cell": _WEIGHTS,
    "native": _WEIGHTS,
}
WITHOUT_LAYERS = ("none", "fake")
SAVED = "rnnworker.models.saved:build"  # the function of a model that Keras has saved
KERNEL_CLASS = "Kernel"  # in a user's file, the one that computes Keras's own layers
_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernels")
_FILES = {os.path.splitext(name)[0] for name in os.listdir(_FOLDER) if name.endswith(".py")}
IMPLEMENTATIONS = tuple(IN_PLACE) + WITHOUT_LAYERS + tuple(sorted(_FILES - {"__init__"}))
_GENERIC = ("keras", "auto", "unrolled", "cell")


def is_function(stated: object) -> bool:
    """Whether `stated` names a function: FILE.py:NAME or MODULE:NAME."""
    return ":" in str(stated)


def honoured(config: Config) -> Optional[List[str]]:
    """Returns the options that the implementation of a run's config honours, sorted: all that are
    given for a user-supplied file, None for an unknown implementation."""
    rnn = config["rnn"]
    cell = config["cell"]["name"]
    name = rnn.get("implementation")
    if is_user_file(name):
        return sorted(rnn.get("options") or {})
    if name not in IMPLEMENTATIONS:
        return None
    if name not in IN_PLACE:
        return sorted(_own_options(name))
    options = list(IN_PLACE[name])
    if name != "cudnn":
        options.append("use_bias")
    if cell in GATED:  # Keras 3.15's SimpleRNN ignores it, without an error
        options.append("activity_regularizer")
    if name in _GENERIC:
        if cell in GATED:
            options.append("recurrent_activation")
        framework = (config.get("build") or {}).get("framework")
        # Keras 2.0.6 honours `implementation` in SimpleRNN too; tf.keras ignores it there, and
        # Keras 3 has no such argument.
        has_modes = cell in GATED or framework == "keras206_tensorflow1"
        known = FRAMEWORKS.get(framework or "")
        may_be_cudnn = name == "auto" and (known is None or known.auto_uses_cudnn)
        if has_modes and not may_be_cudnn:
            options.append("implementation")
    return sorted(options)


def not_honoured(config: Config) -> List[str]:
    """Returns the options in a run's config that its implementation ignores, in their order."""
    given = config["rnn"].get("options")
    if not given:
        return []
    known = honoured(config)
    if known is None:
        return []
    return [name for name in given if name not in known]


@functools.lru_cache(maxsize=None)
def _own_options(implementation: str) -> Tuple[str, ...]:
    """The value of ``OPTIONS`` in the module of a built-in implementation; none without it."""
    if implementation in WITHOUT_LAYERS:
        return ()
    with open(os.path.join(_FOLDER, implementation + ".py"), encoding="utf-8") as file:
        tree = ast.parse(file.read())
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "OPTIONS":
            options: Tuple[str, ...] = ast.literal_eval(node.value)
            return options
    return ()
