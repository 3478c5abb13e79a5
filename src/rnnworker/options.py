"""Which ``rnn.options`` an implementation honours. Standard library only: the conductor refuses the
others when a grid is read, the worker before it makes a layer.

What a model gives its layer itself (``dropout``, ``return_sequences``, …) is no option here, nor is
what the canonical weights take the place of (initializers).
"""

GATED = ("lstm", "gru", "gru_reset_before")
_WEIGHTS = tuple(
    "{}_{}".format(part, what)
    for what in ("regularizer", "constraint")
    for part in ("kernel", "recurrent", "bias")
)
_LAYER = ("activation",) + _WEIGHTS
# Keras 3's SimpleRNN forgets the second.
_GATED_LAYER = ("recurrent_activation", "activity_regularizer")
# The options that make another function of the layer; the others choose how it is computed.
OF_THE_FUNCTION = _GATED_LAYER + _LAYER + ("use_bias",)

PREFIX = "rnn.options."


def is_own(implementation):
    """Whether it is a Python file of the user's own, and not one of rnnbench's by its name."""
    return str(implementation).endswith(".py")


def named(reference):
    """The options that an experiment's reference names (``rnn.options.NAME``): name → value."""
    return {key[len(PREFIX) :]: value for key, value in reference.items() if key.startswith(PREFIX)}


HONOURED = {
    "keras": _LAYER,
    "auto": _LAYER,
    "cudnn": _WEIGHTS,
    "cell": _LAYER,
    "unrolled": _LAYER,
    "block": (),
    "block_cell": (),
    "cudnn_raw": ("op",),
    "cudnn_compatible": (),
    "legacy_cudnn": _WEIGHTS,
    "contrib": ("class",),
    "contrib_cudnn": (),
    "native": (),
    "none": (),
    "fake": (),
}
_GENERIC = ("keras", "auto", "unrolled", "cell")
# Where cuDNN may be taken, `auto` leaves the way to multiply to it.
_WITHOUT_CUDNN = ("keras206_tensorflow1", "keras2_tensorflow1")


def honoured(config):
    """The options that the implementation of a run's config honours, sorted; of a file of the
    user's own what its choice lists. None where there is no such implementation."""
    rnn, cell = config["rnn"], config["cell"]["name"]
    name = rnn.get("implementation")
    if is_own(name):
        return sorted(rnn.get("options") or {})
    if name not in HONOURED:
        return None
    framework = (config.get("build") or {}).get("framework")
    found = list(HONOURED[name])
    if name in _GENERIC:
        found.append("use_bias")
        if cell in GATED:
            found += [
                one for one in _GATED_LAYER if name != "cell" or one != "activity_regularizer"
            ]
        # Keras 2.0.6 has it of SimpleRNN too; its successors take it there and do nothing.
        several = cell in GATED or framework == "keras206_tensorflow1"
        if several and (name != "auto" or framework in _WITHOUT_CUDNN):
            found.append("implementation")
    return sorted(found)


def not_honoured(config):
    """The options in a run's config that its implementation would ignore, in their order."""
    given = config["rnn"].get("options")
    if not given:
        return []
    known = honoured(config)
    return [] if known is None else [name for name in given if name not in known]
