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

from rnnworker.frameworks.names import FRAMEWORKS

KERNELS = (
    *("cudnn", "block", "block_cell", "while", "unrolled", "xla"),
    *("torch:cudnn", "torch:onednn", "torch:native", "torch:loop", "jax:cudnn", "jax:scan"),
)
# Kernel of torch → its ops. The op over a whole sequence calls that of cuDNN or oneDNN if one is
# used, so the first kernel that is found counts.
TORCH = (
    ("torch:cudnn", ("aten::_cudnn_rnn", "aten::miopen_rnn")),
    ("torch:onednn", ("aten::mkldnn_rnn_layer",)),
    ("torch:native", ("aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu")),
)

# In a loop, TensorFlow's profiler takes 0.7 MB for each time step. Of a layer over more than
# `LONGEST`, the ops of `SHORT` are recorded.
LONGEST, SHORT = 1000, 100
NUMBER = re.compile(r"(_\d+)+$")  # that TensorFlow appends to a name that exists already

FUSED = (
    ("cudnn", "CudnnRNN"),
    ("block", "BlockLSTM"),
    ("block_cell", "LSTMBlockCell"),
    ("block_cell", "GRUBlockCell"),
)
COMPILED = ("XlaLaunch", "_XlaRun", "_XlaCompile", "XlaLocalLaunch")
BACKWARD = ("gradient_tape", "gradients/", "_grad/")


def without_layers(ops, recurrent, others):
    """`ops` without those in the layers `others` (names), such as the loop of a TimeDistributed,
    which would be taken for a recurrent one. `recurrent`: the names of the recurrent layers."""
    own = {NUMBER.sub("", name) for name in recurrent}
    foreign = {NUMBER.sub("", name) for name in others} - own
    kept = []
    for path, kind, count in ops:
        parts = {NUMBER.sub("", part) for part in path.split("/")}
        if not parts & foreign or parts & own:
            kept.append((path, kind, count))
    return kept


def kernels_in_tensorflow(ops, steps):
    """Returns the kernels that a training step in TensorFlow ran, sorted. `ops`: (path, op type,
    number of executions) of that step; `steps`: number of time steps of the recurrent layers; None
    if there is no such layer."""
    kinds = {kind for _, kind, _ in ops}
    kernels = {
        kernel for kernel, start in FUSED for kind in kinds if kind.lstrip("_").startswith(start)
    }
    if kinds & set(COMPILED):
        kernels.add("xla")
    products = [
        count
        for path, kind, count in ops
        if "MatMul" in kind and not any(part in path for part in BACKWARD)
    ]
    # A node that runs more than once in one training step is in a loop. For each of them there may
    # be one product outside the loop, of the inputs of all time steps.
    looped = sum(count > 1 for count in products)
    if looped:
        kernels.add("while")
    if steps and steps > 1 and len(products) >= steps + 2 * looped:
        kernels.add("unrolled")
    return sorted(kernels)


def kernels_in_torch(counts, steps):
    """As `kernels_in_tensorflow`, from {op: number of executions seen by the profiler} of one
    training step. Only layers call ``aten::matmul``, in the forward pass."""
    for kernel, ops in TORCH:
        if any(map(counts.get, ops)):
            return [kernel]
    products = counts.get("aten::matmul", 0) + counts.get("aten::linear", 0)
    # At least one per time step: Keras may multiply the inputs of all steps before its loop.
    return ["torch:loop"] if steps and steps > 1 and products >= steps else []


def kernels_in_jax(primitives, steps):
    """As `kernels_in_tensorflow`, from the primitives of a traced training step, each (names of the
    enclosing loops, name of the primitive)."""
    kernels = set()
    if any(name in ("rnn_fwd", "rnn_bwd") for _, name in primitives):
        kernels.add("jax:cudnn")
    products = [loops for loops, name in primitives if name == "dot_general"]
    if any(products):
        kernels.add("jax:scan")
    # Each time step multiplies inputs and state, and computes the gradients of both matrices.
    if steps and steps > 1 and sum(not loops for loops in products) >= 4 * steps:
        kernels.add("unrolled")
    return sorted(kernels)


