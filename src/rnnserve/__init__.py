"""Runtimes that answer with a finished Keras model: one file for each.

    from rnnserve import runtime

    chosen = runtime("litert", xnnpack=False)
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

Further arguments of ``export`` and ``load`` are the runtime's options, with defaults. ``CODE`` may
be a function of options. The option ``precision``, one of `PRECISIONS`, says in what numbers the
runtime keeps weights or computes. A file of one's own with the first four is a runtime, too.

It needs Python 3.11, Keras 3 on TensorFlow, and the runtime. It imports nothing of rnnbench.
"""

import functools
import importlib
import importlib.util
import inspect
from pathlib import Path

OWN = ".py"
IMPLEMENTATIONS = (
    "framework",
    "keras_predict",
    "keras_call",
    "tf_function",
    "saved_model",
    "onnxruntime",
    "onnxruntime_operator",
    "openvino",
    "litert",
    "torch_eager",
)
PARTS = ("export", "load", "FIXED_SHAPES", "CODE")
FULL_PRECISION = "float32"
PRECISIONS = (FULL_PRECISION, "bfloat16", "float16", "int8")


class Runtime:
    """A module with the options that are chosen. Raises ValueError for one that it lacks."""

    def __init__(self, module, options):
        self.module = module
        self.options = options
        known = _options_of(module.export, 3) + _options_of(module.load, 2)
        for name in options:
            if name not in known:
                said = ", ".join(sorted(set(known))) or "none"
                raise ValueError(f"{module.__name__} has no option {name}; its options: {said}")

    @property
    def has_fixed_shapes(self):
        return self.module.FIXED_SHAPES

    @property
    def imports(self):
        return getattr(self.module, "IMPORTS", ())

    @property
    def precision(self):
        return precision_of(self.options)

    @property
    def export_key(self):
        """Equal for runtimes whose files are the same."""
        return self.module.export, tuple(sorted(self._chosen(self.module.export, 3).items()))

    def export(self, model, arrays, folder):
        self.module.export(model, arrays, folder, **self._chosen(self.module.export, 3))

    def load(self, folder, threads):
        return self.module.load(folder, threads, **self._chosen(self.module.load, 2))

    def code(self, threads):
        code = self.module.CODE
        if callable(code):
            code = code(**self._chosen(code, 0))
        return code.replace("HOW_MANY", str(threads))

    def _chosen(self, function, given):
        """The options that a function takes."""
        known = _options_of(function, given)
        return {name: value for name, value in self.options.items() if name in known}


def precision_of(options):
    """The precision that a runtime's options ask for. Raises ValueError for an unknown one."""
    precision = options.get("precision", FULL_PRECISION)
    if precision not in PRECISIONS:
        raise ValueError(f"no precision {precision!r}: one of {', '.join(PRECISIONS)}")
    return precision


def _options_of(function, given):
    """The names of a function's arguments, without the first ones, which are `given`."""
    return list(inspect.signature(function).parameters)[given:]


@functools.cache
def _own_module(path, content):
    """The module of a file with that `content`; once, so that options share its export."""
    spec = importlib.util.spec_from_file_location(f"rnnserve_own_{Path(path).stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def runtime(implementation, **options):
    """A runtime by its implementation, one of `IMPLEMENTATIONS` or the path of a file. Raises
    ValueError for another one, for a file that lacks a part, and for an unknown option."""
    if implementation.endswith(OWN):
        module = _own_module(implementation, Path(implementation).read_bytes())
    elif implementation in IMPLEMENTATIONS:
        module = importlib.import_module(f"rnnserve.{implementation}")
    else:
        raise ValueError(f"no runtime {implementation!r}: one of {', '.join(IMPLEMENTATIONS)}")
    for part in PARTS:
        if not hasattr(module, part):
            raise ValueError(f"{implementation} has no {part}")
    return Runtime(module, options)
