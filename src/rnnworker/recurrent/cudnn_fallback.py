"""Keras on torch runs its own loop if cuDNN raises, even with ``use_cudnn=True``."""

import functools
import importlib
import inspect

from rnnworker.recurrent.cells import WITH_CUDNN


def set_fallback(keras, allowed):
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
