"""Names the recurrent kernel that ran, from the ops that one training step executed.

- In TensorFlow: ``cudnn``, ``block`` (a fused op over the sequence), ``block_cell`` (a fused op for
  one time step), ``while`` (a loop of matrix products), ``unrolled`` (separate products for each
  time step), ``xla`` (the step was compiled, so its ops are not visible).
- In torch, from its profiler: ``torch:cudnn``, ``torch:onednn`` (oneDNN's LSTM over the sequence,
  on a CPU), ``torch:native`` (torch's op over the sequence, a loop in C++), ``torch:loop`` (one
  product per time step, each launched from Python; also if Keras unrolls, which is equivalent).
- In jax, from the primitives of the traced step: ``jax:cudnn``, ``jax:scan`` (a loop that contains
  products), ``unrolled``.
"""

import re
from typing import Iterable, List, Mapping, Optional, Sequence, Set, Tuple

from rnnworker.frameworks.names import FRAMEWORKS
from rnnworker.json_types import Config, Json

Op = Tuple[str, str, int]  # its path, its type, its number of executions

KERNELS = (
    "cudnn",
    "block",
    "block_cell",
    "while",
    "unrolled",
    "xla",
    "torch:cudnn",
    "torch:onednn",
    "torch:native",
    "torch:loop",
    "jax:cudnn",
    "jax:scan",
)
# Torch's ops over a whole sequence, and kernel → its ops, of which they call one for each layer and
# direction where they have no loop of their own.
TORCH = ("aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu")
INSIDE_TORCH = (
    ("torch:cudnn", ("aten::_cudnn_rnn", "aten::miopen_rnn")),
    ("torch:onednn", ("aten::mkldnn_rnn_layer",)),
)

# In a loop, TensorFlow's profiler takes 0.7 MB for each time step. Of a layer over more than
# `LONGEST`, the ops of `SHORT` are recorded.
LONGEST, SHORT = 1000, 100
NUMBER = re.compile(r"(_\d+)+$")  # that TensorFlow appends to a name that exists already

# What the names of fused ops begin with → their kernel.
FUSED = {
    "CudnnRNN": "cudnn",
    "BlockLSTM": "block",
    "LSTMBlockCell": "block_cell",
    "GRUBlockCell": "block_cell",
}
LOOP = "while"  # in paths
COMPILED = ("XlaLaunch", "_XlaRun", "_XlaCompile", "XlaLocalLaunch")
BACKWARD = ("gradient_tape", "gradients/", "_grad/")


def without_layers(
    ops: Iterable[Op],
    recurrent: Iterable[str],
    others: Iterable[str],
) -> List[Op]:
    """`ops` without those in the layers `others` (names), such as the loop of a TimeDistributed,
    which would be taken for a recurrent one. `recurrent`: the names of the recurrent layers; what
    is in a loop around one of them, and in none inside it, counts once."""
    own = _unnumbered(recurrent)
    foreign = _unnumbered(others) - own
    kept = []
    for path, kind, count in ops:
        parts = [NUMBER.sub("", part) for part in path.split("/")]
        layers = [place for place, part in enumerate(parts) if part in own]
        if layers:
            inside = parts[layers[-1] :]
            kept.append((path, kind, count if LOOP in inside or LOOP not in parts else 1))
        elif not foreign.intersection(parts):
            kept.append((path, kind, count))
    return kept


def _unnumbered(names: Iterable[str]) -> Set[str]:
    return {NUMBER.sub("", name) for name in names}


def kernels_in_tensorflow(ops: Iterable[Op], steps: Optional[int]) -> List[str]:
    """Returns the kernels that a training step in TensorFlow ran, sorted. `ops`: of that step;
    `steps`: number of time steps of the recurrent layers; None if there is no such layer."""
    kernels = set()
    products = []  # how often each product of the forward pass ran
    for path, kind, count in ops:
        for start in FUSED:
            if kind.lstrip("_").startswith(start):
                kernels.add(FUSED[start])
        if kind in COMPILED:
            kernels.add("xla")
        if "MatMul" in kind and not any(part in path for part in BACKWARD):
            products.append(count)
    # A node that runs more than once in one training step is in a loop. For each of them there may
    # be one product outside the loop, of the inputs of all time steps.
    looped = sum(count > 1 for count in products)
    if looped:
        kernels.add("while")
    if steps and steps > 1 and len(products) >= steps + 2 * looped:
        kernels.add("unrolled")
    return sorted(kernels)


def kernels_in_torch(counts: Mapping[str, int], steps: Optional[int]) -> List[str]:
    """As `kernels_in_tensorflow`, from {op: number of executions seen by the profiler} of one
    training step. Only layers call ``aten::matmul``, in the forward pass."""
    kernels = []
    own_loops = sum(counts.get(op, 0) for op in TORCH)
    for kernel, ops in INSIDE_TORCH:
        called = sum(counts.get(op, 0) for op in ops)
        own_loops -= called
        if called:
            kernels.append(kernel)
    if own_loops > 0:
        kernels.append("torch:native")
    if kernels:
        return sorted(kernels)
    products = counts.get("aten::matmul", 0) + counts.get("aten::linear", 0)
    # At least one per time step: Keras may multiply the inputs of all steps before its loop.
    if steps and steps > 1 and products >= steps:
        return ["torch:loop"]
    return []


