"""The kernels of Keras: attributes of a layer.

- ``keras``, ``cell``: the loop over time steps around the layer's cell.
- ``unrolled``: one copy of the cell for each time step.
- ``auto``: what a layer does by default: cuDNN, whenever Keras can use it.
- ``cudnn``: cuDNN, or an error.

In tf.keras 2, a layer that could use cuDNN drops other inputs in each time step, and all other
kernels, of Keras too, the same ones in all time steps.
"""

import importlib

from rnnlayers.refusals import NO_CUDNN, NO_GPU, RAGGED, RECURRENT_DROPOUT, of_cell

USE_CUDNN = {"auto": "auto", "cudnn": True}
GPU_KERNEL = "_could_use_gpu_kernel"  # of tf.keras 2


def give(keras, layer, name):
    """Sets the attributes of a `layer`."""
    layer.unroll = name == "unrolled"
    wanted = USE_CUDNN.get(name, False)
    if hasattr(layer, GPU_KERNEL):
        setattr(layer, GPU_KERNEL, bool(wanted) and getattr(_made_anew(keras, layer), GPU_KERNEL))
    if hasattr(layer, "use_cudnn"):
        layer.use_cudnn = wanted
    if keras.is_keras3:
        layer.supports_jit = True
        if wanted and hasattr(layer, "use_cudnn"):
            layer.supports_jit = _made_anew(keras, layer).supports_jit


def cause(keras, layer, name):
    """Why ``cudnn`` or ``unrolled`` cannot compute `layer`; None if it can, and of all other
    kernels."""
    if name == "unrolled" and _is_ragged(layer):
        return RAGGED
    if name != "cudnn":
        return None
    can = (keras.layers.LSTM, keras.layers.GRU)
    if not isinstance(layer, can):
        return of_cell(layer.cell, ("LSTM", "GRU"))
    if layer.recurrent_dropout:
        return RECURRENT_DROPOUT
    is_usual = (
        keras.function(layer.activation) == "tanh"
        and keras.function(layer.recurrent_activation) == "sigmoid"
        and layer.use_bias
        and getattr(layer, "reset_after", True)
    )
    if not is_usual:
        return NO_CUDNN
    if not _has_gpu(keras.backend):
        return NO_GPU
    return None


def name_of(keras, layer):
    if layer.unroll:
        return "unrolled"
    wanted = getattr(layer, "use_cudnn", getattr(layer, GPU_KERNEL, False))
    if not wanted:
        return "keras"
    return "cudnn" if wanted is True and keras.is_keras3 else "auto"


def _made_anew(keras, layer):
    """A new layer of Keras's own class with the config of `layer`, not built: its attributes are
    what Keras decides."""
    plain = keras.layers.GRU
    if isinstance(layer, keras.layers.LSTM):
        plain = keras.layers.LSTM
    return plain.from_config(dict(plain.get_config(layer), unroll=False))


def _is_ragged(layer):
    """Whether a functional model of tf.keras 2 gives `layer` sequences of several lengths."""
    spec = getattr(getattr(layer, "input", None), "type_spec", None)
    return type(spec).__name__ == "RaggedTensorSpec"


def _has_gpu(backend):
    framework = importlib.import_module(backend)
    if backend == "torch":
        return framework.cuda.is_available()
    if backend == "jax":
        return any(device.platform == "gpu" for device in framework.devices())
    return bool(framework.config.list_physical_devices("GPU"))
