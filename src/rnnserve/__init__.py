"""Runtimes that answer with a finished Keras model: one file for each.

    from rnnserve import runtime

    chosen = runtime("onnxruntime")
    chosen.export(model, arrays, folder)  # Keras and the runtime's converter
    answer = chosen.load(folder, threads=1)  # the runtime alone
    outputs = answer(arrays)

``arrays`` and ``outputs`` are lists of NumPy arrays in the order of ``model.inputs`` and
``model.outputs``. A module has

- ``export(model, arrays, folder)``: writes its files into an empty folder. Raises
  `refusals.Refused` with the layer's name and the reason if the conversion cannot carry the model.
- ``load(folder, threads)``: returns the function from arrays to outputs; raises `Refused` if the
  runtime does not run with that number of threads.
- ``FIXED_SHAPES``: whether a file answers only arrays of the shapes that it was exported with.
- ``CODE``: the lines that serve with it, without rnnserve; ``HOW_MANY`` stands for their number.

It needs Python 3.11, Keras 3 on TensorFlow, and the runtime. It imports nothing of rnnbench.
"""

import importlib

NAMES = (
    "framework",
    "keras_predict",
    "keras_call",
    "tf_function",
    "tf_function_xla",
    "saved_model",
    "onnxruntime",
    "onnxruntime_operator",
    "openvino",
    "litert",
    "litert_plain",
    "torch_eager",
    "torch_compile",
)


def runtime(name):
    """The module of the runtime `name`, one of `NAMES`. Raises ValueError for another name."""
    if name not in NAMES:
        raise ValueError(f"no runtime {name!r}: one of {', '.join(NAMES)}")
    return importlib.import_module(f"rnnserve.{name}")
