"""Prevents the silent fallback of Keras on torch: if cuDNN raises, Keras runs its own loop, even
with ``use_cudnn=True`` and in the middle of a training.

Source: Keras 3.15, keras/src/backend/torch/rnn.py, ``lstm`` and ``gru``: ``except Exception: pass``
before ``_fallback_lstm`` and ``_fallback_gru``. This module replaces the latter two, which costs no
time in a step.
"""

import functools
import importlib
import inspect

MODULE = "keras.src.backend.torch.rnn"
CELLS = ("lstm", "gru")


def set_fallback(keras, allowed):
    """Lets Keras's layers fall back to the loop if `allowed`, else makes them raise instead."""
    backend = getattr(keras, "backend", None)
    if not hasattr(backend, "backend") or backend.backend() != "torch":
        return
    module = importlib.import_module(MODULE)
    for cell in CELLS:
        name = "_fallback_" + cell
        loop = getattr(module, name, None)
        if loop is None:  # this Keras has another fallback, or none
            continue
        loop = getattr(loop, "loop", loop)
        setattr(
            module,
            name,
            loop if allowed else _raise_instead(loop, getattr(module, "_cudnn_" + cell)),
        )


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
            cudnn(device=device, **{name: values[name] for name in names if name in values})
        raise RuntimeError(
            "Keras would run its loop in place of cuDNN: the inputs are on {}, or cuDNN failed "
            "once".format(device)
        )

    raise_error.loop = loop
    return raise_error