def expected(config, cells=()):
    """Returns the kernels that ``rnn.kernels`` promises for all `cells` (none: that of the config),
    by the framework's names; None if any kernel is accepted. ``rnn.kernels`` is a list, or a
    (nested) mapping to lists whose keys are tried in this order: ``rnn.options.class``, the cell,
    ``device.kind``, ``build.framework``. Its names are TensorFlow's or the framework's."""
    framework, kernels = config["build"].get("framework"), []
    for cell in cells or [config.get("cell", {}).get("name")]:
        of_cell = _of_cell(config, cell)
        if of_cell is None:
            return None
        kernels += of_cell
    # jax compiles every step, but its loop is visible in the traced step before compilation.
    if config["build"].get("jit_compile") and framework != "keras3_jax":
        # Code compiled by torch does not reveal its ops.
        return None if framework == "keras3_torch" else ["xla"]
    names = FRAMEWORKS[framework].kernels if framework else {}
    return sorted({names.get(kernel, kernel) for kernel in kernels})


def _of_cell(config, cell):
    kernels, options = config["rnn"].get("kernels"), config["rnn"].get("options") or {}
    device, framework = config["device"]["kind"], config["build"].get("framework")
    keys = (options.get("class"), cell, device, framework)
    while isinstance(kernels, dict):
        kernels = next((kernels[key] for key in keys if key in kernels), None)
    return kernels


def contradicts(kernel):
    """Returns whether the kernels found differ from those expected; False if either is unknown."""
    if kernel["expected"] is None or not kernel["found"]:
        return False
    return sorted(kernel["found"]) != sorted(kernel["expected"])


def why_not_cudnn(facts):
    """Returns the reasons why cuDNN was not used; empty if none is known.

    `facts`: ``cell``, ``device`` (``cpu`` or ``gpu``), ``gpus`` (number visible to the framework),
    ``cuda_build``, ``use_cudnn``, ``activation``, ``recurrent_activation``, ``recurrent_dropout``,
    ``unroll``, ``use_bias``, ``reset_after``, ``mask``; unknown facts are absent or None.
    """
    known = facts.get
    simple = known("cell") in ("rnn_tanh", "rnn_relu")
    reasons = [
        (known("device") == "cpu", "the device is a CPU"),
        (known("device") == "gpu" and known("gpus") == 0, "the framework sees no GPU"),
        (known("cuda_build") is False, "the build has no CUDA support"),
        (known("use_cudnn") is False, "the layer has use_cudnn=False"),
        (simple, "Keras has no cuDNN path for a simple recurrent layer"),
    ]
    for name, required in (("activation", "tanh"), ("recurrent_activation", "sigmoid")):
        value = known(name)
        differs = not simple and value is not None and value != required
        reasons.append((differs, "{} is {}, cuDNN supports only {}".format(name, value, required)))
    reasons += [
        (known("recurrent_dropout"), "cuDNN has no recurrent dropout"),
        (known("unroll"), "the layer is unrolled"),
        (known("use_bias") is False, "the layer has no bias"),
        (known("reset_after") is False, "the GRU resets before the product (reset_after=False)"),
        (known("mask"), "the inputs are masked and may not be right-padded"),
    ]
    return [reason for applies, reason in reasons if applies]


def layer_facts(layer):
    """Returns the settings of a Keras layer that decide whether cuDNN can be used."""
    facts, cell = {}, getattr(layer, "cell", None)
    for name in ("recurrent_dropout", "unroll", "use_bias", "reset_after", "use_cudnn"):
        facts[name] = getattr(layer, name, getattr(cell, name, None))
    for name in ("activation", "recurrent_activation"):
        facts[name] = getattr(getattr(layer, name, None), "__name__", None)
    return facts
