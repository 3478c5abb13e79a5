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
- ``IMPORTS``, which may be missing: modules that ``load`` needs. Runtimes with the same ones are
  forked from a process that has imported them; not for torch, of which nobody has shown that a
  forked process is as fast (``benchmarks/forked.py``).

A file of one's own with the first four is a runtime, too; its name is that of the file.

It needs Python 3.11, Keras 3 on TensorFlow, and the runtime. It imports nothing of rnnbench.
"""

import importlib
import importlib.util
from pathlib import Path

OWN = ".py"
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


def name_of(chosen):
    """The name of a runtime: one of `NAMES`, or that of a file."""
    return Path(chosen).stem if chosen.endswith(OWN) else chosen


def runtime(chosen):
    """The module of a runtime, one of `NAMES` or the path of a file. Raises ValueError for another
    name, and for a file that lacks a part of a runtime."""
    if not chosen.endswith(OWN):
        if chosen not in NAMES:
            raise ValueError(f"no runtime {chosen!r}: one of {', '.join(NAMES)}")
        return importlib.import_module(f"rnnserve.{chosen}")
    spec = importlib.util.spec_from_file_location(f"rnnserve_own_{name_of(chosen)}", chosen)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for part in ("export", "load", "FIXED_SHAPES", "CODE"):
        if not hasattr(module, part):
            raise ValueError(f"{chosen} has no {part}")
    return module
