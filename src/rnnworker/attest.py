"""What ran: names the recurrent kernel from the ops that one training step executed.

In TensorFlow: ``cudnn``, ``block`` (a fused op over the sequence), ``block_cell`` (a fused op for
one time step), ``while`` (a loop of matrix products), ``unrolled`` (the products of every time step
apart), ``xla`` (the step was compiled: what is inside is not seen).

In torch, by its profiler: ``torch:cudnn``, ``torch:onednn`` (oneDNN's LSTM over the sequence, on a
CPU), ``torch:native`` (torch's own op over the sequence, a loop in C++), ``torch:loop`` (a product
for every time step, started one by one from Python; also where Keras unrolls, which is the same
thing there). In jax, by the primitives of the step as it is traced: ``jax:cudnn``, ``jax:scan`` (a
loop with products in it), ``unrolled``.
"""

KERNELS = (
    *("cudnn", "block", "block_cell", "while", "unrolled", "xla"),
    *("torch:cudnn", "torch:onednn", "torch:native", "torch:loop", "jax:cudnn", "jax:scan"),
)
# What a label says → what the framework calls it.
NAMES = {
    "keras3_torch": {"while": "torch:loop", "unrolled": "torch:loop", "cudnn": "torch:cudnn"},
    "keras3_jax": {"while": "jax:scan", "cudnn": "jax:cudnn"},
}
TORCH_CUDNN = ("aten::_cudnn_rnn", "aten::miopen_rnn")
TORCH_ONEDNN = ("aten::mkldnn_rnn_layer",)
TORCH_NATIVE = ("aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu")

FUSED = (
    ("cudnn", "CudnnRNN"),
    ("block", "BlockLSTM"),
    ("block_cell", "LSTMBlockCell"),
    ("block_cell", "GRUBlockCell"),
)
COMPILED = ("XlaLaunch", "_XlaRun", "_XlaCompile", "XlaLocalLaunch")
BACKWARD = ("gradient_tape", "gradients/", "_grad/")


def found(ops, steps):
    """The kernels that a training step ran, sorted.

    **Arguments:**

    - `ops`: (path, op type, how often it was executed), of one training step.
    - `steps`: how many time steps the recurrent layers have; None where there are none.
    """
    kinds = {kind for _, kind, _ in ops}
    kernels = {
        kernel for kernel, start in FUSED for kind in kinds if kind.lstrip("_").startswith(start)
    }
    if kinds & set(COMPILED):
        kernels.add("xla")
    products = [
        count
        for path, kind, count in ops
        if "MatMul" in kind and not any(word in path for word in BACKWARD)
    ]
    # A node that one training step executes more than once is in a loop.
    if any(count > 1 for count in products):
        kernels.add("while")
    if steps and steps > 1 and sum(count == 1 for count in products) >= steps:
        kernels.add("unrolled")
    return sorted(kernels)


def found_in_torch(counts, steps):
    """As `found`, from {op: how often the profiler saw it} of one training step. The op over a
    whole sequence calls cuDNN's or oneDNN's where it is taken; ``aten::matmul`` is called in the
    forward pass only, by a layer."""
    if any(counts.get(op) for op in TORCH_CUDNN):
        return ["torch:cudnn"]
    if any(counts.get(op) for op in TORCH_ONEDNN):
        return ["torch:onednn"]
    if any(counts.get(op) for op in TORCH_NATIVE):
        return ["torch:native"]
    products = counts.get("aten::matmul", 0) + counts.get("aten::linear", 0)
    # One for each time step at least: Keras may multiply all steps' inputs at once before its loop.
    return ["torch:loop"] if steps and steps > 1 and products >= steps else []


