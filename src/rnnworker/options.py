"""Lists the ``rnn.options`` that each implementation honours.

Standard library only. The controller rejects other options when it reads a grid, the worker before
it makes a layer. Arguments that the model itself passes to its layers (``dropout``,
``return_sequences``, …) are not options, nor are initializers, which the canonical weights replace.
"""

GATED = ("lstm", "gru", "gru_reset_before")
_WEIGHTS = tuple(
    "{}_{}".format(part, what)
    for what in ("regularizer", "constraint")
    for part in ("kernel", "recurrent", "bias")
)
_LAYER = ("activation",) + _WEIGHTS
# Keras 3's SimpleRNN ignores activity_regularizer.
_GATED_LAYER = ("recurrent_activation", "activity_regularizer")
# Options that change the layer's function; the others select how it is computed.
OF_THE_FUNCTION = _GATED_LAYER + _LAYER + ("use_bias",)

PREFIX = "rnn.options."


def is_user_file(implementation):
    """Returns whether `implementation` is a user-supplied Python file, not a built-in name."""
    return str(implementation).endswith(".py")


def named(reference):
    """Returns {name: value} of the options in an experiment's reference (``rnn.options.NAME``)."""
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
# Frameworks in which `auto` never uses cuDNN, so that it has the option `implementation`.
_WITHOUT_CUDNN = ("keras206_tensorflow1", "keras2_tensorflow1")


def honoured(config):
    """Returns the options that the implementation of a run's config honours, sorted: all that are
    given for a user-supplied file, None for an unknown implementation."""
    rnn, cell = config["rnn"], config["cell"]["name"]
    name = rnn.get("implementation")
    if is_user_file(name):
        return sorted(rnn.get("options") or {})
    if name not in HONOURED:
        return None
    framework = (config.get("build") or {}).get("framework")
    options = list(HONOURED[name])
    if name in _GENERIC:
        options.append("use_bias")
        if cell in GATED:
            options += _GATED_LAYER[:1] if name == "cell" else _GATED_LAYER
        # Keras 2.0.6 honours `implementation` in SimpleRNN too; later versions ignore it there.
        has_modes = cell in GATED or framework == "keras206_tensorflow1"
        if has_modes and (name != "auto" or framework in _WITHOUT_CUDNN):
            options.append("implementation")
    return sorted(options)


def not_honoured(config):
    """Returns the options in a run's config that its implementation ignores, in their order."""
    given = config["rnn"].get("options")
    if not given:
        return []
    known = honoured(config)
    return [] if known is None else [name for name in given if name not in known]
