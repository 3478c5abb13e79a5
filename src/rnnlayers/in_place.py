"""Gives the recurrent layers of a finished model another kernel.

A kernel of Keras is a choice of attributes of the layer; any other kernel is a class with the one
method ``inner_loop``, which the layer gets in front of its own class. The layer's ``__class__``
remains Keras's: what is saved, cloned or compared by class is a plain layer.
"""

import importlib
import itertools

from rnnlayers import keras2_call, keras_kernels
from rnnlayers.own import Own
from rnnlayers.refusals import BACKEND, CONSTANTS, OWN_METHOD, XLA, CannotCompute, refusal
from rnnlayers.which_keras import PACKAGES, keras_of

OF_KERAS = ("keras", "cell", "unrolled", "auto", "cudnn")
OTHERS = ("block", "block_cell", "native")
NAMES = OF_KERAS + OTHERS
COMPUTING = ("call", "inner_loop", "_compute_carry_and_output", "_compute_carry_and_output_fused")
HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
PEEPHOLES = "PeepholeLSTMCell"  # of tf.keras.experimental, derived from that of an LSTM

_classes = {}  # (kernel, class of the layer) → the class with the kernel's method
_class_of = object.__dict__["__class__"]


def use(model, kernel):
    """Lets every LSTM, GRU and SimpleRNN of `model` compute with `kernel`, one of `kernels()` or a
    class with the method ``inner_loop`` (`own.Own`). Returns the model.

    They are found wherever Keras tracks them: in wrappers, nested and subclassed models, a user's
    own layers, and as the cell of an ``RNN``. A compiled model makes its functions anew. Raises
    `CannotCompute` if one layer cannot have the kernel; the model then remains as it was. A layer
    that was not called yet raises it when it is called, and so does a kernel without masks when it
    is called with one.

    Another compiled model with the same layers keeps the functions that it has made, and so does a
    user's own ``tf.function`` that is neither a method nor an attribute of the model or of a layer.
    """
    name, module = _named(kernel)
    keras = keras_of(model)
    layers = recurrent_layers(model)
    if not layers:
        raise CannotCompute(
            "{} has no LSTM, GRU or SimpleRNN; a subclassed model may have to be called "
            "first".format(model.name)
        )
    fault = _fault(keras, layers, name, module)
    if fault is not None:
        raise fault
    is_compiled = getattr(model, "_jit_compile", False)
    if module is not None and is_compiled and not keras.is_keras3:
        raise refusal(model, name, XLA)  # Keras 3 leaves out XLA, with a warning

    for layer in layers:
        _class_of.__set__(layer, layer.__class__)
        cause = _cause(keras, layer, name, module)
        if cause:
            _class_of.__set__(layer, _with_kernel(keras, type(layer), name, _refusing(name, cause)))
            continue
        keras_kernels.give(keras, layer, name)
        if module is not None:
            _class_of.__set__(layer, _with_kernel(keras, type(layer), name, module.methods(keras)))
            if keras.is_keras3:
                layer.supports_jit = keras.backend in module.COMPILED_ON
    for part in [model] + _inside(model):
        _forget_functions(keras, part)
    return model


def kernels(model=None):
    """The names of all kernels; of a `model`, {name: None, or why it cannot compute the model}."""
    if model is None:
        return NAMES
    keras = keras_of(model)
    found = {}
    for name in NAMES:
        _, module = _named(name)
        fault = _fault(keras, recurrent_layers(model), name, module)
        found[name] = str(fault) if fault is not None else None
    return found


def kernel_of(layer):
    """The name of the kernel of a recurrent layer: that of its class (``block``, ``block_cell``,
    ``native``), else what its attributes say: ``keras``, ``unrolled``, ``auto`` or ``cudnn``."""
    name = getattr(type(layer), "rnnlayers_kernel", None)
    return name or keras_kernels.name_of(keras_of(layer), layer)


def recurrent_layers(model):
    """The layers of `model`, at any depth, whose cell is an LSTM, GRU or SimpleRNN of Keras, or
    derived from one; each once, in the order of the model."""
    keras = keras_of(model)
    found = []
    for layer in [model] + _inside(model):
        if not isinstance(layer, keras.layers.RNN) or layer in found:
            continue
        cells = getattr(layer.cell, "cells", None) or [layer.cell]
        if any(isinstance(cell, tuple(keras.cells.values())) for cell in cells):
            found.append(layer)
    return found