def found_in_jax(primitives, steps):
    """As `found`, from the primitives of a traced training step: (names of the loops around it,
    its name)."""
    kernels = set()
    if any(name in ("rnn_fwd", "rnn_bwd") for _, name in primitives):
        kernels.add("jax:cudnn")
    products = [loops for loops, name in primitives if name == "dot_general"]
    if any(products):
        kernels.add("jax:scan")
    # At each time step inputs and state are multiplied, and both matrices get their gradients.
    if steps and steps > 1 and sum(not loops for loops in products) >= 4 * steps:
        kernels.add("unrolled")
    return sorted(kernels)


def expected(config):
    """The kernels that the label promises, or None where any will do. ``rnn.kernels`` is a list, or
    a mapping from ``rnn.options.class``, the cell, ``device.kind`` or ``build.framework``, looked
    for in this order, to a list or to such a mapping again. They have TensorFlow's names in it, or
    the framework's own, as has what is returned."""
    kernels, framework = config["rnn"].get("kernels"), config["build"].get("framework")
    options = config["rnn"].get("options") or {}
    cell = config.get("cell", {}).get("name")
    keys = (options.get("class"), cell, config["device"]["kind"], framework)
    while isinstance(kernels, dict):
        kernels = next((kernels[key] for key in keys if key in kernels), None)
    if kernels is None:
        return None
    # jax compiles every step: its loop is seen in the step before that.
    if config["build"].get("jit_compile") and framework != "keras3_jax":
        # What torch compiled does not say which ops it was.
        return None if framework == "keras3_torch" else ["xla"]
    names = NAMES.get(framework, {})
    return sorted(names.get(kernel, kernel) for kernel in kernels)


def contradicts(kernel):
    """Whether what ran is not what the label says. Nothing seen contradicts nothing."""
    if kernel["expected"] is None or not kernel["found"]:
        return False
    return sorted(kernel["found"]) != sorted(kernel["expected"])


def why_not_cudnn(facts):
    """Why cuDNN was not taken, in words; empty where nothing stands against it.

    `facts`: ``cell``, ``device`` (``cpu`` or ``gpu``), ``gpus`` (how many the framework sees),
    ``cuda_build``, ``use_cudnn``, ``activation``, ``recurrent_activation``,
    ``recurrent_dropout``, ``unroll``, ``use_bias``, ``reset_after``, ``mask``; what is unknown is
    absent or None.
    """
    told = []

    def say(condition, words):
        if condition and words not in told:
            told.append(words)

    known = facts.get
    say(known("device") == "cpu", "the device is a CPU")
    say(known("device") == "gpu" and known("gpus") == 0, "the framework sees no GPU")
    say(known("cuda_build") is False, "the build is without CUDA")
    say(known("use_cudnn") is False, "the layer was told not to use cuDNN")
    say(
        known("cell") in ("rnn_tanh", "rnn_relu"),
        "Keras has no cuDNN path for a simple recurrent layer",
    )
    for name, wanted in (("activation", "tanh"), ("recurrent_activation", "sigmoid")):
        simple = known("cell") in ("rnn_tanh", "rnn_relu")
        value = known(name)
        say(
            not simple and value is not None and value != wanted,
            "{} is {}, cuDNN has {} only".format(name, value, wanted),
        )
    say(known("recurrent_dropout"), "recurrent dropout, which cuDNN has not")
    say(known("unroll"), "the layer is unrolled")
    say(known("use_bias") is False, "the layer has no bias")
    say(known("reset_after") is False, "the GRU resets before the product (reset_after=False)")
    say(known("mask"), "the inputs are masked, and not surely padded on the right")
    return told


def layer_facts(layer):
    """What a Keras layer says about the conditions of cuDNN."""
    layer = getattr(layer, "forward_layer", layer)
    facts = {}
    for name in ("recurrent_dropout", "unroll", "use_bias", "reset_after", "use_cudnn"):
        value = getattr(layer, name, getattr(getattr(layer, "cell", None), name, None))
        facts[name] = value
    for name in ("activation", "recurrent_activation"):
        value = getattr(layer, name, None)
        facts[name] = getattr(value, "__name__", None)
    return facts
