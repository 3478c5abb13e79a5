"""Which arguments ``recurrent(units, …)`` takes.

A kernel that computes Keras's own layers (`rnnlayers`) takes all of them; what it cannot compute,
it refuses when the model is built. An implementation with weights of its own takes few of them and
refuses any other: no argument is ever ignored. Standard library only.
"""

import difflib
from typing import List, Optional, Tuple

from rnnworker.json_types import Config
from rnnworker.options import (
    GATED,
    LONGEST,
    honoured,
    is_user_file,
)

# They decide the shape and direction of a layer, or the initial weights, which are drawn for every
# implementation alike (`initializers`).
INITIALIZERS = ("kernel_initializer", "recurrent_initializer", "bias_initializer")
FOR_ALL = ("name", "return_sequences", "go_backwards", "unit_forget_bias") + INITIALIZERS
# Arguments of every layer of Keras.
OF_ANY_LAYER = ("trainable", "input_shape", "batch_input_shape", "batch_shape", "input_dim")
DROPOUT = ("dropout", "recurrent_dropout")
OF_KERAS = ("seed", "zero_output_for_mask", "stateful", "return_state")
# Argument → what decides it in rnnbench.
DECIDED = {
    "unroll": "write rnn=unrolled in the grid",
    "use_cudnn": "write rnn=cudnn, rnn=auto or rnn=keras in the grid",
    "reset_after": "write cell=gru (True) or cell=gru_reset_before (False) in the grid",
    "dtype": "write precision=… in the grid",
    "autocast": "write precision=… in the grid",
    "input_length": "begin the model with keras.layers.Input",
}
# Arguments that rnnbench supports for no implementation.
NOWHERE = ("weights", "time_major")
# Values with which an argument has no effect on any layer.
WITHOUT_EFFECT = {
    "activation": "tanh",
    "recurrent_activation": "sigmoid",
    "use_bias": True,
    "trainable": True,
    "dropout": 0,
    "recurrent_dropout": 0,
    "return_state": False,
    "stateful": False,
    "unroll": False,
    "time_major": False,
    "zero_output_for_mask": False,
    "use_cudnn": "auto",
}
# (argument, value) → the implementations that are what the model asks for.
SAME = {
    ("unroll", True): ("unrolled",),
    ("use_cudnn", True): ("cudnn",),
    ("use_cudnn", False): ("keras", "unrolled", "cell", "block", "block_cell", "native"),
}
RESET_AFTER = {"gru": True, "gru_reset_before": False}
# Argument → the cells that have it, if not all do.
CELLS_WITH = {
    "recurrent_activation": GATED,
    "reset_after": tuple(RESET_AFTER),
    "unit_forget_bias": ("lstm",),
}
# Options of an implementation, which a grid sets and no layer of Keras has.
OF_THE_GRID = ("class", "op", LONGEST)


class Refusal(ValueError):
    """An implementation or rnnbench cannot do what a model asks for. The message is one sentence
    for the user."""


def supports(config: Config, argument: str, in_place: bool = False) -> bool:
    """Returns whether the implementation of a run's `config` takes an `argument` of a layer.
    `in_place`: it computes Keras's own layers."""
    cell: str = config["cell"]["name"]
    if argument == "unit_forget_bias":
        return cell == "lstm"
    if argument in FOR_ALL:
        return True
    if argument in OF_THE_GRID:
        return False
    if argument in (honoured(config) or ()):
        return True
    if in_place:
        known = OF_ANY_LAYER + DROPOUT + OF_KERAS + _of_the_cell(cell)
        return argument in known
    return argument in OF_ANY_LAYER and not is_user_file(config["rnn"]["implementation"])


def _of_the_cell(cell: str) -> Tuple[str, ...]:
    """The options of a layer of Keras with this cell."""
    config = {"rnn": {"implementation": "keras"}, "cell": {"name": cell}}
    return tuple(honoured(config) or ())


def refusal(
    config: Config,
    argument: str,
    value: object,
    in_place: bool = False,
) -> Optional[str]:
    """Returns why the implementation of `config` refuses `argument` with `value`, as the end of a
    sentence; None if it takes it, or if the value changes nothing.

    `value`: activations by their names; a function of the user's own is any other object."""
    cell = config["cell"]["name"]
    name = config["rnn"]["implementation"]
    is_taken = supports(config, argument, in_place)
    if is_taken or _is_without_effect(argument, value, cell):
        return None
    if isinstance(value, bool) and name in SAME.get((argument, value), ()):
        return None
    what = "{}={}".format(argument, _shown(value))
    if cell not in CELLS_WITH.get(argument, (cell,)):
        return "cell={} has no {}".format(cell, argument)
    if argument in DECIDED:
        return "a model cannot set {}: {}".format(what, DECIDED[argument])
    if argument in NOWHERE:
        return "rnnbench does not support {} for any implementation".format(what)
    if argument not in known_arguments():
        unknown = "a recurrent layer has no argument " + argument
        similar = difflib.get_close_matches(argument, known_arguments(), 1)
        if not similar:
            return unknown
        return "{}: did you mean {}?".format(unknown, similar[0])
    if is_user_file(name):
        honours = "list {} in options of its YAML if make honours it".format(argument)
        return "rnn={} does not support {}; {}".format(config["rnn"].get("name"), what, honours)
    return "rnn={} has weights of its own and does not support {}; keras can".format(name, what)


def check_call(asked_for: str, mask: object, initial_state: object) -> None:
    """Raises a `Refusal` if a layer without masks and initial states is called with one.
    `asked_for`: the place in the model, and the implementation."""
    message = "{} does not support {}; keras can"
    if mask is not None:
        raise Refusal(message.format(asked_for, "a mask"))
    if initial_state is not None:
        raise Refusal(message.format(asked_for, "an initial_state"))


def known_arguments() -> List[str]:
    """Every argument that some implementation honours, and those that are refused by name."""
    names = FOR_ALL + OF_ANY_LAYER + DROPOUT + OF_KERAS + NOWHERE
    return sorted(set(names) | set(DECIDED) | set(_of_the_cell("lstm")))


def _shown(value: object) -> str:
    """A value as a user writes it; an object by its class."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    name: str = getattr(value, "__name__", type(value).__name__)
    return name


def _is_without_effect(argument: str, value: object, cell: str) -> bool:
    if value is None:
        # activation=None means none at all.
        return argument not in ("activation", "recurrent_activation")
    if argument == "reset_after" and cell in RESET_AFTER:
        return bool(value) == RESET_AFTER[cell]
    if argument == "activation" and cell == "rnn_relu":
        return value == "relu"
    if argument == "recurrent_activation" and cell not in GATED:
        return False
    return argument in WITHOUT_EFFECT and value == WITHOUT_EFFECT[argument]
