"""Keras's own layers, as several implementations, and the ones that have no layer.

- ``keras``: the generic layer, a loop over time steps.
- ``cell``: ``RNN(LSTMCell(...))``, the generic loop over a cell, which multiplies inputs step by
  step. In Keras 3 on TensorFlow ``keras`` is the same code; Keras 2's LSTM and GRU are separate.
- ``unrolled``: ``unroll=True``, one copy of the cell in the graph per time step.
- ``auto``: the default of a user, ``LSTM(units)``, on cuDNN whenever Keras can use it.
- ``cudnn``: the layer on cuDNN, or an error. Keras 3 has the argument ``use_cudnn=True``, which
  Keras on torch ignores if cuDNN raises (`_set_fallback`). Keras 2 uses cuDNN if the arguments of
  the layer permit it; the attested kernel of the run shows whether it did.
- ``none``: of models without a recurrent layer; ``fake``: of the fake framework.
"""

import functools
import importlib
import inspect

from rnnworker.recurrent.cells import LAYERS, WITH_CUDNN, accepts, layer_class

# All other options belong to the layer. Not from `rnnworker.options`, which is no part of a run's
# identity: what decides about a layer must be.
CELL_OPTIONS = (
    "activation",
    "recurrent_activation",
    "use_bias",
    "kernel_regularizer",
    "recurrent_regularizer",
    "bias_regularizer",
    "activity_regularizer",
    "kernel_constraint",
    "recurrent_constraint",
    "bias_constraint",
    "dropout",
    "recurrent_dropout",
    "implementation",
    "seed",
)


def generic(keras, cell, units, options, use_cudnn=False):
    name, extra = LAYERS[cell]
    layer_type = layer_class(keras, name)
    settings = dict(extra, **options)
    if accepts(layer_type, "use_cudnn"):
        # Keras's default "auto" would use cuDNN where possible; `keras` is the generic kernel.
        settings["use_cudnn"] = use_cudnn
    if settings.get("reset_after") is False and not accepts(layer_type, "reset_after"):
        del settings["reset_after"]  # Keras 2.0.6 has no other GRU
    layer = layer_type(units, **settings)
    if use_cudnn is False and hasattr(layer, "_could_use_gpu_kernel"):
        layer._could_use_gpu_kernel = False  # Keras 2.x has no argument for it
    return layer


def _cell(keras, cell, units, options):
    name, settings = LAYERS[cell]
    inner = dict(settings)
    outer = {}
    for option in options:
        where = inner if option in CELL_OPTIONS else outer
        where[option] = options[option]
    cell_class = getattr(keras.layers, name + "Cell")
    return keras.layers.RNN(cell_class(units, **inner), **outer)


def _unrolled(keras, cell, units, options):
    return generic(keras, cell, units, dict(options, unroll=True))


def _auto(keras, cell, units, options):
    # A certificate makes layers that must run on cuDNN in the same process.
    _set_fallback(keras, allowed=True)
    return generic(keras, cell, units, options, use_cudnn="auto")


def _cudnn(keras, cell, units, options):
    if cell not in WITH_CUDNN:
        raise ValueError("Keras uses cuDNN for lstm and gru only, not for {}".format(cell))
    if options.get("recurrent_dropout"):
        raise ValueError("cuDNN has no recurrent dropout")
    layer = generic(keras, cell, units, options, use_cudnn=True)
    _set_fallback(keras, allowed=False)
    if getattr(layer, "_could_use_gpu_kernel", True) is False:
        raise ValueError("Keras would not use cuDNN for this layer")
    return layer


def _none(keras, cell, units, options):
    raise ValueError(
        "this model has a recurrent layer, so it cannot be built with rnn=none: write recurrent: "
        "true in its YAML and use another rnn"
    )


def _fake(keras, cell, units, options):
    raise ValueError("rnn.implementation fake goes with build.framework fake only")


# Implementation → its ``make``.
MAKE = {
    "keras": generic,
    "auto": _auto,
    "cudnn": _cudnn,
    "cell": _cell,
    "unrolled": _unrolled,
    "none": _none,
    "fake": _fake,
}


def _set_fallback(keras, allowed):
    """Lets Keras's layers on torch fall back to the loop if `allowed`, else makes them raise
    instead, which costs no time in a step. Otherwise, if cuDNN raises, Keras runs its own loop,
    even with ``use_cudnn=True`` and in the middle of a training.

    Source: Keras 3.15, keras/src/backend/torch/rnn.py, ``lstm`` and ``gru``, which call
    ``_fallback_lstm`` and ``_fallback_gru`` after ``except Exception: pass``."""
    backend = getattr(keras, "backend", None)
    if not hasattr(backend, "backend") or backend.backend() != "torch":
        return
    module = importlib.import_module("keras.src.backend.torch.rnn")
    for cell in WITH_CUDNN:
        name = "_fallback_" + cell
        loop = getattr(module, name, None)
        if loop is None:  # this Keras has another fallback, or none
            continue
        loop = getattr(loop, "loop", loop)
        cudnn = getattr(module, "_cudnn_" + cell)
        setattr(module, name, loop if allowed else _raise_instead(loop, cudnn))


def _raise_instead(loop, cudnn):
    """A replacement of `loop` that calls `cudnn` again, which raises its error, and never runs the
    loop on data."""

    @functools.wraps(loop)
    def raise_error(*arguments, **settings):
        values = inspect.signature(loop).bind(*arguments, **settings).arguments
        device = values["inputs"].device
        if device.type == "meta":  # Keras infers the output shapes
            return loop(*arguments, **settings)
        if device.type == "cuda":
            names = inspect.signature(cudnn).parameters
            taken = {name: values[name] for name in names if name in values}
            cudnn(device=device, **taken)
        raise RuntimeError(
            "Keras would run its loop in place of cuDNN: the inputs are on {}, or cuDNN failed "
            "once".format(device)
        )

    raise_error.loop = loop
    return raise_error
