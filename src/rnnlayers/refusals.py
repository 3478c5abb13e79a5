"""What a kernel cannot compute: one sentence for each cause."""


class CannotCompute(ValueError):
    """A kernel cannot compute a `layer`. The message names the layer, the kernel and the cause."""

    layer = None


def refusal(layer, kernel, cause):
    """The `CannotCompute` of a `layer` of the author's model; `cause` is the end of a sentence."""
    error = CannotCompute("layer {}: {} {}".format(layer.name, kernel, cause))
    error.layer = layer
    return error


def of_cell(cell, can):
    """Why a kernel that computes the `can` (names of Keras's layers) does not compute `cell`."""
    return "computes {} only, not {}".format(" and ".join(can), type(cell).__name__)


def of_activation(argument, activation, can):
    """Why a kernel with the one activation `can` does not compute another one."""
    name = getattr(activation, "__name__", type(activation).__name__)
    if name in can.split(" or "):
        name = "another function called " + name
    return "computes {}={} only, not {}".format(argument, can, name)


def of_dtype(dtype, can):
    return "computes in {} only, not in {}".format(" and ".join(can), dtype)


DROPOUT = "has no dropout"
RECURRENT_DROPOUT = "has no recurrent_dropout"
DROPOUT_PER_GATE = "has one dropout mask for all gates, and implementation=1 has one for each"
RESET_BEFORE = "computes reset_after=True only"
RESET_AFTER = "computes reset_after=False only"
MASK = "has no masks"
RAGGED = "has no ragged inputs"
CONSTANTS = "has no constants"
SECOND_DERIVATIVES = (
    "has no second derivatives, which a loss with a gradient in it needs: keras and unrolled have"
)
OWN_METHOD = "cannot stand for {}, which is not Keras's"
NO_GPU = "needs a GPU"
NO_CUDNN = "needs what Keras computes on cuDNN: tanh, sigmoid, a bias, reset_after, no unroll"
XLA = "cannot be compiled by XLA: compile the model with jit_compile=False"
BACKEND = "needs Keras on {}, and this Keras is on {}"