def _inside(model):
    return [layer for layer in model._flatten_layers() if layer is not model]


def _named(kernel):
    """(name of a kernel, its module or its `Own`); None in place of a module for one of Keras's."""
    if isinstance(kernel, type):
        return kernel.__name__, Own(kernel)
    if kernel not in NAMES:
        raise ValueError("no kernel {!r}: one of {}".format(kernel, ", ".join(NAMES)))
    if kernel in OF_KERAS:
        return kernel, None
    return kernel, importlib.import_module("rnnlayers." + kernel)


def _fault(keras, layers, name, module):
    """The `CannotCompute` of the first of the `layers` that was called and that the kernel `name`
    cannot compute; None if there is none."""
    for layer in layers:
        cause = _cause(keras, layer, name, module)
        if cause and layer.built:
            return refusal(layer, name, cause)
    return None


def _cause(keras, layer, name, module):
    """Why the kernel `name` cannot compute `layer`; None if it can."""
    if module is None:
        return keras_kernels.cause(keras, layer, name)
    if keras.backend not in module.BACKENDS:
        return BACKEND.format(" or ".join(module.BACKENDS), keras.backend)
    own = own_method(layer) or own_hook(layer.cell)
    if own:
        return OWN_METHOD.format(own)
    if getattr(layer, "_num_constants", None):
        return CONSTANTS
    return module.cause(keras, layer)


def own_method(layer, names=COMPUTING):
    """``CLASS.METHOD`` of those called `names` that an author's subclass of a recurrent `layer` or
    of its cell computes itself; None if all are those of Keras's layer and cell."""
    cell = getattr(layer, "cell", layer)  # Keras 2.0.6 has no cells
    # The layer's own `__call__` remains, around that of a kernel.
    for part, name in [*itertools.product((layer, cell), names), (cell, "__call__")]:
        for base in part.__class__.__mro__:
            if name not in vars(base):
                continue
            package = base.__module__.partition(".")[0]
            if package not in PACKAGES or base.__name__ == PEEPHOLES:
                return "{}.{}".format(base.__name__, name)
            break
    return None


def own_hook(first, *parts):
    """``CLASS.hook of torch``, with the class of the `first`, if an author has registered a hook on
    one of these layers, cells or tensors of torch; None if none has one."""
    if any(getattr(part, hooks, None) for part in (first, *parts) for hooks in HOOKS):
        return "{}.hook of torch".format(first.__class__.__name__)
    return None


def _refusing(name, cause):
    """The method of a layer that is refused when it is called."""

    class Refusing:
        def inner_loop(self, *arguments, **settings):
            raise refusal(self, name, cause)

    return Refusing


def _with_kernel(keras, plain, name, methods):
    """The class `plain` of a layer with the method of a kernel, which is in the class `methods`."""
    if (methods, plain) not in _classes:
        bases = (methods, plain)
        settings = {
            "__class__": property(lambda layer: plain),
            "__module__": __name__,
            "__reduce_ex__": _as_plain,
            "rnnlayers_kernel": name,
        }
        if not keras.is_keras3:
            settings["call"] = keras2_call.not_converted()
        _classes[methods, plain] = type(plain.__name__, bases, settings)
    return _classes[methods, plain]


def _as_plain(layer, protocol):
    """A copy and a pickle of a layer are plain layers."""
    found = list(super(type(layer), layer).__reduce_ex__(protocol))
    found[1] = tuple(layer.__class__ if each is type(layer) else each for each in found[1])
    return tuple(found)


def _forget_functions(keras, model):
    """Lets a model make its functions of a step anew, with the layers' present kernels."""
    for function in ("train_function", "test_function", "predict_function"):
        if hasattr(model, function):
            setattr(model, function, None)
    # A tf.function that is a method keeps what it has traced for each object; any other in itself.
    for kind in type(model).__mro__:
        for method in vars(kind).values():
            traced = getattr(method, "_descriptor_cache", {})
            traced.pop(model, None)
    for name, value in list(vars(model).items()):
        if hasattr(value, "experimental_get_tracing_count"):
            setattr(model, name, value._clone(None))
    if hasattr(model, "train_tf_function"):  # tf.keras 2
        model.train_tf_function = None
    if keras.is_keras3 and getattr(model, "_jit_compile", None):
        # Keras checks again whether every layer supports it, but only what changes.
        model.jit_compile = False
        model.jit_compile = True
