"""Keras on torch takes cuDNN or, where cuDNN raises, its own loop, without a word: also with
``use_cudnn=True``, and in the midst of a training.

Source: Keras 3.15, keras/src/backend/torch/rnn.py, ``lstm`` and ``gru``: ``except Exception: pass``
before ``_fallback_lstm`` and ``_fallback_gru``. These are replaced, which costs a step nothing.
"""

import functools
import importlib
import inspect

MODULE = "keras.src.backend.torch.rnn"
CELLS = ("lstm", "gru")


def promise(keras, kept):
    """From now on Keras's layers run cuDNN or raise (`kept`), or fall back as Keras has it."""
    backend = getattr(keras, "backend", None)
    if not hasattr(backend, "backend") or backend.backend() != "torch":
        return
    module = importlib.import_module(MODULE)
    for cell in CELLS:
        name = "_fallback_" + cell
        loop = getattr(module, name, None)
        if loop is None:  # this Keras falls back elsewhere, or not at all
            continue
        loop = getattr(loop, "loop", loop)
        setattr(module, name, _refusal(loop, getattr(module, "_cudnn_" + cell)) if kept else loop)


def _refusal(loop, cudnn):
    """In the place of `loop`: calls `cudnn` once more, which says why it cannot."""

    @functools.wraps(loop)
    def refuse(*arguments, **settings):
        given = inspect.signature(loop).bind(*arguments, **settings).arguments
        device = given["inputs"].device
        if device.type == "meta":  # Keras looks which shapes come out
            return loop(*arguments, **settings)
        if device.type == "cuda":
            wanted = inspect.signature(cudnn).parameters
            cudnn(device=device, **{name: given[name] for name in wanted if name in given})
        raise RuntimeError(
            "Keras would run its loop in place of cuDNN: the inputs are on {}, or cuDNN failed "
            "once".format(device)
        )

    refuse.loop = loop
    return refuse