def kernels_in_jax(
    primitives: Iterable[Tuple[Sequence[str], str]],
    steps: Optional[int],
) -> List[str]:
    """As `kernels_in_tensorflow`, from the primitives of a traced training step, each (names of the
    enclosing loops, name of the primitive)."""
    kernels = set()
    outside = 0  # products outside loops
    for loops, name in primitives:
        if name in ("rnn_fwd", "rnn_bwd"):
            kernels.add("jax:cudnn")
        elif name == "dot_general" and loops:
            kernels.add("jax:scan")
        elif name == "dot_general":
            outside += 1
    # Each time step multiplies inputs and state, and computes the gradients of both matrices.
    if steps and steps > 1 and outside >= 4 * steps:
        kernels.add("unrolled")
    return sorted(kernels)


def expected(config: Config, cells: Sequence[str] = ()) -> Optional[List[str]]:
    """Returns the kernels that ``rnn.kernels`` promises for all `cells` (none: that of the config),
    by the framework's names; None if any kernel is accepted. ``rnn.kernels`` is a list, or a
    (nested) mapping to lists whose keys are tried in this order: ``rnn.options.class``, the cell,
    ``device.kind``, ``build.framework``. Its names are TensorFlow's or the framework's."""
    framework = config["build"].get("framework")
    options = config["rnn"].get("options") or {}
    kernels: List[str] = []
    for cell in cells or [config.get("cell", {}).get("name")]:
        keys = (options.get("class"), cell, config["device"]["kind"], framework)
        of_cell = config["rnn"].get("kernels")
        while isinstance(of_cell, dict):
            known = [key for key in keys if key in of_cell]
            of_cell = of_cell[known[0]] if known else None
        if of_cell is None:
            return None
        kernels += of_cell
    # jax compiles every step, but its loop is visible in the traced step before compilation.
    if config["build"].get("jit_compile") and framework != "keras3_jax":
        if framework == "keras3_torch":
            return None  # code compiled by torch does not reveal its ops
        return ["xla"]
    names = FRAMEWORKS[framework].kernels if framework else {}
    return sorted({names.get(kernel, kernel) for kernel in kernels})


def contradicts(kernel: Mapping[str, Optional[List[str]]]) -> bool:
    """Returns whether the kernels found differ from those expected; False if either is unknown."""
    found = kernel["found"]
    expected = kernel["expected"]
    if expected is None or not found:
        return False
    return sorted(found) != sorted(expected)


def why_not_cudnn(facts: Mapping[str, object]) -> List[str]:
    """Returns the reasons why cuDNN was not used; empty if none is known.

    `facts`: ``cell``, ``device`` (``cpu`` or ``gpu``), ``gpus`` (number visible to the framework),
    ``cuda_build``, ``use_cudnn``, ``activation``, ``recurrent_activation``, ``recurrent_dropout``,
    ``unroll``, ``use_bias``, ``reset_after``, ``mask``; unknown facts are absent or None.
    """
    known = facts.get
    reasons = []
    if known("device") == "cpu":
        reasons.append("the device is a CPU")
    if known("device") == "gpu" and known("gpus") == 0:
        reasons.append("the framework sees no GPU")
    if known("cuda_build") is False:
        reasons.append("the build has no CUDA support")
    if known("use_cudnn") is False:
        reasons.append("the layer has use_cudnn=False")
    if known("cell") in ("rnn_tanh", "rnn_relu"):
        reasons.append("Keras has no cuDNN path for a simple recurrent layer")
    else:
        for name, required in (("activation", "tanh"), ("recurrent_activation", "sigmoid")):
            value = known(name)
            if value not in (None, required):
                only = "{} is {}, cuDNN supports only {}"
                reasons.append(only.format(name, value, required))
    if known("recurrent_dropout"):
        reasons.append("cuDNN has no recurrent dropout")
    if known("unroll"):
        reasons.append("the layer is unrolled")
    if known("use_bias") is False:
        reasons.append("the layer has no bias")
    if known("reset_after") is False:
        reasons.append("the GRU resets before the product (reset_after=False)")
    if known("mask"):
        reasons.append("the inputs are masked and may not be right-padded")
    return reasons


def layer_facts(layer: object) -> Json:
    """Returns the settings of a Keras layer that decide whether cuDNN can be used."""
    facts = {}
    cell = getattr(layer, "cell", None)
    for name in ("recurrent_dropout", "unroll", "use_bias", "reset_after", "use_cudnn"):
        of_cell = getattr(cell, name, None)
        facts[name] = getattr(layer, name, of_cell)
    for name in ("activation", "recurrent_activation"):
        activation = getattr(layer, name, None)
        facts[name] = getattr(activation, "__name__", None)
    return facts
